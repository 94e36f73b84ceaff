//! Schemas that no grammar can follow: refused by name before an answer begins, whether or not thinking comes first.

use crate::app::{Setup, app};
use crate::cases::with;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn hi() -> Value {
    json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 60})
}

fn schemas() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"$ref": "#"}), "without an end"),
        (json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}), "without an end"),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            "without an end",
        ),
        (
            json!({"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}),
            "at properties.n: the schema refers to itself without an end",
        ),
        (
            json!({"type": "object", "required": ["n"], "allOf": [{"properties": {"n": {"$ref": "#"}}}]}),
            "without an end",
        ),
        (
            json!({"type": "object", "additionalProperties": {"$ref": "#"}, "minProperties": 1}),
            "without an end",
        ),
        (
            json!({"type": "array", "prefixItems": [{"anyOf": [{"$ref": "#"}]}], "minItems": 1}),
            "at prefixItems[0]: the schema refers to itself without an end",
        ),
        (json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/none"}}}), "at properties.n.$ref: "),
        (json!({"type": "string", "pattern": "^(([a-z]{1,1000}){1,1000}){1,1000}$"}), "at pattern: "),
        (json!({"type": "object", "properties": {"a": {"not": {}}}}), "at properties.a"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_answer() {
    let app = app("Hm.\n</think>\n\n{}");
    for (schema, reason) in schemas() {
        let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
        for more in [json!({}), json!({"enable_thinking": false}), json!({"stream": true})] {
            let reply = app.post(CHAT, &with(&with(&hi(), &json!({"response_format": format})), &more)).await;
            assert_eq!(
                (reply.status.as_u16(), &reply.json()["error"]["param"]),
                (400, &json!("response_format.json_schema.schema")),
                "{schema}: {}",
                reply.body
            );
            assert!(reply.error().contains(reason), "{schema}: {}", reply.error());
        }
    }
    let list = json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["next"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": list}});
    assert_eq!(app.post(CHAT, &with(&hi(), &json!({"response_format": format}))).await.status, 200);
}

/// What shows only while an answer is written is the request's fault all the same.
#[tokio::test(flavor = "multi_thread")]
async fn too_complex_in_the_end() {
    let mut setup = Setup::new("\"abcdef\"");
    // As good as no opinion: the draw is among all that is allowed.
    setup.script.confidence = 0.5;
    let app = setup.start();
    let schema = json!({"type": "string", "pattern": "^([a-z]{1,100}){1,100}$"});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let random =
        json!({"temperature": 1, "seed": 1, "top_k": 0, "max_tokens": 200, "enable_thinking": false});
    let request = with(&with(&hi(), &json!({"response_format": format})), &random);
    let reply = app.post(CHAT, &request).await;
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["error"]["type"]),
        (400, &json!("invalid_request_error"))
    );
    assert!(reply.error().contains("write smaller bounds"), "{}", reply.error());
    let stream = app.post(CHAT, &with(&request, &json!({"stream": true}))).await;
    let last = stream.chunks().pop().expect("an event");
    assert_eq!(last["error"]["type"], "invalid_request_error", "{}", stream.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_tool() {
    let app = app("Hm.\n</think>\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>");
    for (schema, _) in schemas() {
        let parameters = json!({"type": "object", "properties": {"a": schema}, "$defs": schema["$defs"], "required": ["a"]});
        for strict in [true, false] {
            for parameters in [&schema, &parameters] {
                let function = json!({"name": "f", "parameters": parameters, "strict": strict});
                let tools = json!([{"type": "function", "function": function}]);
                for more in [json!({}), json!({"enable_thinking": false})] {
                    let body = with(&with(&hi(), &json!({"tools": tools, "tool_choice": "required"})), &more);
                    let reply = app.post(CHAT, &body).await;
                    // Only a strict tool is a reason to refuse: arguments of others are then free.
                    let refused = reply.status == 400;
                    assert!(refused || reply.status == 200, "{body}: {}", reply.body);
                    assert!(strict || !refused, "{body}: {}", reply.body);
                }
            }
        }
    }
}
