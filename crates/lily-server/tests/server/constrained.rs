//! Answers that are held to a form, on every route.

use crate::app::{App, Setup, app};
use crate::cases::with;
use serde_json::{Value, json};

/// What the model would say; behind the object it would go on.
const JSON: &str = "I think.\n</think>\n\n{\"city\": \"Oslo\", \"days\": 3} And that is all there is to say.";
const CALL: &str = "I think.\n</think>\n\n<tool_call>\n<function=get>\n<parameter=city>\nOslo\n</parameter>\n\
    <parameter=days>\n3\n</parameter>\n</function>\n</tool_call>";

fn schema() -> Value {
    json!({
        "type": "object", "required": ["city", "days"], "additionalProperties": false,
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    })
}

fn hi(more: &Value) -> Value {
    with(&json!({"messages": [{"role": "user", "content": "Weather?"}]}), more)
}

fn tools(strict: bool) -> Value {
    let other = json!({"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}});
    json!([{"type": "function", "function": {"name": "get", "parameters": schema(), "strict": strict}}, other])
}

fn format() -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "weather", "schema": schema(), "strict": true}})
}

fn parsed(text: &Value) -> Value {
    let text = text.as_str().unwrap_or_else(|| panic!("no text: {text}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

async fn ok(app: &App, path: &str, body: &Value) -> Value {
    let reply = app.post(path, body).await;
    assert_eq!(reply.status, 200, "{path} {body}: {}", reply.body);
    reply.json()
}

const ANSWER: &str = "{\"city\": \"Oslo\", \"days\": 3}";

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_ends_the_answer_where_it_is_complete() {
    let app = app(JSON);
    for form in [format(), json!({"type": "json_object"})] {
        let request = hi(&json!({"response_format": form}));
        let choice = ok(&app, "/v1/chat/completions", &request).await["choices"][0].clone();
        assert_eq!(
            (&choice["message"]["content"], &choice["finish_reason"]),
            (&json!(ANSWER), &json!("stop"))
        );
        assert_eq!(choice["message"]["reasoning_content"], "I think.");
        let stream = app.chat(&with(&request, &json!({"stream": true}))).await;
        assert_eq!(
            (stream.joined("content").as_str(), stream.finish_reasons()),
            (ANSWER, vec!["stop".to_owned()])
        );
    }
    let text =
        json!({"format": {"type": "json_schema", "name": "weather", "schema": schema(), "strict": true}});
    let response = ok(&app, "/v1/responses", &json!({"input": "Weather?", "text": text})).await;
    assert_eq!(response["output"][1]["content"][0]["text"], ANSWER);
    assert_eq!(
        (&response["status"], &response["text"]),
        (&json!("completed"), &text),
        "the format is repeated"
    );
    for form in [
        json!({"output_config": {"format": {"type": "json_schema", "schema": schema()}}}),
        json!({"output_format": {"type": "json_schema", "schema": schema()}}),
    ] {
        let body = with(&hi(&form), &json!({"max_tokens": 500, "thinking": {"type": "enabled"}}));
        let message = ok(&app, "/v1/messages", &body).await;
        assert_eq!(
            (&message["content"][1]["text"], &message["stop_reason"]),
            (&json!(ANSWER), &json!("end_turn"))
        );
    }
    let plain = Setup::new("{\"city\": \"Oslo\", \"days\": 3} and more").start();
    let body = json!({"prompt": "JSON:", "response_format": format()});
    assert_eq!(ok(&plain, "/v1/completions", &body).await["choices"][0]["text"], ANSWER);
}

/// A model that would say something else says what it must; all choices of an answer do.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_can_be_said() {
    let mut setup = Setup::new("Sure! Here is your JSON.");
    // As good as no opinion: the draw is among all that is allowed.
    setup.script.confidence = 0.5;
    let app = setup.start();
    let schema = json!({"type": "object", "required": ["ok", "kind"], "additionalProperties": false,
        "properties": {"ok": {"type": "boolean"}, "kind": {"enum": ["a", "bc", 7]}}});
    let form = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let request = hi(&json!({
        "response_format": form, "enable_thinking": false, "temperature": 1, "n": 4, "seed": 3, "max_tokens": 400,
        "top_k": 0, "top_p": 1, "logprobs": true, "top_logprobs": 3,
    }));
    let reply = ok(&app, "/v1/chat/completions", &request).await;
    for choice in reply["choices"].as_array().expect("choices") {
        assert_eq!(choice["finish_reason"], "stop");
        let value = parsed(&choice["message"]["content"]);
        assert!(
            value["ok"].is_boolean() && [json!("a"), json!("bc"), json!(7)].contains(&value["kind"]),
            "{value}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_says_so() {
    let app = app(JSON);
    let request = hi(&json!({"response_format": format(), "max_tokens": 12}));
    let choice = ok(&app, "/v1/chat/completions", &request).await["choices"][0].clone();
    assert_eq!(choice["finish_reason"], "length");
    let request = hi(&json!({"tools": tools(true), "tool_choice": "required", "max_tokens": 20}));
    let choice = ok(&app, "/v1/chat/completions", &request).await["choices"][0].clone();
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["tool_calls"]),
        (&json!("length"), &Value::Null)
    );
}

/// The engine ends an answer behind its one call, enforced or not: its usage is exact, and nothing was cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn one_enforced_call_and_its_usage() {
    let app = app(CALL);
    let one = json!({
        "tools": tools(true), "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 500,
    });
    for cached in [false, true] {
        let reply = ok(&app, "/v1/chat/completions", &hi(&one)).await;
        assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls", "{reply}");
        let count = reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        assert_eq!(count.is_some_and(|count| count > 0), cached, "{reply}");
        app.idle().await;
    }
    let metrics = app.engine.metrics();
    assert_eq!((metrics.finished, metrics.cancelled), (2, 0), "{metrics:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_enforced_on_every_route() {
    // The model would rather not call.
    for (text, forced) in [(CALL, false), ("I think.\n</think>\n\nIt rains.", true)] {
        let mut setup = Setup::new(text);
        if forced {
            setup.script.confidence = 0.5;
        }
        let app = setup.start();
        let random = json!({"temperature": 1, "seed": 5, "max_tokens": 3000, "enable_thinking": !forced});
        let named = json!({"type": "function", "function": {"name": "get"}});
        for choice in [json!("required"), named] {
            let only = if forced { json!([tools(true)[0]]) } else { tools(true) };
            let request = with(
                &hi(&random),
                &json!({"tools": only, "tool_choice": choice, "parallel_tool_calls": false}),
            );
            let choice = ok(&app, "/v1/chat/completions", &request).await["choices"][0].clone();
            if choice["finish_reason"] == "length" && forced {
                // A text of random tokens need not come to its end.
                continue;
            }
            assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
            let calls = choice["message"]["tool_calls"].as_array().expect("calls").clone();
            assert_eq!((calls.len(), &calls[0]["function"]["name"]), (1, &json!("get")));
            let arguments = parsed(&calls[0]["function"]["arguments"]);
            assert!(arguments["city"].is_string() && arguments["days"].is_i64(), "{arguments}");
            if !forced {
                assert_eq!(arguments, json!({"city": "Oslo", "days": 3}));
            }
        }
    }
    let app = app(CALL);
    let flat = json!([{"type": "function", "name": "get", "parameters": schema(), "strict": true}]);
    for choice in [json!("required"), json!({"type": "function", "name": "get"})] {
        let body = json!({"input": "Weather?", "tools": flat, "tool_choice": choice});
        let response = ok(&app, "/v1/responses", &body).await;
        let call = response["output"].as_array().expect("items").last().expect("an item").clone();
        assert_eq!(parsed(&call["arguments"]), json!({"city": "Oslo", "days": 3}));
    }
    let flat = json!([{"name": "get", "input_schema": schema()}, {"name": "other", "input_schema": {}}]);
    for choice in [json!({"type": "any"}), json!({"type": "tool", "name": "get"})] {
        let body = hi(&json!({
            "tools": flat, "tool_choice": choice, "max_tokens": 500, "thinking": {"type": "enabled"},
        }));
        let message = ok(&app, "/v1/messages", &body).await;
        let block = message["content"].as_array().expect("blocks").last().expect("a block").clone();
        assert_eq!(
            (&block["input"], &message["stop_reason"]),
            (&json!({"city": "Oslo", "days": 3}), &json!("tool_use"))
        );
    }
}

/// A strict tool that need not be called: text stays free, and its arguments cannot be wrong.
#[tokio::test(flavor = "multi_thread")]
async fn strict_tools() {
    let free = app("I think.\n</think>\n\nNo need to call <b>anything</b>.");
    let request = hi(&json!({"tools": tools(true)}));
    let choice = ok(&free, "/v1/chat/completions", &request).await["choices"][0].clone();
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("No need to call <b>anything</b>."), &json!("stop"))
    );
    // The model forgets a parameter and writes a word for a number.
    let mut setup = Setup::new(
        "</think>\n\nLooking.\n<tool_call>\n<function=get>\n<parameter=days>\nthree\n</parameter>\n</function>\n</tool_call>",
    );
    setup.script.confidence = 25.0;
    let wrong = setup.start();
    for strict in [true, false] {
        let request = hi(&json!({"tools": tools(strict), "temperature": 1, "seed": 1, "max_tokens": 2000}));
        let choice = ok(&wrong, "/v1/chat/completions", &request).await["choices"][0].clone();
        assert_eq!(choice["message"]["content"], "Looking.");
        let Some(call) = choice["message"]["tool_calls"].get(0) else {
            assert_eq!(choice["finish_reason"], "length", "{choice}");
            continue;
        };
        let arguments = parsed(&call["function"]["arguments"]);
        assert_eq!(arguments["city"].is_string() && arguments["days"].is_i64(), strict, "{arguments}");
    }
}

