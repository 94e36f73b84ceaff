//! The `tool_parsing` and `reasoning` cases over HTTP: every text that a model wrote, whole and streamed, in each format.

use crate::app::{App, Setup, app, tokenizer};
use crate::cases::{case, golden, ids, with};
use serde_json::{Map, Value, json};

/// A message as any format tells it.
#[derive(Debug, Default, PartialEq)]
struct Told {
    reasoning: String,
    content: String,
    calls: Vec<(String, Value)>,
    finish: String,
}

/// The request of a case that has a model's text, and an app that writes it.
fn prepare(id: &str) -> (App, Value) {
    let input = &case(id)["input"];
    let text = input["model_text"].as_str().expect("a text");
    let mut request = json!({"messages": [{"role": "user", "content": "Go."}]});
    if let Some(own) = input.get("request") {
        request = with(&request, own);
    }
    if let Some(tools) = input.get("tools") {
        request["tools"] = tools.clone();
    }
    request["enable_thinking"] =
        json!(input["prompt_ends_with"].as_str().is_none_or(|end| end == "<think>\n"));
    let tokens = tokenizer().encode(text);
    let mut setup = Setup::with_tokens(tokens.clone());
    if input["end"] == "length" {
        request["max_tokens"] = json!(tokens.len());
        // Something to go on with, so that only the limit ends it.
        let longer = [tokens, tokenizer().encode(" and so on")].concat();
        setup = Setup::with_tokens(longer);
    }
    (setup.start(), request)
}

async fn whole(app: &App, request: &Value) -> Told {
    let reply = app.chat(&with(request, &json!({"stream": false}))).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let choice = reply.json()["choices"][0].clone();
    let message = &choice["message"];
    let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
    let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
    if !calls.is_empty() {
        assert!(
            message["content"].is_null() || message["content"] != "",
            "empty content beside calls is null"
        );
    }
    Told {
        reasoning: text("reasoning_content"),
        content: text("content"),
        calls: calls
            .iter()
            .map(|call| (name(&call["function"]), arguments(&call["function"]["arguments"])))
            .collect(),
        finish: choice["finish_reason"].as_str().expect("a reason").to_owned(),
    }
}

fn name(function: &Value) -> String {
    function["name"].as_str().expect("a name").to_owned()
}

/// CLI-05: arguments are always JSON text of an object.
fn arguments(text: &Value) -> Value {
    let text = text.as_str().expect("arguments are text");
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(value.is_object(), "{text}");
    value
}

/// What a stream tells, and in how many pieces the arguments came.
async fn streamed(app: &App, request: &Value) -> (Told, usize) {
    let reply = app.chat(&with(request, &json!({"stream": true}))).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let mut calls: Vec<(String, String, String)> = Vec::new();
    let mut pieces = 0;
    for chunk in reply.chunks() {
        for delta in chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = delta["index"].as_u64().expect("an index") as usize;
            if let Some(id) = delta["id"].as_str() {
                assert_eq!(
                    (index, &delta["type"]),
                    (calls.len(), &json!("function")),
                    "calls begin in order"
                );
                calls.push((id.to_owned(), name(&delta["function"]), String::new()));
            }
            let text = delta["function"]["arguments"].as_str().expect("arguments");
            pieces += usize::from(!text.is_empty());
            calls[index].2.push_str(text);
        }
    }
    let finish = reply.finish_reasons().concat();
    // What was cut off is told apart by its end.
    calls.retain(|(_, _, text)| {
        finish != "length" || serde_json::from_str::<Map<String, Value>>(text).is_ok()
    });
    let calls = calls.into_iter().map(|(_, name, text)| (name, arguments(&json!(text)))).collect();
    let told = Told {
        reasoning: reply.joined("reasoning_content"),
        content: reply.joined("content"),
        calls,
        finish,
    };
    (told, pieces)
}

