//! Every parameter on every route, as data: taken with the type that it has, refused by name where it means nothing, and
//! never lost between two places.

use crate::app::{App, Reply, app};
use crate::cases::with;
use serde_json::{Map, Value, json};

/// Routes, what a request to each needs, and the parameters that each takes beside [`EVERYWHERE`].
fn routes() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let chat = || {
        "messages max_tokens max_completion_tokens logprobs top_logprobs n stop stream_options enable_thinking \
         preserve_thinking chat_template_kwargs reasoning_effort tools tool_choice parallel_tool_calls response_format \
         metadata"
            .split_whitespace()
            .collect()
    };
    let anthropic = || {
        "messages system max_tokens stop_sequences enable_thinking preserve_thinking chat_template_kwargs \
         reasoning_effort thinking output_config output_format tools tool_choice metadata cache_control betas \
         anthropic_beta anthropic_version user_profile_id workspace_id billing_policy"
            .split_whitespace()
            .collect()
    };
    let completions =
        "prompt max_tokens logprobs n stop stream_options response_format metadata best_of echo";
    let responses = "input instructions max_output_tokens top_logprobs stop stream_options enable_thinking \
        preserve_thinking chat_template_kwargs reasoning_effort reasoning text tools tool_choice parallel_tool_calls \
        metadata store include previous_response_id";
    vec![
        ("/v1/chat/completions", json!({"messages": messages, "max_tokens": 5}), chat()),
        ("/tokenize", json!({"messages": messages}), chat()),
        (
            "/v1/completions",
            json!({"prompt": "Hi", "max_tokens": 5}),
            completions.split_whitespace().collect(),
        ),
        (
            "/v1/responses",
            json!({"input": "Hi", "max_output_tokens": 5}),
            responses.split_whitespace().collect(),
        ),
        ("/v1/messages", json!({"messages": messages, "max_tokens": 5}), anthropic()),
        ("/v1/messages/count_tokens", json!({"messages": messages}), anthropic()),
    ]
}

/// What all of them take.
const EVERYWHERE: [&str; 19] = [
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "repetition_window",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "seed",
    "stream",
    "deadline_seconds",
    "extra_body",
    "user",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
];

/// Every parameter of this API and of its originals that some route does not take, with a value that asks for something.
fn asks() -> Value {
    let asks = json!({
        "audio": {"voice": "a"}, "background": true, "best_of": 2, "cache_control": {"type": "ephemeral"},
        "chat_template_kwargs": {"enable_thinking": true}, "container": "c",
        "context_management": {"edits": [{"type": "compact_20260112"}]}, "conversation": "c",
        "diagnostics": {"previous_message_id": "m"}, "echo": true, "enable_thinking": true,
        "fallback_credit_token": "t", "fallbacks": [{"model": "m"}], "function_call": "auto",
        "functions": [{"name": "f"}], "include": ["reasoning.encrypted_content"], "inference_geo": "eu",
        "input": "x", "instructions": "x", "logprobs": true, "max_completion_tokens": 5, "max_output_tokens": 5,
        "max_tokens": 5,
    });
    let more = json!({
        "access_programs": {"cyber": "standard"}, "background_options": {"completion_window": "2h"},
        "compaction": {"type": "x"}, "generate": false, "image": {"context_compression": "enabled"},
        "moderation": {"model": "m"}, "thread": {"type": "create"}, "workspace_id": "w",
        "max_tool_calls": 1, "mcp_servers": [{"name": "m"}], "messages": [], "modalities": ["audio"],
        "n": 2, "output_config": {"effort": "high"}, "output_format": {"type": "text"}, "parallel_tool_calls": false,
        "prediction": {"type": "content", "content": "x"}, "preserve_thinking": true, "previous_response_id": "r",
        "prompt": "x", "reasoning": {"effort": "low"}, "reasoning_effort": "low",
        "response_format": {"type": "json_object"}, "service_tier": "flex", "speed": "fast", "stop": ["x"],
        "stop_sequences": ["x"], "stream_options": {"include_usage": true}, "suffix": "x", "system": "x",
        "text": {"verbosity": "low"}, "thinking": {"type": "enabled"}, "tool_choice": "required", "tools": [{"type": "function"}],
        "top_logprobs": 2, "truncation": "auto", "user_profile_id": "u", "verbosity": "high", "web_search_options": {},
    });
    with(&asks, &more)
}

fn assert_named(reply: &Reply, path: &str, name: &str, value: &Value) {
    assert_eq!(reply.status, 400, "{path} {name}: {value}: {}", reply.body);
    assert!(reply.error().starts_with(name), "{path} {name}: {value}: {}", reply.error());
}

