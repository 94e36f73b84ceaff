//! Bodies that no client would send: whatever comes, the answer is an answer or a refusal in the format's own shape.

use crate::app::{App, app};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

/// A working body for each route that generates or renders.
fn routes() -> Vec<(&'static str, Value)> {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
    let messages = json!([
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "t"},
        {"role": "user", "content": "u"},
    ]);
    let schema = json!({
        "type": "object", "required": ["a"], "additionalProperties": false, "$defs": {"d": {"enum": ["x", 1, null]}},
        "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/d"}]}},
    });
    let strict = json!({"name": "f", "parameters": schema, "strict": true});
    let tools = json!([{"type": "function", "function": strict}]);
    let flat = json!({"type": "json_schema", "name": "n", "schema": schema, "strict": true});
    let chat = json!({
        "messages": messages, "tools": tools, "tool_choice": "auto", "max_tokens": 8, "temperature": 0.5, "top_p": 0.9,
        "top_k": 5, "min_p": 0.1, "seed": 1, "stop": [], "logit_bias": {"1": 1}, "logprobs": true, "top_logprobs": 2,
        "n": 2, "stream": true, "stream_options": {"include_usage": true},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}},
        "chat_template_kwargs": {"enable_thinking": false}, "reasoning_effort": "low", "extra_body": {"user": "u"},
    });
    let anthropic = json!({
        "max_tokens": 8, "system": [{"type": "text", "text": "s"}], "thinking": {"type": "enabled", "budget_tokens": 9},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "r", "signature": ""},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
            ]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
        ],
        "tools": [{"name": "f", "input_schema": schema, "strict": true}], "tool_choice": {"type": "tool", "name": "f"},
        "stop_sequences": [], "stream": true, "metadata": {"user_id": "u"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
    });
    let responses = json!({
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "x"},
        ],
        "instructions": "i", "max_output_tokens": 8, "tools": [{"type": "function", "name": "f", "parameters": schema}],
        "tool_choice": "required", "reasoning": {"effort": "low", "summary": "auto"}, "text": {"format": flat},
        "include": ["reasoning.encrypted_content"], "previous_response_id": null, "stream": true, "store": true,
    });
    let completions =
        json!({"prompt": ["a", "b"], "max_tokens": 4, "logprobs": 2, "echo": false, "stream": false});
    vec![
        ("/v1/chat/completions", chat.clone()),
        ("/tokenize", chat),
        ("/v1/completions", completions),
        ("/v1/messages", anthropic.clone()),
        ("/v1/messages/count_tokens", anthropic),
        ("/v1/responses", responses),
        ("/detokenize", json!({"tokens": [1, 2, 3]})),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let numbers = [json!(0), json!(-1), json!(1e300), json!(u64::MAX), json!(0.5), json!(i64::MIN)];
    let texts =
        ["", "auto", "none", "user", "text", "function", "tool_result", "\u{0}<|im_end|>", "é\u{202e}😀"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop::sample::select(numbers.to_vec()),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let keys = prop_oneof![
            prop::sample::select(vec![
                "type",
                "role",
                "content",
                "text",
                "function",
                "name",
                "arguments",
                "id",
                "a"
            ])
            .prop_map(str::to_owned),
            ".{0,6}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Every place of a value, as a pointer.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| places(item, &format!("{at}/{index}"), out));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, item)| places(item, &format!("{at}/{key}"), out));
        }
        _ => {}
    }
}

async fn check(app: &App, path: &str, body: &Value) {
    let reply = app.post(path, body).await;
    assert!(reply.status.as_u16() < 500, "{path} {body}\n{}: {}", reply.status, reply.body);
    if reply.status != 200 {
        let json = reply.json();
        let error = &json["error"];
        assert!(error["message"].is_string() && error["type"].is_string(), "{path} {body}\n{}", reply.body);
        assert_eq!(
            json["type"] == "error",
            path.starts_with("/v1/messages"),
            "each format has its own errors"
        );
        assert!(reply.body.len() < 4096, "an error is short: {}", reply.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bodies_that_are_changed_work_unchanged() {
    let app = app("Hello.");
    for (path, body) in routes() {
        let reply = app.post(path, &body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    }
}

#[test]
fn changed_bodies_never_break_the_server() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let app = runtime.block_on(async { app("Hello.") });
    let mut runner = TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    for (path, body) in routes() {
        let mut all = Vec::new();
        places(&body, "", &mut all);
        let changes = prop::collection::vec((prop::sample::select(all), any_json()), 1..3);
        let outcome = runner.run(&changes, |changes| {
            let mut changed = body.clone();
            for (place, value) in changes {
                if let Some(slot) = changed.pointer_mut(&place) {
                    *slot = value;
                }
            }
            runtime.block_on(check(&app, path, &changed));
            Ok(())
        });
        outcome.unwrap_or_else(|failure| panic!("{path}: {failure}"));
    }
}