/// The same answer through Anthropic's format and through responses.
async fn other_formats(app: &App, request: &Value) -> [Told; 2] {
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let function = |tool: &Value, schema: &str| {
        let function = &tool["function"];
        let mut flat = json!({"name": function["name"]});
        flat[schema] = function["parameters"].clone();
        flat
    };
    let thinking = if request["enable_thinking"] == true { "enabled" } else { "disabled" };
    let mut anthropic = json!({
        "messages": [{"role": "user", "content": "Go."}], "thinking": {"type": thinking},
        "tools": tools.iter().map(|tool| function(tool, "input_schema")).collect::<Vec<_>>(),
    });
    let flat = |tool: &Value| with(&function(tool, "parameters"), &json!({"type": "function"}));
    let mut responses = json!({
        "input": "Go.", "enable_thinking": request["enable_thinking"],
        "tools": tools.iter().map(flat).collect::<Vec<_>>(),
    });
    if let Some(choice) = request.get("tool_choice") {
        responses["tool_choice"] = choice.clone();
        anthropic["tool_choice"] = json!({"type": choice});
    }
    if let Some(most) = request.get("max_tokens") {
        responses["max_output_tokens"] = most.clone();
        anthropic["max_tokens"] = most.clone();
    }
    let message = app.post("/v1/messages", &anthropic).await.json();
    let mut first =
        Told { finish: message["stop_reason"].as_str().expect("a reason").to_owned(), ..Told::default() };
    for block in message["content"].as_array().expect("blocks") {
        match block["type"].as_str().expect("a type") {
            "thinking" => first.reasoning.push_str(block["thinking"].as_str().expect("text")),
            "text" => first.content.push_str(block["text"].as_str().expect("text")),
            _ => first.calls.push((name(block), block["input"].clone())),
        }
    }
    let response = app.post("/v1/responses", &responses).await.json();
    let mut second = Told::default();
    for item in response["output"].as_array().expect("items") {
        let text = item["content"][0]["text"].as_str().unwrap_or_default();
        match item["type"].as_str().expect("a type") {
            "reasoning" => second.reasoning.push_str(text),
            "message" => second.content.push_str(text),
            _ => second.calls.push((name(item), arguments(&item["arguments"]))),
        }
    }
    let cut = response["status"] == "incomplete";
    second.finish = match (cut, second.calls.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    }
    .to_owned();
    first.finish = match first.finish.as_str() {
        "max_tokens" => "length",
        "tool_use" => "tool_calls",
        _ => "stop",
    }
    .to_owned();
    [first, second]
}

fn check(id: &str, told: &Told, pieces: usize) {
    for (field, wanted) in case(id)["check"].as_object().into_iter().flatten() {
        let text = || wanted.as_str().expect("a text");
        match field.as_str() {
            "content" => assert_eq!(told.content, text(), "{id}"),
            "content_empty" => assert_eq!(told.content, "", "{id}"),
            "content_contains" => assert!(told.content.contains(text()), "{id}: {told:?}"),
            "content_not_contains" => assert!(!told.content.contains(text()), "{id}: {told:?}"),
            "reasoning_content" => assert_eq!(told.reasoning, text(), "{id}"),
            "reasoning_empty" => assert_eq!(told.reasoning, "", "{id}"),
            "finish_reason" => assert_eq!(told.finish, text(), "{id}"),
            "min_argument_deltas" => {
                assert!(pieces as u64 >= wanted.as_u64().expect("a number"), "{id}: {pieces}");
            }
            "tool_calls" => check_calls(id, &told.calls, wanted.as_array().expect("calls")),
            "arguments_is_json_object" => {
                assert_eq!(told.calls.len(), 1, "{id}: `arguments` checks each call");
            }
            other => panic!("{id}: nothing checks {other}"),
        }
    }
    if !told.calls.is_empty() && told.finish != "length" {
        assert_eq!(told.finish, "tool_calls", "{id}");
    }
}

fn check_calls(id: &str, calls: &[(String, Value)], wanted: &[Value]) {
    assert_eq!(calls.len(), wanted.len(), "{id}: {calls:?}");
    for ((name, arguments), wanted) in calls.iter().zip(wanted) {
        assert_eq!(*name, wanted["name"], "{id}");
        let any = match wanted.get("arguments_any_of") {
            Some(any) => any.as_array().expect("a list").clone(),
            None => vec![wanted["arguments"].clone()],
        };
        assert!(any.contains(arguments), "{id}: {arguments} is none of {any:?}");
    }
}

/// Every case of both kinds that has a model's text.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_wrote() {
    let all = ["tool_parsing", "reasoning"].into_iter().flat_map(ids).chain(["CLI-05"]);
    let with_text: Vec<&str> = all.filter(|id| case(id)["input"].get("model_text").is_some()).collect();
    assert_eq!(with_text.len(), 28);
    for id in with_text {
        let (app, request) = prepare(id);
        let told = whole(&app, &request).await;
        let (in_stream, pieces) = streamed(&app, &request).await;
        assert_eq!(told, in_stream, "{id}: whole and streamed");
        check(id, &told, pieces);
        for other in other_formats(&app, &request).await {
            assert_eq!(told, other, "{id}: in another format");
        }
    }
}