async fn refused(app: &App, path: &str, body: &Value, name: &str, value: &Value) {
    assert_named(&app.post(path, &with(body, &json!({name: value}))).await, path, name, value);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_of_another_route_is_named() {
    let app = app("</think>Hello.");
    for (path, body, own) in routes() {
        let mut nothing = body.clone();
        for (name, value) in asks().as_object().expect("an object") {
            if !own.contains(&name.as_str()) {
                refused(&app, path, &body, name, value).await;
                nothing[name] = Value::Null;
            }
        }
        let reply = app.post(path, &nothing).await;
        assert_eq!(reply.status, 200, "{path}: null is as good as absent: {}", reply.body);
    }
}

/// The document promises nothing that a route does not take.
#[tokio::test(flavor = "multi_thread")]
async fn the_document_lists_what_is_taken() {
    let app = app("");
    let document = app.get("/openapi.json").await.json();
    for (path, _, own) in routes().into_iter().filter(|(path, ..)| *path != "/tokenize") {
        let body =
            &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let schema = body.as_str().expect("a reference").trim_start_matches('#');
        let properties = document.pointer(&format!("{schema}/properties")).and_then(Value::as_object);
        let names = properties.expect("properties").keys();
        let unknown: Vec<&String> = names
            .filter(|name| !own.contains(&name.as_str()) && !EVERYWHERE.contains(&name.as_str()))
            .collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
}

/// Values of wrong types, for every parameter that there is.
fn wrong() -> Value {
    let many: Map<String, Value> = (0..17).map(|k| (format!("k{k}"), json!("v"))).collect();
    let long_key = Map::from_iter([("k".repeat(65), json!("v"))]);
    let wrong = json!({
        "model": [5, ["m"]], "user": [5, {}, ["u"], true], "prompt_cache_key": [5, {}], "prompt_cache_retention": [24],
        "safety_identifier": [5, []], "temperature": ["1", true, []], "top_p": ["1", 0], "top_k": ["1", 0.5, -2],
        "min_p": ["0"], "repetition_penalty": ["1", 0], "repetition_window": [-1, "all"], "presence_penalty": [[], 3],
        "frequency_penalty": ["1", -3], "seed": ["1", 0.5, {}],
        "logit_bias": [[], 5, {"05": 1}, {"+5": 1}, {" 5": 1}, {"5.0": 1}, {"-5": 1}, {"": 1}, {"5": "1"}, {"5": 101}],
        "stream": ["true", 1], "deadline_seconds": ["1", 0, -1], "extra_body": [5, [], "x"],
        "messages": [5, {}, "Hi", [5], [{}], [{"role": 5}]], "system": [5, {}, [5], [{"type": "image"}]],
        "prompt": [5, {}, [], [true]], "input": [5, {}, [5]], "instructions": [5, ["x"]],
        "max_tokens": ["5", 0, -1, 1.5], "max_completion_tokens": ["5", 0], "max_output_tokens": ["5", 0],
        "n": ["1", 0, 1.5], "best_of": ["1", 0], "echo": ["no", true], "stop": [5, {}, [5], [""]], "stop_sequences": [5, {}, [5], [""]],
    });
    let more = json!({
        "enable_thinking": ["false", 0], "preserve_thinking": [1], "chat_template_kwargs": [5, [], {"enable_thinking": "x"}],
        "reasoning_effort": [5, "much", true], "reasoning": ["low", {"effort": 5}, {"effort": "much"}, {"summary": "long"},
            {"mode": "pro"}, {"context": "some"}, {"context": 5}],
        "thinking": [true, "enabled", {}, {"type": 5}, {"type": "x"}, {"type": "enabled", "budget_tokens": "x"},
            {"type": "enabled", "display": "loud"}, {"type": "enabled", "display": 5}],
        "output_config": ["high", {"effort": 5}, {"effort": "much"}, {"format": 5}, {"format": {"type": "x"}},
            {"task_budget": {"total": 5}}],
        "output_format": [5, {}, {"type": "x"}],
        "tools": [5, {}, [5], [{"type": 5}]],
        "tool_choice": [5, true, [], {}, {"type": 5}, {"type": "banana"}], "parallel_tool_calls": ["no", 0],
        "response_format": ["json", 5, {}, {"type": "x"}, {"type": "json_schema"}, {"type": "text", "schema": {}},
            {"type": "json_schema", "json_schema": {"schema": 5}}, {"type": "json_object", "schema": 5},
            {"type": "json_schema", "json_schema": {"name": 5, "schema": {}}}],
        "text": ["x", {"verbosity": 5}, {"verbosity": "high"}, {"format": {"type": "text", "schema": {}}}],
        "store": ["yes", 1], "include": ["x", {}, [5], ["everything"]], "previous_response_id": [5],
        "top_logprobs": ["1", 21, -1], "metadata": ["x", [], 5],
        "cache_control": [5, "ephemeral", {}, {"type": "forever"}, {"type": "ephemeral", "ttl": 5}],
        "betas": ["x", [5]], "anthropic_beta": ["x"], "anthropic_version": [5], "user_profile_id": [5],
        "workspace_id": [5], "billing_policy": ["self"],
        "prompt_cache_options": [5, {"mode": 5}, {"ttl": 30}, {"prewarm": true}, {"comparison_response_id": "r"}],
        "stream_options": [5, [], {}, {"include_usage": true}],
        // Where metadata is OpenAI's: pairs of strings.
        "pairs": [{"a": 1}, {"a": null}, {"a": ["b"]}, {"a": "v".repeat(513)}, long_key, many],
    });
    with(&wrong, &more)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_the_wrong_type_is_named() {
    let app = app("</think>Hello.");
    let (wrong, nothing) = (wrong(), Vec::new());
    for (path, body, own) in routes() {
        for name in own.iter().chain(&EVERYWHERE) {
            let values = wrong[*name].as_array().unwrap_or_else(|| match *name {
                // Chat completions has a switch of this name, and completions a number.
                "logprobs" => &nothing,
                name => panic!("no wrong values of {name}"),
            });
            for value in values {
                refused(&app, path, &body, name, value).await;
            }
        }
        let logprobs = if path == "/v1/completions" { json!([true, 21]) } else { json!([1, "yes"]) };
        if own.contains(&"logprobs") {
            for value in logprobs.as_array().expect("values") {
                refused(&app, path, &body, "logprobs", value).await;
            }
        }
        let of_metadata =
            if path.contains("messages") { json!([{"user_id": 5}]) } else { wrong["pairs"].clone() };
        for value in of_metadata.as_array().expect("values") {
            refused(&app, path, &body, "metadata", value).await;
        }
        let options = json!({"stream": true, "stream_options": {"include_usage": 1}});
        if own.contains(&"stream_options") {
            for option in ["include_usage", "include_progress", "include_obfuscation"] {
                let options = with(&options, &json!({"stream_options": {option: 1}}));
                assert_named(&app.post(path, &with(&body, &options)).await, path, "stream_options", &options);
            }
            let padded = json!({"stream": true, "stream_options": {"include_obfuscation": true}});
            assert_named(&app.post(path, &with(&body, &padded)).await, path, "stream_options", &padded);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_is_taken() {
    let app = app("</think>Hello.");
    let pairs: Map<String, Value> = (0..16).map(|k| (format!("k{k}"), json!("v".repeat(512)))).collect();
    let idle = json!({
        "user": "u", "prompt_cache_options": {"mode": "implicit", "ttl": "30m", "prewarm": false}, "prompt_cache_key": "k", "prompt_cache_retention": "24h", "safety_identifier": "s",
        "some_other_field": {"of": "nobody"},
    });
    for (path, body, _) in routes() {
        let metadata =
            if path.contains("messages") { json!({"user_id": null}) } else { Value::Object(pairs.clone()) };
        let reply = app.post(path, &with(&with(&body, &idle), &json!({"metadata": metadata}))).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    }
    let anthropic = json!({
        "max_tokens": 5, "betas": ["context-management-2025-06-27"], "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}],
        "tools": [{"name": "f", "input_schema": {}, "cache_control": {"type": "ephemeral"}, "defer_loading": false,
            "allowed_callers": ["direct"], "eager_input_streaming": true}],
        "service_tier": "auto", "thinking": {"type": "adaptive", "display": "summarized"}, "speed": "standard",
        "context_management": {"edits": []}, "mcp_servers": [], "container": null, "inference_geo": "global",
        "fallbacks": "default", "workspace_id": "w", "billing_policy": {"type": "billing_policy", "bill_to": "self"},
    });
    let reply = app.post("/v1/messages", &anthropic).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let chat = json!({
        "messages": [{"role": "user", "content": "Hi", "name": "Ann"}], "max_tokens": 5, "modalities": ["text"],
        "verbosity": "medium", "service_tier": "auto", "store": false, "n": 1, "truncation": "disabled",
    });
    let reply = app.chat(&chat).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let responses = json!({
        "input": "Hi", "max_output_tokens": 5, "background": false, "truncation": "disabled", "service_tier": "default",
        "text": {"verbosity": "medium"}, "reasoning": {"summary": "auto"}, "max_tool_calls": null,
        "include": ["web_search_call.results", "file_search_call.results", "reasoning.encrypted_content"],
    });
    let reply = app.post("/v1/responses", &responses).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// A parameter in two places says one thing, or the request is refused.
#[tokio::test(flavor = "multi_thread")]
async fn two_places_of_one_parameter() {
    let app = app("</think>Hello.");
    for (path, body, _) in routes() {
        let twice = |outer: Value, inner: Value| with(&body, &with(&outer, &json!({"extra_body": inner})));
        for (outer, inner, fault) in [
            (json!({"seed": 1}), json!({"seed": 2}), Some("extra_body.seed")),
            (json!({"seed": 1}), json!({"seed": 1}), None),
            (json!({"seed": null}), json!({"seed": 1}), None),
            (json!({"seed": 1}), json!({"seed": null}), None),
            (json!({}), json!({"seed": "x"}), Some("seed")),
            (json!({"model": "a"}), json!({"model": "b"}), Some("extra_body.model")),
            (json!({"unknown": 1}), json!({"unknown": 2}), Some("extra_body.unknown")),
            (json!({"a\nb": 1}), json!({"a\nb": 2}), Some("extra_body.(a name)")),
            (json!({}), json!({"extra_body": {"seed": 1}}), Some("extra_body.extra_body")),
            (json!({}), json!({"extra_body": null}), None),
        ] {
            let body = twice(outer, inner);
            let reply = app.post(path, &body).await;
            match fault {
                Some(name) => assert_named(&reply, path, name, &body),
                None => assert_eq!(reply.status, 200, "{path} {body}: {}", reply.body),
            }
        }
    }
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    let anthropic = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5});
    for (path, body, more, name) in [
        (
            "/v1/messages",
            &anthropic,
            json!({"output_format": format, "output_config": {"format": format}}),
            "output_format",
        ),
        (
            "/v1/messages",
            &anthropic,
            json!({"thinking": {"type": "enabled"}, "reasoning_effort": "none"}),
            "reasoning_effort",
        ),
        (
            "/v1/messages",
            &anthropic,
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "none"}}),
            "output_config",
        ),
        (
            "/v1/responses",
            &json!({"input": "Hi"}),
            json!({"reasoning": {"effort": "low"}, "reasoning_effort": "none"}),
            "reasoning_effort",
        ),
        ("/tokenize", &json!({"prompt": "Hi"}), json!({"content": "Ho"}), "content"),
    ] {
        assert_named(&app.post(path, &with(body, &more)).await, path, name, &more);
    }
    assert_eq!(app.post("/tokenize", &json!({"prompt": "Hi", "content": "Hi"})).await.status, 200);
}

/// An effort is a switch of thinking on every route that has one.
#[tokio::test(flavor = "multi_thread")]
async fn efforts() {
    let app = app("A thought.\n</think>\n\nHello.");
    let hi = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100});
    for (asked, thinks) in [
        (json!({}), false),
        (json!({"output_config": {"effort": "low"}}), true),
        (json!({"output_config": {"effort": "max"}, "thinking": {"type": "adaptive"}}), true),
        (json!({"output_config": {"effort": "high"}, "thinking": {"type": "disabled"}}), false),
        (json!({"reasoning_effort": "low"}), true),
        (json!({"output_config": {"effort": "high"}, "enable_thinking": false}), false),
    ] {
        let reply = app.post("/v1/messages", &with(&hi, &asked)).await.json();
        assert_eq!(reply["content"][0]["type"] == "thinking", thinks, "{asked}: {reply}");
    }
}

