//! Anthropic's format: `/v1/messages`.

use crate::app::{Setup, app};
use crate::cases::with;
use serde_json::{Value, json};

const PATH: &str = "/v1/messages";

fn hi() -> Value {
    json!({"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer() {
    let reply = app("Hello.").post(PATH, &hi()).await.json();
    assert_eq!((&reply["type"], &reply["role"]), (&json!("message"), &json!("assistant")));
    assert_eq!(reply["content"], json!([{"type": "text", "text": "Hello."}]), "no thinking unless asked for");
    assert_eq!((&reply["stop_reason"], &reply["stop_sequence"]), (&json!("end_turn"), &Value::Null));
    assert!(reply["usage"]["input_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
}

/// The vendor's tool runner asks for a thread first, and goes on without one if it reads this.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_refused_in_the_words_of_its_client() {
    let app = app("Hello.");
    let reply = app.post(PATH, &with(&hi(), &json!({"thread": {"type": "create"}, "stream": true}))).await;
    let error = &reply.json()["error"];
    assert_eq!((reply.status.as_u16(), &error["type"]), (400, &json!("invalid_request_error")));
    let details = json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
    assert_eq!(error["details"], details, "{}", reply.body);
    assert!(reply.error().starts_with("thread: "), "{}", reply.body);
    let other = app.post(PATH, &with(&hi(), &json!({"n": 2}))).await;
    assert_eq!(other.json()["error"].get("details"), None);
    assert_eq!(app.post(PATH, &with(&hi(), &json!({"thread": null}))).await.status, 200);
}

/// Tools that the vendor's servers run are left out; those that the client would run are not, as it would wait for calls.
#[tokio::test(flavor = "multi_thread")]
async fn tools_of_other_kinds() {
    let app = app("Hello.");
    let own = json!({"name": "get", "input_schema": {"type": "object"}});
    let function = json!({"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}});
    for (tool, word) in [
        (json!({"type": "bash_20250124", "name": "bash"}), "function tools"),
        (json!({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}), "function tools"),
        (json!({"type": "memory_20250818", "name": "memory"}), "function tools"),
        (json!({"type": "computer_20250124", "name": "computer", "display_width_px": 1}), "function tools"),
        (function, "input_schema"),
    ] {
        let reply = app.post(PATH, &with(&hi(), &json!({"tools": [own, tool]}))).await;
        let error = reply.error();
        assert_eq!(reply.status, 400, "{tool}");
        assert!(error.starts_with("tools[1].type: ") && error.contains(word), "{error}");
    }
    for kind in ["web_search_20250305", "web_fetch_20250910", "code_execution_20250825", "of_tomorrow"] {
        let tools = json!([own, {"type": kind, "name": "x"}]);
        assert_eq!(app.post(PATH, &with(&hi(), &json!({"tools": tools}))).await.status, 200, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_is_a_block_of_its_own() {
    let app = app("A thought.\n</think>\n\nHello.");
    let request = with(&hi(), &json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}));
    let whole = app.post(PATH, &request).await.json();
    let blocks = json!([
        {"type": "thinking", "thinking": "A thought.", "signature": ""},
        {"type": "text", "text": "Hello."},
    ]);
    assert_eq!(whole["content"], blocks);
    let stream = app.post(PATH, &with(&request, &json!({"stream": true}))).await;
    assert_eq!(assemble(&stream.chunks())["content"], blocks, "streamed and whole agree");
    let names: Vec<Option<String>> = stream.events().into_iter().map(|event| event.name).collect();
    let types: Vec<Option<String>> =
        stream.chunks().iter().map(|chunk| chunk["type"].as_str().map(str::to_owned)).collect();
    assert_eq!(names, types);
    assert_eq!(names.first().cloned().flatten().as_deref(), Some("message_start"));
    assert_eq!(names.last().cloned().flatten().as_deref(), Some("message_stop"));
}

/// Puts a stream together as the official client does.
fn assemble(events: &[Value]) -> Value {
    let mut message = Value::Null;
    for event in events {
        let index = event["index"].as_u64().unwrap_or(0) as usize;
        match event["type"].as_str().expect("a type") {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                let blocks = message["content"].as_array_mut().expect("blocks");
                assert_eq!(blocks.len(), index);
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let (delta, block) = (&event["delta"], &mut message["content"][index]);
                let field = match delta["type"].as_str() {
                    Some("thinking_delta") => "thinking",
                    Some("signature_delta") => "signature",
                    _ => "text",
                };
                let text =
                    block[field].as_str().expect("text").to_owned() + delta[field].as_str().expect("text");
                block[field] = text.into();
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["usage"] = event["usage"].clone();
            }
            "content_block_stop" | "message_stop" | "ping" => {}
            other => panic!("an event of type {other}"),
        }
    }
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_loop_is_rendered_as_chat_completions_does() {
    let app = app("Hello.");
    let anthropic = json!({
        "max_tokens": 10,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "I call.", "signature": ""},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "t1", "name": "get", "input": {"city": "Oslo", "n": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]},
                {"type": "text", "text": "And?"},
            ]},
        ],
        "tools": [{"name": "get", "description": "d", "input_schema": {"type": "object"}}, {"type": "web_search_20250305", "name": "web_search"}],
    });
    let openai = json!({
        "enable_thinking": false,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "Looking.", "reasoning_content": "I call.", "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "get", "arguments": "{\"city\": \"Oslo\", \"n\": 1}"}},
            ]},
            {"role": "tool", "tool_call_id": "t1", "content": "rain"},
            {"role": "user", "content": "And?"},
        ],
        "tools": [{"type": "function", "function": {"name": "get", "description": "d", "parameters": {"type": "object"}}}],
    });
    let count = app.post("/v1/messages/count_tokens", &anthropic).await;
    assert_eq!(count.status, 200, "{}", count.body);
    assert_eq!(count.number("/input_tokens"), app.count(&openai).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ends() {
    let app = app("one two STOP three");
    let cut = app.post(PATH, &with(&hi(), &json!({"max_tokens": 1}))).await.json();
    assert_eq!(cut["stop_reason"], "max_tokens");
    let stopped = app.post(PATH, &with(&hi(), &json!({"stop_sequences": ["STOP"]}))).await.json();
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!("STOP"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_have_this_formats_shape() {
    let app = app("Hello.");
    for (field, value) in [
        ("messages", json!([])),
        (
            "messages[0].content[0].type",
            json!([{"role": "user", "content": [{"type": "image", "source": {}}]}]),
        ),
        (
            "messages",
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "The answer is ("}]),
        ),
        ("tool_choice", json!({"type": "any"})),
        ("thinking.type", json!({"type": "perhaps"})),
        ("temperature", json!(3)),
        ("stop", json!("x")),
    ] {
        let root = field.split(['[', '.']).next().expect("a root");
        let reply = app.post(PATH, &with(&hi(), &json!({root: value}))).await;
        assert_eq!(reply.status, 400, "{field}: {}", reply.body);
        let json = reply.json();
        assert_eq!(
            (&json["type"], &json["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
        assert!(reply.error().contains(field), "{field}: {}", reply.error());
    }
    let mut setup = Setup::new("Hello, how are you?");
    setup.script.fail_after = Some(2);
    let stream = setup.start().post(PATH, &with(&hi(), &json!({"stream": true}))).await;
    let last = stream.events().pop().expect("an event");
    assert_eq!(last.name.as_deref(), Some("error"));
}

/// A failed call is told to the model, whose template has one form for results.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_an_error() {
    let app = app("Hello.");
    let conversation = |result: Value| {
        json!({"max_tokens": 10, "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get", "input": {}}]},
            {"role": "user", "content": [with(&json!({"type": "tool_result", "tool_use_id": "toolu_1"}), &result)]},
        ]})
    };
    let mut counts = Vec::new();
    for result in [
        json!({"content": "Error: no such city"}),
        json!({"content": "no such city", "is_error": true}),
        json!({"content": [{"type": "text", "text": "Error: no such city"}], "is_error": true}),
    ] {
        let reply = app.post("/v1/messages/count_tokens", &conversation(result)).await;
        counts.push(reply.number("/input_tokens"));
    }
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    let plain =
        app.post("/v1/messages/count_tokens", &conversation(json!({"content": "no such city"}))).await;
    assert!(plain.number("/input_tokens") < counts[0]);
}

