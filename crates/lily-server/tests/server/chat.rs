//! `POST /v1/chat/completions` beyond the cases.

use crate::app::{Setup, app};
use crate::cases::{case, with};
use serde_json::{Value, json};

fn hi() -> Value {
    json!({"messages": [{"role": "user", "content": "Hi"}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_the_shape_that_clients_know() {
    let reply = app("A thought.\n</think>\n\nHello.").chat(&hi()).await.json();
    assert!(reply["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")));
    assert_eq!((&reply["object"], &reply["model"]), (&json!("chat.completion"), &json!("scripted")));
    let choice = &reply["choices"][0];
    assert_eq!(
        (&choice["index"], &choice["finish_reason"], &choice["logprobs"]),
        (&json!(0), &json!("stop"), &Value::Null)
    );
    let message = &choice["message"];
    assert_eq!((&message["role"], &message["content"]), (&json!("assistant"), &json!("Hello.")));
    assert_eq!(message["reasoning_content"], "A thought.");
    let usage = &reply["usage"];
    let number = |path: &str| {
        usage.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {usage}"))
    };
    assert_eq!(number("/total_tokens"), number("/prompt_tokens") + number("/completion_tokens"));
    assert!(number("/completion_tokens_details/reasoning_tokens") >= 2);
    assert!(number("/completion_tokens_details/reasoning_tokens") < number("/completion_tokens"));
    assert_eq!(number("/prompt_tokens_details/cached_tokens"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_request_reports_cached_tokens() {
    let app = app("</think>\n\nHello.");
    let first = app.chat(&hi()).await;
    app.idle().await;
    let second = app.chat(&hi()).await;
    assert_eq!(first.number("/usage/prompt_tokens"), second.number("/usage/prompt_tokens"));
    assert!(second.number("/usage/prompt_tokens_details/cached_tokens") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_the_shape_that_clients_know() {
    let reply = app("A thought.\n</think>\n\nHello, you.").chat(&with(&hi(), &json!({"stream": true}))).await;
    assert_eq!(reply.headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(reply.headers["cache-control"], "no-cache");
    let chunks = reply.chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    assert_eq!(chunks.last().map(|chunk| &chunk["choices"][0]["delta"]), Some(&json!({})));
    assert_eq!(reply.joined("reasoning_content"), "A thought.");
    assert_eq!(reply.joined("content"), "Hello, you.");
    assert!(chunks.len() > 5, "it came in pieces: {}", chunks.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_choices() {
    let mut setup = Setup::new("");
    setup.script.confidence = 0.0;
    let app = setup.start();
    let request = with(&hi(), &json!({"n": 3, "max_tokens": 10, "temperature": 1, "enable_thinking": false}));
    let whole = app.chat(&request).await.json();
    let choices = whole["choices"].as_array().expect("choices");
    assert_eq!(
        choices.iter().map(|choice| choice["index"].as_u64()).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2)]
    );
    assert_eq!(whole["usage"]["completion_tokens"], 30, "{whole}");
    let stream =
        app.chat(&with(&request, &json!({"stream": true, "stream_options": {"include_usage": true}}))).await;
    let chunks = stream.chunks();
    for index in 0..3 {
        let of_choice = |chunk: &&Value| chunk["choices"][0]["index"] == index;
        let reasons =
            chunks.iter().filter(of_choice).filter(|chunk| !chunk["choices"][0]["finish_reason"].is_null());
        assert_eq!(reasons.count(), 1);
        let roles = chunks
            .iter()
            .filter(of_choice)
            .filter(|chunk| chunk["choices"][0]["delta"]["role"] == "assistant");
        assert_eq!(roles.count(), 1);
    }
    let usage = &chunks.last().expect("usage")["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&whole["usage"]["prompt_tokens"], &json!(30))
    );
    assert_eq!(app.chat(&with(&request, &json!({"n": 9}))).await.status, 400);
    assert_eq!(app.chat(&with(&request, &json!({"n": 0}))).await.status, 400);
}

/// The last tokens of a prompt tell whether the model will think.
#[tokio::test(flavor = "multi_thread")]
async fn switches_of_thinking() {
    let app = app("Hello.");
    let thinks = async |fields: Value| {
        let reply = app.chat(&with(&hi(), &fields)).await;
        assert_eq!(reply.status, 200, "{fields}: {}", reply.body);
        !reply.json()["choices"][0]["message"]["reasoning_content"].is_null()
    };
    let kwargs = |on: bool| json!({"chat_template_kwargs": {"enable_thinking": on}});
    assert!(thinks(json!({})).await);
    assert!(!thinks(case("REAS-05")["input"]["request"].clone()).await);
    assert!(!thinks(case("REAS-06")["input"]["request"].clone()).await);
    assert!(!thinks(json!({"extra_body": {"enable_thinking": false}})).await, "a literal extra_body counts");
    assert!(!thinks(json!({"reasoning_effort": "none"})).await);
    assert!(thinks(json!({"reasoning_effort": "high"})).await);
    assert!(
        thinks(with(&kwargs(true), &json!({"reasoning_effort": "none"}))).await,
        "the switch is stronger"
    );
    assert_eq!(app.chat(&with(&hi(), &json!({"reasoning_effort": "very"}))).await.status, 400);
    let contradiction = with(&kwargs(true), &json!({"enable_thinking": false}));
    assert_eq!(app.chat(&with(&hi(), &contradiction)).await.status, 400);
    let reserved = json!({"chat_template_kwargs": {"messages": []}});
    assert_eq!(app.chat(&with(&hi(), &reserved)).await.status, 400);
}

/// REAS-18: the request is stronger than the server's setting, unless the setting is forced.
#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_switch() {
    let request = &case("REAS-18")["input"]["request"];
    for forced in [false, true] {
        let mut setup = Setup::new("Hello.");
        (setup.config.thinking, setup.config.force_thinking) = (Some(false), forced);
        let app = setup.start();
        let unasked = app.chat(&hi()).await.json();
        assert_eq!(unasked["choices"][0]["message"]["content"], "Hello.");
        let asked = app.chat(request).await;
        if forced {
            assert_eq!(
                (asked.status.as_u16(), &asked.json()["error"]["param"]),
                (400, &json!("chat_template_kwargs.enable_thinking"))
            );
        } else {
            assert_eq!(asked.json()["choices"][0]["message"]["reasoning_content"], "Hello.");
        }
    }
}

/// A forced setting refuses whatever asks for something else, by the name that was sent.
#[tokio::test(flavor = "multi_thread")]
async fn forced_thinking_is_not_asked_away() {
    let messages = json!([{"role": "user", "content": "Hi"}]);
    for forced in [false, true] {
        let mut setup = Setup::new("</think>\n\nHello.");
        (setup.config.thinking, setup.config.force_thinking) = (Some(forced), true);
        let app = setup.start();
        for asked in [false, true] {
            let effort = if asked { "high" } else { "none" };
            let kind = if asked { "adaptive" } else { "disabled" };
            for (path, field, value, param) in [
                ("/v1/chat/completions", "enable_thinking", json!(asked), "enable_thinking"),
                (
                    "/v1/chat/completions",
                    "chat_template_kwargs",
                    json!({"enable_thinking": asked}),
                    "chat_template_kwargs.enable_thinking",
                ),
                ("/v1/chat/completions", "reasoning_effort", json!(effort), "reasoning_effort"),
                ("/v1/responses", "reasoning", json!({"effort": effort}), "reasoning.effort"),
                ("/v1/messages", "thinking", json!({"type": kind}), "thinking"),
                ("/v1/messages", "output_config", json!({"effort": "high"}), "output_config.effort"),
            ] {
                let mut body = match path {
                    "/v1/responses" => json!({"input": "Hi"}),
                    _ => json!({"messages": messages, "max_tokens": 20}),
                };
                body[field] = value;
                let reply = app.post(path, &body).await;
                let is_other = if field == "output_config" { !forced } else { asked != forced };
                assert_eq!(reply.status, if is_other { 400 } else { 200 }, "{body}: {}", reply.body);
                if is_other {
                    assert!(
                        reply.error().contains(&format!("{param}: thinking is always")),
                        "{}",
                        reply.body
                    );
                }
            }
        }
    }
}

/// Content that is null is none.
#[tokio::test(flavor = "multi_thread")]
async fn content_is_needed() {
    let app = app("</think>\n\nHello.");
    for role in ["user", "system"] {
        let hi = json!({"role": "user", "content": "Hi"});
        for message in [json!({"role": role, "content": null}), json!({"role": role})] {
            let reply = app.chat(&json!({"messages": [message, hi]})).await;
            assert_eq!(reply.status, 400, "{}", reply.body);
            assert!(reply.error().contains(&format!("a {role} message needs `content`")), "{}", reply.body);
        }
    }
}

/// REAS-02, REAS-03: cut off while thinking.
#[tokio::test(flavor = "multi_thread")]
async fn cut_off_while_thinking() {
    for id in ["REAS-02", "REAS-03"] {
        let (input, check) = (&case(id)["input"], &case(id)["check"]);
        let text = input["model_text"].as_str().expect("a text");
        let app = app(&format!("{text} write a long list of everything and more"));
        let tokens = crate::app::tokenizer().encode(text).len();
        let request = with(&input["request"], &json!({"max_tokens": tokens}));
        let whole = app.chat(&with(&request, &json!({"stream": false}))).await.json();
        let message = &whole["choices"][0]["message"];
        assert_eq!(
            (&message["content"], &message["reasoning_content"]),
            (&json!(""), &check["reasoning_content"])
        );
        assert_eq!(whole["choices"][0]["finish_reason"], check["finish_reason"]);
        let stream = app.chat(&with(&request, &json!({"stream": true}))).await;
        assert_eq!(json!(stream.joined("reasoning_content")), check["reasoning_content"]);
        assert_eq!(stream.joined("content"), "");
        assert_eq!(stream.finish_reasons(), ["length"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_cannot_be_honoured_are_named() {
    let app = app("</think>\n\nHello.");
    let refused = [
        ("tool_choice", json!("required")),
        ("functions", json!([{"name": "f"}])),
        ("audio", json!({"voice": "alloy"})),
        ("modalities", json!(["text", "audio"])),
        ("prediction", json!({"type": "content", "content": "x"})),
        ("web_search_options", json!({})),
        ("service_tier", json!("priority")),
        ("store", json!(true)),
        ("guided_json", json!({})),
        ("verbosity", json!("low")),
    ];
    for (field, value) in refused {
        let reply = app.chat(&with(&hi(), &json!({field: value}))).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["error"]["param"]), (400, &json!(field)), "{value}");
    }
    let accepted = json!({
        "user": "u", "metadata": {"a": "b"}, "prompt_cache_key": "k", "safety_identifier": "s", "unknown": {"x": 1},
        "response_format": {"type": "text"}, "modalities": ["text"], "service_tier": "auto", "store": false,
        "functions": null, "tools": [], "tool_choice": "none", "parallel_tool_calls": true, "logit_bias": {},
        "frequency_penalty": 0, "presence_penalty": 0, "stop": null, "n": 1, "seed": null, "top_k": 20, "min_p": 0,
        "repetition_penalty": 1.0, "stream_options": null, "reasoning_effort": "medium", "model": "anything",
    });
    let reply = app.chat(&with(&hi(), &accepted)).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["model"], "scripted", "the answer says who answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_kinds_are_named() {
    let app = app("</think>\n\nHello.");
    for (field, value) in [
        ("messages", json!("Hi")),
        ("messages[0]", json!(["Hi"])),
        ("messages[0].role", json!([{"content": "Hi"}])),
        ("messages[0]", json!([{"role": "robot", "content": "Hi"}])),
        ("max_tokens", json!(0)),
        ("max_tokens", json!(1.5)),
        ("max_tokens", json!("5")),
        ("stream", json!("yes")),
        ("stop", json!(5)),
        ("stop", json!([""])),
        ("stop[0]", json!([1])),
        ("seed", json!("x")),
        ("tools[0].type", json!([{}])),
        ("tools[0].function", json!([{"type": "function"}])),
        ("tools[0].function.name", json!([{"type": "function", "function": {"name": "a b"}}])),
        ("chat_template_kwargs", json!([])),
        ("chat_template_kwargs.raise_exception", json!({"raise_exception": "x"})),
        ("chat_template_kwargs.namespace", json!({"namespace": 1, "enable_thinking": true})),
        ("stream_options", json!(true)),
    ] {
        let root = field.split(['[', '.']).next().expect("a root");
        let reply = app.chat(&with(&hi(), &json!({root: value}))).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!(field)),
            "{value}: {}",
            reply.body
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_of_the_prompt_on_request() {
    let mut setup = Setup::new("</think>\n\nHello.");
    setup.script.prefill_time = std::time::Duration::from_millis(5);
    let app = setup.start();
    let messages = json!([{"role": "user", "content": "word ".repeat(500)}]);
    let request = json!({"messages": messages, "stream": true, "stream_options": {"include_progress": true}});
    let reply = app.chat(&request).await;
    let lines: Vec<&str> = reply.body.lines().filter(|line| line.starts_with(": prefill ")).collect();
    assert!(lines.len() >= 2, "{lines:?}");
    assert_eq!(reply.joined("content"), "Hello.");
}
