//! The `client_compat` cases.

use crate::app::{Setup, app};
use crate::cases::{case, golden, run, table, with};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn client_compat() {
    let elsewhere = [("CLI-05", "case_reading.rs: what a model wrote")];
    let tests = table![
        "CLI-01" => unknown_tools,
        "CLI-02" => responses_and_unknown_paths,
        "CLI-03" => claude_code,
        "CLI-06" => reasoning_content,
        "CLI-07" => langchain,
        "CLI-09" => one_model_behind_all_routes,
    ];
    run("client_compat", tests, &elsewhere).await;
}

async fn unknown_tools() {
    let app = app("</think>\n\nHello.");
    let request = &case("CLI-01")["input"]["request"];
    let reply = app.post("/v1/responses", request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let last = reply.chunks().pop().expect("an event");
    assert_eq!(last["type"], "response.completed");
    let whole = app.post("/v1/responses", &with(request, &json!({"stream": false}))).await;
    let functions_only = with(request, &json!({"stream": false, "tools": [request["tools"][0]]}));
    let functions_only = app.post("/v1/responses", &functions_only).await;
    let tokens = "/usage/input_tokens";
    assert_eq!(whole.number(tokens), functions_only.number(tokens), "only functions are shown");
}

async fn responses_and_unknown_paths() {
    let app = app("</think>\n\nHello.");
    assert_eq!(app.post("/v1/responses", &json!({"input": "Hi"})).await.status, 200);
    let reply = app.post("/v1/nothing-here", &json!({})).await;
    assert_eq!(reply.status, 404);
    assert!(reply.error().contains("/v1/chat/completions"), "{}", reply.error());
    let reply = app.get("/v1/chat/completions").await;
    assert_eq!(
        (reply.status.as_u16(), reply.json()["error"]["code"].clone()),
        (405, json!("method_not_allowed"))
    );
    assert_eq!(reply.headers["allow"], "POST");
}

async fn claude_code() {
    let mut setup = Setup::new("</think>\n\nHello.");
    setup.config.aliases = vec!["claude-local".to_owned()];
    let app = setup.start();
    let request = &case("CLI-03")["input"]["request"];
    // Chat completions leaves the place of a system message to the template.
    let reply = app.chat(request).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.error(), "A system message must come first.");
    assert!(golden("late-system (template refuses)")["refused"].is_string(), "as the real template does");
    // Here a late one is taken.
    let request = with(request, &json!({"model": "claude-local", "max_tokens": 64}));
    let reply = app.post("/v1/messages", &request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let count = app.post("/v1/messages/count_tokens", &request).await;
    assert_eq!(count.number("/input_tokens"), reply.number("/usage/input_tokens"));
    let models = app.get("/v1/models").await.json();
    assert_eq!(models["data"][1]["id"], "claude-local");
    assert_eq!(app.get("/v1/models/claude-local").await.status, 200);
}

async fn reasoning_content() {
    let reply = app("I think.\n</think>\n\nHello.").chat(&case("CLI-06")["input"]["request"]).await;
    assert_eq!(reply.joined("reasoning_content"), "I think.");
    assert_eq!(reply.joined("content"), "Hello.");
}

async fn langchain() {
    let reply = app("</think>\n\n5").chat(&case("CLI-07")["input"]["request"]).await;
    assert_eq!(json!(reply.status.as_u16()), case("CLI-07")["check"]["http_status"], "{}", reply.body);
    assert_eq!(reply.joined("content"), "5");
}

/// Every route that generates honours a stop string, and none lets a malformed tool choice pass.
async fn one_model_behind_all_routes() {
    let app = app("</think>\n\none two STOP three");
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 64});
    let routes: [(&str, Value, &str, &str); 4] = [
        ("/v1/chat/completions", chat.clone(), "stop", "/choices/0/message/content"),
        ("/v1/completions", json!({"prompt": "Hi"}), "stop", "/choices/0/text"),
        ("/v1/messages", chat, "stop_sequences", "/content/0/text"),
        ("/v1/responses", json!({"input": "Hi"}), "stop", "/output/0/content/0/text"),
    ];
    for (path, request, stop, text) in routes {
        let reply = app.post(path, &with(&request, &json!({stop: ["STOP"]}))).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        let reply = reply.json();
        let text = reply.pointer(text).and_then(Value::as_str).unwrap_or_else(|| panic!("{path}: {reply}"));
        assert!(text.ends_with("one two "), "{path}: {text:?}");
        for field in
            [json!({"temperature": -1}), json!({"tool_choice": {"type": "banana"}}), json!({stop: [""]})]
        {
            let name = field.as_object().and_then(|field| field.keys().next().cloned()).expect("a name");
            let reply = app.post(path, &with(&request, &field)).await;
            assert_eq!(reply.status, 400, "{path} {field}: {}", reply.body);
            assert!(reply.error().contains(&name), "{path} {field}: {}", reply.error());
        }
    }
}
