//! Calls of tools on the wire, beyond the cases.

use crate::app::{App, app};
use crate::cases::with;
use serde_json::{Value, json};

const TWO_CALLS: &str = "I need both.\n</think>\n\nLooking.\n\n<tool_call>\n<function=get>\n<parameter=city>\nOslo\n\
    </parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get>\n<parameter=city>\nRome\n</parameter>\n\
    </function>\n</tool_call>";

fn request() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!({
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"type": "function", "function": {"name": "get", "parameters": parameters}}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_have_the_shape_that_clients_know() {
    let reply = app(TWO_CALLS).chat(&request()).await.json();
    let choice = &reply["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "Looking.");
    assert_eq!(choice["message"]["reasoning_content"], "I need both.");
    let calls = choice["message"]["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 2);
    for (call, city) in calls.iter().zip(["Oslo", "Rome"]) {
        assert!(call["id"].as_str().is_some_and(|id| id.starts_with("call_")));
        assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("get")));
        let arguments: Value =
            serde_json::from_str(call["function"]["arguments"].as_str().expect("text")).expect("JSON");
        assert_eq!(arguments, json!({"city": city}));
    }
    assert_ne!(calls[0]["id"], calls[1]["id"]);
}

/// An agent's loop: the answer goes back as it came, with the results.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_can_be_sent_back_as_it_came() {
    let app = app(TWO_CALLS);
    let message = app.chat(&request()).await.json()["choices"][0]["message"].clone();
    let mut messages = request()["messages"].as_array().expect("messages").clone();
    messages.push(message.clone());
    for call in message["tool_calls"].as_array().expect("calls") {
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "rain"}));
    }
    let reply = app.chat(&with(&request(), &json!({"messages": messages}))).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}

async fn names(app: &App, path: &str, request: &Value, pointer: &str) -> usize {
    let reply = app.post(path, request).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    let reply = reply.json();
    let items = reply.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{path}: {reply}"));
    items.iter().filter(|item| !item["name"].is_null() || !item["function"].is_null()).count()
}

/// `parallel_tool_calls: false` ends the answer after the first call, and the rest is never generated.
#[tokio::test(flavor = "multi_thread")]
async fn one_call_at_a_time() {
    let app = app(TWO_CALLS);
    let chat = with(&request(), &json!({"parallel_tool_calls": false}));
    assert_eq!(names(&app, "/v1/chat/completions", &chat, "/choices/0/message/tool_calls").await, 1);
    let flat = json!([{"type": "function", "name": "get", "parameters": {}}]);
    let responses = json!({"input": "Weather?", "tools": flat, "parallel_tool_calls": false});
    assert_eq!(names(&app, "/v1/responses", &responses, "/output").await, 1);
    let messages = json!({
        "messages": [{"role": "user", "content": "Weather?"}], "max_tokens": 500, "thinking": {"type": "enabled"},
        "tools": [{"name": "get", "input_schema": {}}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
    });
    assert_eq!(names(&app, "/v1/messages", &messages, "/content").await, 1);
    let both = app.chat(&request()).await;
    let one = app.chat(&chat).await;
    assert!(one.number("/usage/completion_tokens") < both.number("/usage/completion_tokens"));
    assert_eq!(one.json()["choices"][0]["finish_reason"], "tool_calls");
    let stream = app.chat(&with(&chat, &json!({"stream": true}))).await;
    assert_eq!(stream.finish_reasons(), ["tool_calls"]);
    assert!(!stream.body.contains("Rome") && stream.body.ends_with("data: [DONE]\n\n"));
    app.idle().await;
}

/// A call says a name and no more: two tools of one name are told, the same tool twice is one.
#[tokio::test(flavor = "multi_thread")]
async fn tools_of_one_name() {
    let app = app("</think>\n\nHello.");
    let tool = |name: &str, kind: &str| {
        let parameters = json!({"type": "object", "properties": {"a": {"type": kind}}});
        json!({"name": name, "parameters": parameters})
    };
    let nested = |tool: &Value| json!({"type": "function", "function": tool});
    let flat = |tool: &Value| with(tool, &json!({"type": "function"}));
    let anthropic = |tool: &Value| json!({"name": tool["name"], "input_schema": tool["parameters"]});
    let tools = [tool("f", "string"), tool("g", "string"), tool("f", "integer")];
    for (path, body, tools, name) in [
        ("/v1/chat/completions", request(), json!(tools.each_ref().map(nested)), "tools[2].function.name"),
        ("/v1/responses", json!({"input": "Hi"}), json!(tools.each_ref().map(flat)), "tools[2].name"),
        ("/v1/messages", request(), json!(tools.each_ref().map(anthropic)), "tools[2].name"),
    ] {
        let reply = app.post(path, &with(&body, &json!({"tools": tools}))).await;
        assert_eq!(reply.status, 400, "{path}: {}", reply.body);
        assert!(
            reply.error().starts_with(&format!("{name}: is the name of an earlier tool")),
            "{}",
            reply.error()
        );
        let same = json!({"tools": [tools[0], tools[1], tools[0]]});
        let reply = app.post(path, &with(&body, &same)).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    }
}

/// An answer that ends behind its one call has been ended like any other: its usage is exact, and nothing was cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn one_call_and_its_usage() {
    let app = app(TWO_CALLS);
    let chat = with(&request(), &json!({"parallel_tool_calls": false, "logprobs": true}));
    let mut tokens = 0;
    for cached in [false, true] {
        let whole = app.chat(&chat).await.json();
        let usage = &whole["usage"];
        tokens = whole["choices"][0]["logprobs"]["content"].as_array().expect("entries").len();
        assert_eq!(usage["completion_tokens"], tokens, "{usage}");
        assert_eq!(
            usage["prompt_tokens_details"]["cached_tokens"].as_u64().is_some_and(|count| count > 0),
            cached
        );
        app.idle().await;
    }
    let last = json!({"stream": true, "stream_options": {"include_usage": true}, "max_tokens": tokens});
    let stream = app.chat(&with(&chat, &last)).await;
    assert_eq!(stream.finish_reasons(), ["tool_calls"], "also where the limit is just there");
    let usage = &stream.chunks().pop().expect("usage")["usage"];
    assert_eq!(usage["completion_tokens"], tokens);
    app.idle().await;
    let metrics = app.engine.metrics();
    assert_eq!((metrics.finished, metrics.cancelled), (3, 0), "{metrics:?}");
}