/// The cases of both kinds without a model's text, and where they are tested.
#[test]
fn the_other_cases_are_accounted_for() {
    let elsewhere =
        ["TOOL-23", "REAS-05", "REAS-06", "REAS-08", "REAS-09", "REAS-10", "REAS-11", "REAS-14", "REAS-18"];
    let all = ["tool_parsing", "reasoning"].into_iter().flat_map(ids);
    let mut without_text: Vec<&str> =
        all.filter(|id| case(id)["input"].get("model_text").is_none()).collect();
    // TOOL-23, REAS-08 to REAS-11 and REAS-14 are below; REAS-05, REAS-06 and REAS-18 in chat.rs.
    without_text.sort_unstable();
    let mut elsewhere = elsewhere.to_vec();
    elsewhere.sort_unstable();
    assert_eq!(without_text, elsewhere);
}

/// TOOL-23: a named function is called, although the model would rather not.
#[tokio::test(flavor = "multi_thread")]
async fn a_named_function_is_called() {
    let (app, names) =
        (app("</think>\n\nHello."), &case("TOOL-23")["check"]["either"][0]["tool_calls_names"]);
    for stream in [false, true] {
        let reply = app.chat(&with(&case("TOOL-23")["input"]["request"], &json!({"stream": stream}))).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        if stream {
            assert_eq!(reply.finish_reasons(), ["tool_calls"]);
            continue;
        }
        let calls = reply.json()["choices"][0]["message"]["tool_calls"].clone();
        let called: Vec<&Value> =
            calls.as_array().expect("calls").iter().map(|call| &call["function"]["name"]).collect();
        assert_eq!(json!(called), *names);
    }
}

/// REAS-14: content is JSON and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn content_is_json() {
    let app = app("Two phrases.\n</think>\n\n{\"queries\": [\"tides\", \"moon\"]} I hope this helps.");
    let reply = app.chat(&case("REAS-14")["input"]["request"]).await.json();
    let message = &reply["choices"][0]["message"];
    let content: Value = serde_json::from_str(message["content"].as_str().expect("content")).expect("JSON");
    assert_eq!(content, json!({"queries": ["tides", "moon"]}));
    assert_eq!(message["reasoning_content"], "Two phrases.");
}

/// REAS-08, REAS-09: one name out, two names in.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_the_thinking() {
    let app = app("A thought.\n</think>\n\nHello.");
    let tokens = app.post("/tokenize", &case("REAS-08")["input"]["request"]).await.json()["tokens"].clone();
    let prompt = app.post("/detokenize", &json!({"tokens": tokens})).await.json()["prompt"].clone();
    let wanted = case("REAS-08")["check"]["prompt_contains"].as_str().expect("a text");
    assert!(prompt.as_str().is_some_and(|prompt| prompt.contains(wanted)), "{prompt}");
    let field = case("REAS-09")["check"]["delta_field"].as_str().expect("a name");
    let reply = app.chat(&case("REAS-09")["input"]["request"]).await;
    assert_eq!(reply.joined(field), "A thought.");
}

/// REAS-10, REAS-11: thinking of earlier turns, exactly as the real template has it.
#[tokio::test(flavor = "multi_thread")]
async fn thinking_of_earlier_turns() {
    let Some(folder) = std::env::var_os("LILY_QWEN36_DIR") else {
        eprintln!("skipped: LILY_QWEN36_DIR is not set");
        return;
    };
    let template = std::path::Path::new(&folder).join("chat_template.jinja");
    let template = std::fs::read_to_string(template).expect("the real template");
    let app = Setup { template, ..Setup::new("Hello.") }.start();
    for id in ["REAS-10", "REAS-11"] {
        let golden = golden(case(id)["input"]["golden"].as_str().expect("a name"));
        let mut request = golden["request"].clone();
        if let Some(kwargs) = request.get("kwargs").cloned() {
            request["chat_template_kwargs"] = kwargs;
        }
        let tokens = app.post("/tokenize", &request).await.json()["tokens"].clone();
        let prompt = app.post("/detokenize", &json!({"tokens": tokens})).await.json()["prompt"].clone();
        assert_eq!(prompt, golden["prompt"], "{id}");
    }
}