/// A stop string could cut a call that must be made, and nothing would be left of it.
#[tokio::test(flavor = "multi_thread")]
async fn no_stop_string_beside_a_required_call() {
    let app = app(CALL);
    let flat = json!([{"type": "function", "name": "get", "parameters": schema()}]);
    let messages = json!([{"role": "user", "content": "Weather?"}]);
    let vendors = json!([{"name": "get", "input_schema": schema()}]);
    let named = json!({"type": "function", "function": {"name": "get"}});
    for (path, body, param) in [
        (
            "/v1/chat/completions",
            hi(&json!({"tools": tools(false), "tool_choice": "required", "stop": "Os"})),
            "stop",
        ),
        (
            "/v1/chat/completions",
            hi(&json!({"tools": tools(true), "tool_choice": named, "stop": ["Os"]})),
            "stop",
        ),
        (
            "/v1/responses",
            json!({"input": "x", "tools": flat, "tool_choice": "required", "stop": "Os"}),
            "stop",
        ),
        (
            "/v1/messages",
            json!({"messages": messages, "max_tokens": 50, "tools": vendors, "tool_choice": {"type": "any"}, "stop_sequences": ["Os"]}),
            "stop_sequences",
        ),
    ] {
        let reply = app.post(path, &body).await;
        assert_eq!(reply.status, 400, "{path} {body}: {}", reply.body);
        assert!(
            reply.error().contains(&format!("{param}: cannot be combined with a required call")),
            "{}",
            reply.body
        );
    }
    let body = hi(&json!({"tools": tools(false), "tool_choice": "required", "stop": []}));
    assert_eq!(app.chat(&body).await.json()["choices"][0]["finish_reason"], "tool_calls");
}