/// The official client of messages puts calls together from pieces of JSON.
#[tokio::test(flavor = "multi_thread")]
async fn calls_in_a_stream_of_messages() {
    let request = json!({
        "messages": [{"role": "user", "content": "Weather?"}], "max_tokens": 500, "stream": true,
        "thinking": {"type": "enabled"}, "tools": [{"name": "get", "input_schema": {}}],
    });
    let events = app(TWO_CALLS).post("/v1/messages", &request).await.chunks();
    let starts: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "content_block_start")
        .map(|event| &event["content_block"])
        .collect();
    let types: Vec<&str> = starts.iter().filter_map(|block| block["type"].as_str()).collect();
    assert_eq!(types, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(starts[2]["input"], json!({}));
    for (index, city) in [(2, "Oslo"), (3, "Rome")] {
        let of_block = events.iter().filter(|event| event["index"] == index);
        let json: String = of_block.filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
        assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), json!({"city": city}));
    }
    let stops = events.iter().filter(|event| event["type"] == "content_block_stop").count();
    assert_eq!(stops, 4);
    let end = events.iter().find(|event| event["type"] == "message_delta").expect("an end");
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_a_stream_of_responses() {
    let flat = json!([{"type": "function", "name": "get", "parameters": {}}]);
    let request = json!({"input": "Weather?", "tools": flat, "stream": true});
    let events = app(TWO_CALLS).post("/v1/responses", &request).await.chunks();
    let done: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "response.function_call_arguments.done").collect();
    assert_eq!(done.len(), 2);
    for (event, city) in done.iter().zip(["Oslo", "Rome"]) {
        let of_item = |other: &&Value| {
            other["item_id"] == event["item_id"] && other["type"] == "response.function_call_arguments.delta"
        };
        let joined: String =
            events.iter().filter(of_item).filter_map(|event| event["delta"].as_str()).collect();
        assert_eq!(json!(joined), event["arguments"]);
        assert_eq!(serde_json::from_str::<Value>(&joined).expect("JSON"), json!({"city": city}));
    }
    let last = &events.last().expect("an event")["response"];
    let kinds: Vec<&str> =
        last["output"].as_array().expect("items").iter().filter_map(|item| item["type"].as_str()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
}

/// A model that stops in the middle of a call's head has not answered, and clients can tell.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_call_is_no_complete_answer() {
    let app = app("</think>\n\nLooking.\n<tool_call>\n<function=ge");
    let whole = app.chat(&request()).await.json();
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let stream = app.chat(&with(&request(), &json!({"stream": true}))).await;
    assert_eq!(stream.finish_reasons(), ["length"]);
    assert_eq!(json!(stream.joined("content")), whole["choices"][0]["message"]["content"]);
}
