//! `/v1/responses`.

use crate::app::{Setup, app};
use crate::cases::with;
use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

const PATH: &str = "/v1/responses";

#[tokio::test(flavor = "multi_thread")]
async fn a_response() {
    let reply = app("A thought.\n</think>\n\nHello.")
        .post(PATH, &json!({"input": "Hi", "metadata": {"a": "b"}}))
        .await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let reply = reply.json();
    assert_eq!((&reply["object"], &reply["status"]), (&json!("response"), &json!("completed")));
    assert_eq!(reply["metadata"], json!({"a": "b"}));
    let output = reply["output"].as_array().expect("output");
    assert_eq!(output.len(), 2);
    assert_eq!(
        (&output[0]["type"], &output[0]["content"][0]["text"]),
        (&json!("reasoning"), &json!("A thought."))
    );
    assert_eq!((&output[1]["type"], &output[1]["content"][0]["text"]), (&json!("message"), &json!("Hello.")));
    assert!(
        reply["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64().is_some_and(|tokens| tokens > 0)
    );
}

/// The events of a stream build the very response that the last of them carries.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream() {
    let app = app("A thought.\n</think>\n\nHello, you.");
    let stream = app.post(PATH, &json!({"input": "Hi", "stream": true})).await;
    let events = stream.chunks();
    let types: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(types[..2], ["response.created", "response.in_progress"]);
    assert_eq!(types.last(), Some(&"response.completed"));
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let deltas = |kind: &str| -> String {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .filter_map(|event| event["delta"].as_str())
            .collect()
    };
    assert_eq!(deltas("response.output_text.delta"), "Hello, you.");
    assert_eq!(deltas("response.reasoning_text.delta"), "A thought.");
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    let last = &events.last().expect("an event")["response"];
    assert_eq!(json!(done), last["output"]);
    let added = types.iter().filter(|kind| **kind == "response.output_item.added").count();
    assert_eq!(added, done.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_response_is_the_start_of_the_next() {
    let app = app("A thought.\n</think>\n\nHello.");
    let first = app.post(PATH, &json!({"input": "Hi", "instructions": "Be brief."})).await.json();
    let id = first["id"].as_str().expect("an id");
    let next = json!({"input": "And?", "previous_response_id": id, "instructions": "Be long."});
    let second = app.post(PATH, &next).await;
    let by_hand = json!({"messages": [
        {"role": "system", "content": "Be long."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello.", "reasoning_content": "A thought."},
        {"role": "user", "content": "And?"},
    ]});
    assert_eq!(second.number("/usage/input_tokens"), app.count(&by_hand).await);

    let path = format!("{PATH}/{id}");
    assert_eq!(app.get(&path).await.json(), first);
    let items = app.get(&format!("{path}/input_items")).await.json();
    assert_eq!(items["data"][0]["content"][0]["text"], "Hi");
    let delete = || Request::delete(path.as_str()).body(Body::empty()).expect("a request");
    assert_eq!(app.send(delete()).await.json()["deleted"], true);
    assert_eq!(app.send(delete()).await.status, 404);
    assert_eq!(app.get(&path).await.status, 404);
    let gone = app.post(PATH, &next).await;
    assert_eq!((gone.status.as_u16(), &gone.json()["error"]["param"]), (404, &json!("previous_response_id")));
    let unstored = app.post(PATH, &json!({"input": "Hi", "store": false})).await.json();
    assert_eq!(app.get(&format!("{PATH}/{}", unstored["id"].as_str().expect("an id"))).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn items_are_rendered_as_chat_completions_does() {
    let app = app("Hello.");
    let items = json!([
        {"role": "developer", "content": "More rules."},
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [], "encrypted_content": "lily:I call."},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        {"type": "function_call", "call_id": "c1", "name": "get", "arguments": "{\"city\": \"Oslo\"}"},
        {"type": "function_call", "call_id": "c2", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sun"}]},
    ]);
    let reply = app.post(PATH, &json!({"input": items, "instructions": "Rules."})).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "get", "arguments": arguments}});
    let chat = json!({"messages": [
        {"role": "system", "content": "Rules.\n\nMore rules."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "Looking.", "reasoning_content": "I call.",
         "tool_calls": [call("c1", "{\"city\": \"Oslo\"}"), call("c2", "{}")]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "tool", "tool_call_id": "c2", "content": "sun"},
    ]});
    assert_eq!(reply.number("/usage/input_tokens"), app.count(&chat).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_can_be_carried_by_the_client() {
    let app = app("A thought.\n</think>\n\nHello.");
    let request = json!({"input": "Hi", "store": false, "include": ["reasoning.encrypted_content"]});
    let reply = app.post(PATH, &request).await.json();
    assert_eq!(reply["output"][0]["encrypted_content"], "lily:A thought.");
    let without = app.post(PATH, &json!({"input": "Hi"})).await.json();
    assert_eq!(without["output"][0]["encrypted_content"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_and_faults() {
    let app = app("one two three four");
    let cut = app.post(PATH, &json!({"input": "Hi", "max_output_tokens": 2})).await.json();
    assert_eq!(
        (&cut["status"], &cut["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    let stream = app.post(PATH, &json!({"input": "Hi", "max_output_tokens": 2, "stream": true})).await;
    assert_eq!(stream.chunks().pop().expect("an event")["type"], "response.incomplete");
    for (field, value) in [
        ("background", json!(true)),
        ("truncation", json!("auto")),
        ("prompt", json!({"id": "p"})),
        ("conversation", json!("c")),
        ("tool_choice", json!("required")),
        ("text.format.type", json!({"format": {"type": "grammar"}})),
        ("reasoning.summary", json!({"summary": "detailed"})),
        ("input[0].type", json!([{"type": "item_reference", "id": "x"}])),
        (
            "input[0].content[0].type",
            json!([{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]),
        ),
        ("input[0].role", json!([{"role": "robot", "content": "x"}])),
        ("max_tokens", json!(5)),
    ] {
        let root = field.split(['[', '.']).next().expect("a root");
        let reply = app.post(PATH, &with(&json!({"input": "Hi"}), &json!({root: value}))).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!(field)),
            "{}",
            reply.body
        );
    }
    let mut setup = Setup::new("Hello, how are you?");
    setup.script.fail_after = Some(2);
    let stream = setup.start().post(PATH, &json!({"input": "Hi", "stream": true})).await;
    let last = stream.chunks().pop().expect("an event");
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_repeated_as_they_came() {
    let app = app("Hello.");
    for (temperature, top_p) in
        [(json!(0.7), json!(0.95)), (json!(0.0), json!(1.0)), (json!(1e-7), json!(0.1))]
    {
        let reply =
            app.post(PATH, &json!({"input": "Hi", "temperature": temperature, "top_p": top_p})).await.json();
        let same = |a: &Value, b: &Value| a.as_f64() == b.as_f64();
        assert!(same(&reply["temperature"], &temperature) && same(&reply["top_p"], &top_p), "{reply}");
    }
}

/// Log-probabilities are those of the answer's text, all of them, also of tokens whose text is held back for a while: a
/// character that is split, and what may be the beginning of a tag.
#[tokio::test(flavor = "multi_thread")]
async fn log_probabilities_spell_the_text() {
    for answer in ["😀 a <b> < <t> <tool_cal é.", "<", "é", "a <tool_call"] {
        let mut ids = crate::app::tokenizer().encode("A thought.\n</think>\n\n");
        let byte = |byte: u8| {
            let mut ids = (0..crate::app::tokenizer().size() as u32).map(lily_engine::TokenId);
            ids.find(|id| crate::app::tokenizer().token_bytes(*id) == Some(&[byte]))
                .expect("a token for every byte")
        };
        ids.extend(answer.bytes().map(byte));
        let app = Setup::with_tokens(ids).start();
        let tools = json!([{"type": "function", "name": "f", "parameters": {}}]);
        let request = json!({"input": "Hi", "top_logprobs": 1, "temperature": 0, "tools": tools});
        let bytes = |entries: &Value| -> Vec<u8> {
            let bytes = entries
                .as_array()
                .expect("entries")
                .iter()
                .flat_map(|entry| entry["bytes"].as_array().cloned());
            bytes.flatten().map(|byte| byte.as_u64().expect("a byte") as u8).collect()
        };
        let whole = app.post(PATH, &request).await.json();
        let part = &whole["output"][1]["content"][0];
        assert_eq!(part["text"], answer, "{whole}");
        assert_eq!(String::from_utf8(bytes(&part["logprobs"])).expect("text"), answer);
        let stream = app.post(PATH, &with(&request, &json!({"stream": true}))).await.chunks();
        let deltas = stream.iter().filter(|event| event["type"] == "response.output_text.delta");
        let joined: Vec<u8> = deltas.flat_map(|event| bytes(&event["logprobs"])).collect();
        assert_eq!(String::from_utf8(joined).expect("text"), answer);
        let done = stream.iter().find(|event| event["type"] == "response.output_text.done").expect("an end");
        assert_eq!(done["logprobs"], part["logprobs"]);
    }
}

/// What a response repeats of its request counts where responses are kept.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_repeated_counts() {
    let mut setup = Setup::new("</think>Hello.");
    setup.config.limits.stored_bytes = 64 << 10;
    let app = setup.start();
    for (letters, status) in [(1 << 10, 200), (64 << 10, 404)] {
        let tools =
            json!([{"type": "function", "name": "f", "description": "x".repeat(letters), "parameters": {}}]);
        let reply =
            app.post(PATH, &json!({"input": "Hi", "tools": tools, "tool_choice": "none"})).await.json();
        assert_eq!(reply["tools"], tools);
        let id = reply["id"].as_str().expect("an id");
        assert_eq!(app.get(&format!("{PATH}/{id}")).await.status.as_u16(), status, "{letters} letters");
    }
}

/// The items of a stored response are given in pages, the newest first unless asked otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn input_items_come_in_pages() {
    let app = app("</think>Hello.");
    let item = |k: usize| json!({"role": "user", "content": format!("{k}"), "id": format!("m{k}")});
    let mut items: Vec<Value> = (0..25).map(item).collect();
    // Ids that are there twice are no places to go on from.
    items[24]["id"] = json!("m0");
    let reply = app.post(PATH, &json!({"input": items})).await.json();
    let path = format!("{PATH}/{}/input_items", reply["id"].as_str().expect("an id"));
    for (order, newest_first) in [("", true), ("order=desc", true), ("order=asc", false)] {
        for limit in [None, Some(1), Some(24), Some(100)] {
            let (mut texts, mut after) = (Vec::new(), String::new());
            loop {
                let limited = limit.map_or_else(String::new, |limit| format!("&limit={limit}"));
                let page = app.get(&format!("{path}?{order}{limited}{after}")).await.json();
                let data = page["data"].as_array().expect("items");
                assert!(data.len() <= limit.unwrap_or(20) && !data.is_empty(), "{page}");
                assert_eq!(
                    (&page["first_id"], &page["last_id"]),
                    (&data[0]["id"], &data[data.len() - 1]["id"])
                );
                texts.extend(data.iter().map(|item| item["content"].as_str().expect("text").to_owned()));
                if page["has_more"] == false {
                    break;
                }
                after = format!("&after={}", page["last_id"].as_str().expect("an id"));
            }
            let mut wanted: Vec<String> = (0..25).map(|k| k.to_string()).collect();
            if newest_first {
                wanted.reverse();
            }
            assert_eq!(texts, wanted, "{order} {limit:?}");
        }
    }
    let end = app.get(&format!("{path}?order=desc&after=m0")).await.json();
    assert_eq!((&end["data"], &end["first_id"], &end["has_more"]), (&json!([]), &Value::Null, &json!(false)));
}

/// What a query asks for is done, or named.
#[tokio::test(flavor = "multi_thread")]
async fn queries_are_honoured_or_named() {
    let app = app("</think>Hello.");
    let reply = app.post(PATH, &json!({"input": "Hi"})).await.json();
    let path = format!("{PATH}/{}", reply["id"].as_str().expect("an id"));
    for (query, param) in [
        ("?stream=true", "stream"),
        ("?stream=1", "stream"),
        ("?starting_after=3", "starting_after"),
        ("?include_obfuscation=true", "include_obfuscation"),
        ("?include[]=everything", "include"),
        ("/input_items?limit=0", "limit"),
        ("/input_items?limit=101", "limit"),
        ("/input_items?limit=-1", "limit"),
        ("/input_items?limit=1.5", "limit"),
        ("/input_items?limit=", "limit"),
        ("/input_items?limit=99999999999999999999", "limit"),
        ("/input_items?order=up", "order"),
        ("/input_items?after=x", "after"),
        ("/input_items?include=everything", "include"),
    ] {
        let refused = app.get(&format!("{path}{query}")).await;
        let named = (refused.status.as_u16(), refused.json()["error"]["param"].clone());
        assert_eq!(named, (400, json!(param)), "{query}: {}", refused.body);
    }
    for query in [
        "?stream=false&include_obfuscation=false&include[]=reasoning.encrypted_content&x=y",
        "/input_items?limit=1&limit=2&include=message.output_text.logprobs&%FF=%FF",
    ] {
        assert_eq!(app.get(&format!("{path}{query}")).await.status, 200, "{query}");
    }
    for missing in ["input_tokens", "compact"] {
        let reply = app.post(&format!("{PATH}/{missing}"), &json!({"input": "Hi"})).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["error"]["code"]), (404, &json!("unknown_path")));
    }
}
