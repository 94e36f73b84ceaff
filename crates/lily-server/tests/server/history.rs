//! Conversations that come back: results answer calls, and no field of a message is lost.

use crate::app::{App, app};
use crate::cases::with;
use serde_json::{Value, json};

/// A conversation with calls of `calls` and then results of `results`, in the form of each route.
fn conversations(calls: &[&str], results: &[&str]) -> Vec<(&'static str, Value, String)> {
    let last = results.len().saturating_sub(1);
    let each =
        |ids: &[&str], make: fn(&str) -> Value| -> Vec<Value> { ids.iter().map(|id| make(id)).collect() };
    let mut chat = vec![json!({"role": "user", "content": "u"})];
    if !calls.is_empty() {
        let calls = each(
            calls,
            |id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}),
        );
        chat.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
    }
    let at = chat.len() + last;
    chat.extend(each(results, |id| json!({"role": "tool", "tool_call_id": id, "content": "r"})));
    let chat = json!({"messages": chat});
    let mut blocks = vec![json!({"role": "user", "content": "u"})];
    if !calls.is_empty() {
        let calls = each(calls, |id| json!({"type": "tool_use", "id": id, "name": "f", "input": {}}));
        blocks.push(json!({"role": "assistant", "content": calls}));
    }
    let block = blocks.len();
    blocks.push(json!({"role": "user", "content": each(results, |id| json!({"type": "tool_result", "tool_use_id": id, "content": "r"}))}));
    let blocks = json!({"messages": blocks, "max_tokens": 5});
    let mut items = vec![json!({"role": "user", "content": "u"})];
    items.extend(each(
        calls,
        |id| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}),
    ));
    let item = items.len() + last;
    items.extend(each(results, |id| json!({"type": "function_call_output", "call_id": id, "output": "r"})));
    let chat_path = format!("messages[{at}].tool_call_id");
    let block_path = format!("messages[{block}].content[{last}].tool_use_id");
    vec![
        ("/v1/chat/completions", with(&chat, &json!({"max_tokens": 5})), chat_path.clone()),
        ("/tokenize", chat, chat_path),
        ("/v1/messages", blocks.clone(), block_path.clone()),
        ("/v1/messages/count_tokens", blocks, block_path),
        ("/v1/responses", json!({"input": items, "max_output_tokens": 5}), format!("input[{item}].call_id")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_answers_a_call() {
    let app = app("</think>Hello.");
    for (calls, results, fault) in [
        (vec!["a"], vec!["a"], None),
        (vec!["a", "b"], vec!["b", "a"], None),
        // An agent that was interrupted.
        (vec!["a", "b"], vec!["a"], None),
        (vec!["a"], vec!["b"], Some("b is not the id of a call")),
        (vec!["a"], vec!["a", "call_9"], Some("call_9 is not the id of a call")),
        (vec![], vec!["a"], Some("a is not the id of a call")),
        (vec!["a"], vec![""], Some("this is not the id of a call")),
        (vec!["a"], vec!["\u{1b}[31m\n"], Some("this is not the id of a call")),
    ] {
        for (path, body, name) in conversations(&calls, &results) {
            let reply = app.post(path, &body).await;
            match fault {
                None => assert_eq!(reply.status, 200, "{path} {body}: {}", reply.body),
                Some(reason) => {
                    assert_eq!(reply.status, 400, "{path} {body}: {}", reply.body);
                    assert!(
                        reply.error().starts_with(&format!("{name}: {reason}")),
                        "{path}: {}",
                        reply.error()
                    );
                }
            }
        }
    }
}

/// A stored response's calls are answered by the next request.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_answers_a_stored_call() {
    let app = app("</think>\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>");
    let tools = json!([{"type": "function", "name": "f", "parameters": {}}]);
    let first = app.post("/v1/responses", &json!({"input": "Hi", "tools": tools})).await.json();
    let call = first["output"]
        .as_array()
        .and_then(|items| items.iter().find(|item| item["type"] == "function_call"));
    let id = &call.unwrap_or_else(|| panic!("no call: {first}"))["call_id"];
    let output = |id: &Value| json!([{"type": "function_call_output", "call_id": id, "output": "r"}]);
    for (previous, id, status) in
        [(&first["id"], id, 200), (&first["id"], &json!("x"), 400), (&Value::Null, id, 400)]
    {
        let body = json!({"input": output(id), "previous_response_id": previous, "tools": tools});
        let reply = app.post("/v1/responses", &body).await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.body);
    }
}