/// Thinking that is not to be shown is carried, and comes back with the block that carries it.
#[tokio::test(flavor = "multi_thread")]
async fn thinking_can_be_hidden() {
    let app = app("A thought.\n</think>\n\nHello.");
    let request = with(&hi(), &json!({"thinking": {"type": "adaptive", "display": "omitted"}}));
    let whole = app.post(PATH, &request).await.json();
    let blocks = json!([
        {"type": "thinking", "thinking": "", "signature": "lily:A thought."},
        {"type": "text", "text": "Hello."},
    ]);
    assert_eq!(whole["content"], blocks);
    let stream = app.post(PATH, &with(&request, &json!({"stream": true}))).await;
    assert_eq!(assemble(&stream.chunks())["content"], blocks, "streamed and whole agree");
    let mut counts = Vec::new();
    for thinking in [json!({"thinking": "A thought.", "signature": "of another"}), blocks[0].clone()] {
        let thinking = with(&thinking, &json!({"type": "thinking"}));
        let messages = json!([
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [thinking, {"type": "text", "text": "Hello."}]},
            {"role": "user", "content": "And?"},
        ]);
        let body = json!({"messages": messages, "preserve_thinking": true});
        counts.push(app.post("/v1/messages/count_tokens", &body).await.number("/input_tokens"));
    }
    assert_eq!(counts[0], counts[1]);
}