/// A required call of a tool whose schema is beyond the limits has free arguments; a strict one is refused with its
/// place.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_raw_text_beyond_the_limits() {
    let app = app(CALL);
    let long = json!({"type": "object", "properties": {"a": {"type": "string", "minLength": 20_000}}});
    let other = json!({"type": "function", "function": {"name": "other"}});
    let tools = |strict: bool| json!([other, {"type": "function", "function": {"name": "get", "parameters": long, "strict": strict}}]);
    let request = hi(&json!({"tools": tools(false), "tool_choice": "required", "max_tokens": 30}));
    assert_eq!(app.chat(&request).await.status, 200);
    for choice in ["required", "auto"] {
        let reply = app.chat(&hi(&json!({"tools": tools(true), "tool_choice": choice}))).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!("tools[1].function.parameters"))
        );
        assert!(reply.error().contains("at properties.a: it is too complex"), "{}", reply.error());
    }
}

/// Errors repeat words of a request and nothing else of it.
#[tokio::test(flavor = "multi_thread")]
async fn errors_repeat_words_only() {
    let app = app(JSON);
    for (word, is_shown) in [
        ("plain_word", true),
        ("a\u{1b}[31m\nsecret", false),
        ("two secret", false),
        (&*"secret".repeat(20), false),
    ] {
        let bad = json!({"type": "object", "properties": {word: {"type": "string", "not": {}}}});
        let deep = json!({"type": "object", "properties": {"a": {"$ref": format!("#/$defs/{word}")}}, "$defs": {word: {"not": {}}}});
        let lost = json!({"type": "object", "required": [word]});
        let chat = "/v1/chat/completions";
        let user = |content: Value| json!([{"role": "user", "content": content}]);
        let mut bodies = vec![
            (chat, json!({"messages": [{"role": word, "content": "x"}]})),
            (chat, json!({"messages": user(json!([{"type": word, "text": "x"}]))})),
            (chat, json!({"messages": [{"role": "tool", "tool_call_id": word, "content": "x"}]})),
            (
                chat,
                json!({"messages": user(json!("x")), "tools": [{"type": word}], "tool_choice": {"type": word}}),
            ),
            ("/v1/responses", json!({"input": [{"role": word, "content": "x"}]})),
            ("/v1/responses", json!({"input": [{"role": "user", "content": [{"type": word, "text": "x"}]}]})),
            ("/v1/responses", json!({"input": [{"type": word, "content": "x"}]})),
            ("/v1/responses", json!({"input": "x", "include": [word]})),
            (
                "/v1/responses",
                json!({"input": [{"type": "function_call_output", "call_id": word, "output": "x"}]}),
            ),
            ("/v1/messages", json!({"max_tokens": 5, "messages": [{"role": word, "content": "x"}]})),
            (
                "/v1/messages",
                json!({"max_tokens": 5, "messages": user(json!([{"type": word, "text": "x"}]))}),
            ),
            (
                "/v1/messages",
                json!({"max_tokens": 5, "messages": user(json!([{"type": "tool_result", "tool_use_id": word}]))}),
            ),
        ];
        for schema in [
            bad,
            deep,
            lost,
            json!({"type": "object", word: {}}),
            json!({"type": word}),
            json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{}], word: 1}}}),
        ] {
            let nested = json!([{"type": "function", "function": {"name": "f", "parameters": schema, "strict": true}}]);
            let flat = json!([{"type": "function", "name": "f", "parameters": schema, "strict": true}]);
            let vendors = json!([{"name": "f", "input_schema": schema, "strict": true}]);
            let format = json!({"type": "json_schema", "schema": schema});
            let deeper = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
            bodies.push((chat, hi(&json!({"tools": nested}))));
            bodies.push((chat, hi(&json!({"response_format": deeper}))));
            bodies.push(("/v1/completions", json!({"prompt": "x", "response_format": deeper})));
            bodies.push(("/v1/responses", json!({"input": "x", "tools": flat})));
            bodies.push(("/v1/responses", json!({"input": "x", "text": {"format": format}})));
            bodies.push((
                "/v1/messages",
                json!({"max_tokens": 5, "messages": user(json!("x")), "tools": vendors}),
            ));
            bodies.push((
                "/v1/messages",
                json!({"max_tokens": 5, "messages": user(json!("x")), "output_config": {"format": format}}),
            ));
        }
        let (mut refused, mut shown) = (0, 0);
        for (path, body) in bodies {
            let mut body = body;
            if body["max_tokens"].is_null() && path != "/v1/responses" {
                body["max_tokens"] = json!(5);
            }
            let reply = app.post(path, &body).await;
            refused += usize::from(reply.status != 200);
            if reply.status != 200 {
                let message = reply.error();
                assert!(
                    !message.contains("secret") && !message.contains('\u{1b}'),
                    "{path} {body}: {message}"
                );
                shown += usize::from(message.contains(word));
            }
        }
        assert!(refused > 25, "{refused}");
        assert_eq!(shown > 15, is_shown, "{word}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_enforced_is_refused_with_its_place() {
    let app = app(JSON);
    let bad = json!({"type": "object", "properties": {"a": {"type": "string", "not": {}}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": bad}});
    let strict = json!([{"type": "function", "function": {"name": "f", "parameters": bad, "strict": true}}]);
    let flat = json!([{"type": "function", "name": "f", "parameters": bad, "strict": true}]);
    let text = json!({"format": {"type": "json_schema", "name": "x", "schema": bad}});
    let chat = "/v1/chat/completions";
    for (path, body, param) in [
        (chat, hi(&json!({"response_format": format})), "response_format.json_schema.schema"),
        (chat, hi(&json!({"response_format": format, "stream": true})), "response_format.json_schema.schema"),
        (
            "/v1/completions",
            json!({"prompt": "x", "response_format": format}),
            "response_format.json_schema.schema",
        ),
        (chat, hi(&json!({"tools": strict})), "tools[0].function.parameters"),
        ("/v1/responses", json!({"input": "x", "tools": flat}), "tools[0].parameters"),
        ("/v1/responses", json!({"input": "x", "text": text}), "text.format.schema"),
    ] {
        let reply = app.post(path, &body).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!(param)),
            "{path} {body}"
        );
        assert!(reply.error().contains("properties.a"), "{}", reply.error());
    }
    for (body, param) in [
        (json!({"response_format": {"type": "xml"}}), "response_format.type"),
        (json!({"response_format": {}}), "response_format.type"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {}}}),
            "response_format.json_schema.schema",
        ),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"tool_choice": "required", "tools": []}), "tool_choice"),
        (json!({"guided_json": {}}), "guided_json"),
    ] {
        let reply = app.chat(&hi(&body)).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["error"]["param"]), (400, &json!(param)), "{body}");
    }
    // A tool that is not strict and has the same schema is no reason to refuse.
    let loose = json!([{"type": "function", "function": {"name": "f", "parameters": bad}}]);
    let request = hi(&json!({"tools": loose, "tool_choice": "required", "max_tokens": 30}));
    assert_eq!(app.chat(&request).await.status, 200);
}