/// Thinking of earlier turns stays where that is what a request's context management says.
#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_kept() {
    let app = app("Hello.");
    let body = json!({"messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "A thought.", "signature": ""}, {"type": "text", "text": "a"}]},
        {"role": "user", "content": "And?"},
    ]});
    let count = async |more: Value| app.post("/v1/messages/count_tokens", &with(&body, &more)).await;
    let keep = |keep: Value| json!({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": keep}]}});
    let plain = count(json!({})).await.number("/input_tokens");
    let kept = count(json!({"preserve_thinking": true})).await.number("/input_tokens");
    assert!(kept > plain, "{kept} {plain}");
    assert_eq!(count(keep(json!("all"))).await.number("/input_tokens"), kept);
    assert_eq!(count(keep(json!({"type": "all"}))).await.number("/input_tokens"), kept);
    let reply = count(keep(json!({"type": "thinking_turns", "value": 1}))).await;
    assert_named(&reply, "count_tokens", "context_management.edits[0].keep", &Value::Null);
    let items = json!([
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "A thought."}]},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "And?"},
    ]);
    let mut tokens = Vec::new();
    for context in ["auto", "current_turn", "all_turns"] {
        let reasoning = json!({"context": context, "effort": "none"});
        let reply = app.post("/v1/responses", &json!({"input": items, "reasoning": reasoning})).await;
        tokens.push(reply.number("/usage/input_tokens"));
    }
    assert_eq!((tokens[0], tokens[2] > tokens[1]), (tokens[1], true), "{tokens:?}");
}
