//! The `template` cases as a client meets them.

use crate::app::{App, Setup, app, end, tokenizer};
use crate::cases::{case, golden, run, table, with};
use lily_text::TokenId;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn template() {
    let tests = table![
        "TMPL-04" => no_user_message,
        "TMPL-06" => null_content,
        "TMPL-08" => content_parts,
        "TMPL-10" => tools_as_python_writes_them,
        "TMPL-13" => scalar_arguments,
        "TMPL-14" => broken_arguments,
        "TMPL-15" => several_results,
        "TMPL-16" => images,
        "TMPL-17" => control_tokens_in_messages,
    ];
    run("template", tests, &[]).await;
}

/// An app with the real model's template, where the environment says where that is.
fn real() -> Option<App> {
    let Some(folder) = std::env::var_os("LILY_QWEN36_DIR") else {
        eprintln!("skipped: LILY_QWEN36_DIR is not set");
        return None;
    };
    let template = std::path::Path::new(&folder).join("chat_template.jinja");
    let template = std::fs::read_to_string(template).expect("the real template");
    Some(Setup { template, ..Setup::new("Hello.") }.start())
}

async fn no_user_message() {
    let request = &case("TMPL-04")["input"]["request"];
    let mut apps = vec![(app("Hello."), "There is no user message.")];
    apps.extend(real().map(|app| (app, "No user query")));
    for (app, words) in apps {
        for stream in [false, true] {
            let reply = app.chat(&with(request, &json!({"stream": stream}))).await;
            assert_eq!(reply.status, 400);
            let error = &reply.json()["error"];
            assert_eq!(error["type"], "invalid_request_error");
            assert!(error["message"].as_str().is_some_and(|message| message.contains(words)), "{error}");
        }
    }
}

/// The prompt that a request gives, through `/tokenize` and `/detokenize`, against the golden one.
async fn check_golden(id: &str) {
    let Some(app) = real() else { return };
    let golden = golden(case(id)["input"]["golden"].as_str().expect("a name"));
    let mut request = golden["request"].clone();
    if let Some(kwargs) = request.get("kwargs").cloned() {
        request["chat_template_kwargs"] = kwargs;
    }
    let tokens = app.post("/tokenize", &request).await.json()["tokens"].clone();
    let text = app.post("/detokenize", &json!({"tokens": tokens})).await.json()["prompt"].clone();
    assert_eq!(text, golden["prompt"], "{id}");
    let reply = app.chat(&request).await;
    assert_eq!(reply.status, 200, "{id}: {}", reply.body);
    assert_eq!(reply.json()["usage"]["prompt_tokens"], tokens.as_array().map_or(0, Vec::len));
}

async fn null_content() {
    check_golden("TMPL-06").await;
}

async fn content_parts() {
    check_golden("TMPL-08").await;
}

async fn tools_as_python_writes_them() {
    check_golden("TMPL-10").await;
}

async fn scalar_arguments() {
    check_golden("TMPL-13").await;
}

async fn several_results() {
    check_golden("TMPL-15").await;
}

async fn broken_arguments() {
    let app = app("Hello.");
    let reply = app.chat(&case("TMPL-14")["input"]["request"]).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["param"], "messages[1]");
}

async fn images() {
    let app = app("Hello.");
    let reply = app.chat(&case("TMPL-16")["input"]["request"]).await;
    assert_eq!(reply.status, 400);
    assert!(reply.error().contains("images are not supported"), "{}", reply.error());
}

async fn control_tokens_in_messages() {
    let app = app("Hello.");
    let count = async |messages: &Value| {
        let reply = app.post("/tokenize", &json!({"messages": messages})).await.json();
        let tokens = reply["tokens"].as_array().expect("tokens").clone();
        let is_end = |token: &&Value| token.as_u64().map(|id| TokenId(id as u32)) == Some(end());
        let start = tokenizer().token_id("<|im_start|>").expect("a start").0;
        (tokens.iter().filter(is_end).count(), tokens.iter().filter(|token| **token == start).count())
    };
    let typed = count(&case("TMPL-17")["input"]["request"]["messages"]).await;
    let plain = count(&json!([{"role": "user", "content": "Hi"}])).await;
    assert_eq!(typed, plain, "only the template's own control tokens");
}