async fn fault(app: &App, message: &Value, name: &str) {
    let messages = json!([{"role": "user", "content": "u"}, message, {"role": "user", "content": "u"}]);
    let reply = app.chat(&json!({"messages": messages, "max_tokens": 5})).await;
    let at = if name.is_empty() { "messages[1]".to_owned() } else { format!("messages[1].{name}") };
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["error"]["param"]),
        (400, &json!(at)),
        "{message}: {}",
        reply.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_field_of_a_message_is_lost() {
    let app = app("</think>Hello.");
    let call = |more: &Value| {
        json!([with(&json!({"id": "c", "type": "function", "function": {"name": "f"}}), more)])
    };
    for (message, name) in [
        (json!("Hi"), ""),
        (json!({"content": "Hi"}), "role"),
        (json!({"role": "user", "content": "Hi", "name": 5}), "name"),
        (json!({"role": "user", "content": "Hi", "tool_call_id": 5}), "tool_call_id"),
        (json!({"role": "tool", "content": "Hi"}), "tool_call_id"),
        (json!({"role": "user", "content": "Hi", "tool_calls": call(&json!({}))}), "tool_calls"),
        (json!({"role": "assistant", "tool_calls": {}}), "tool_calls"),
        (json!({"role": "assistant", "tool_calls": [5]}), "tool_calls[0]"),
        (json!({"role": "assistant", "tool_calls": call(&json!({"id": 5}))}), "tool_calls[0].id"),
        (json!({"role": "assistant", "tool_calls": call(&json!({"type": "custom"}))}), "tool_calls[0].type"),
        (json!({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}), "function_call"),
        (json!({"role": "assistant", "content": "a", "audio": {"id": "a"}}), "audio"),
        (json!({"role": "assistant", "content": "a", "prefix": true}), "prefix"),
        (json!({"role": "assistant", "content": "a", "partial": true}), "partial"),
        (json!({"role": "assistant", "content": "a", "refusal": 5}), "refusal"),
        (json!({"role": "assistant", "content": "a", "refusal": "No."}), "refusal"),
    ] {
        fault(&app, &message, name).await;
    }
    // What another model said in place of an answer is its answer.
    let said = |answer: Value| json!({"messages": [{"role": "user", "content": "u"}, answer, {"role": "user", "content": "u"}]});
    let plain = app.count(&said(json!({"role": "assistant", "content": "No."}))).await;
    for answer in [
        json!({"role": "assistant", "content": null, "refusal": "No."}),
        json!({"role": "assistant", "refusal": "No."}),
    ] {
        assert_eq!(app.count(&said(answer)).await, plain);
    }
    let idle = json!({"role": "assistant", "content": "No.", "refusal": null, "audio": null, "function_call": null,
        "prefix": false, "tool_calls": [], "name": "Bob"});
    assert_eq!(app.count(&said(idle)).await, plain);
}

/// In a shape without a field for the parameter, the message names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_conversation_names_its_parameter() {
    let app = app("Hello.");
    let system = json!({"messages": [{"role": "system", "content": "s"}], "max_tokens": 5});
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let reply = app.post(path, &system).await;
        assert_eq!(reply.status, 400, "{}", reply.body);
        assert!(reply.error().starts_with("messages: "), "{}", reply.error());
    }
}
