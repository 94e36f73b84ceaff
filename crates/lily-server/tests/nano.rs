//! The server over the real embedded model on the CPU: what a scripted backend cannot show.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions};
use lily_engine::{Engine, EngineOptions, SamplingParams, TokenId};
use lily_server::{Model, ServerConfig, router};
use lily_text::{ChatTemplate, Tokenizer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tower::ServiceExt;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/nano")
}

fn model() -> Model {
    let read = |file: &str| std::fs::read(folder().join(file)).expect("models/nano");
    let checkpoint = Checkpoint::open(&folder()).expect("nano opens");
    let tokenizer = Tokenizer::from_json(&read("tokenizer.json")).expect("a tokenizer");
    let template = String::from_utf8(read("chat_template.jinja")).expect("a template");
    let backend = CpuBackend::new(&checkpoint, &CpuOptions::default()).expect("nano loads");
    Model {
        id: "nano".to_owned(),
        created: 0,
        engine: Engine::start(backend, tokenizer.clone(), EngineOptions::default()),
        template: ChatTemplate::new(&template).expect("a template"),
        stop_ids: checkpoint.generation.eos_token_ids.iter().copied().map(TokenId).collect(),
        defaults: SamplingParams::from_generation_config(&checkpoint.generation),
        tokenizer,
    }
}

async fn ask(app: &axum::Router, body: &Value) -> String {
    let request =
        Request::post("/v1/chat/completions").body(Body::from(body.to_string())).expect("a request");
    let response = app.clone().oneshot(request).await.expect("a response");
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    assert_eq!(status, StatusCode::OK, "{text}");
    text
}

async fn content(app: &axum::Router, body: &Value) -> String {
    let reply: Value = serde_json::from_str(&ask(app, body).await).expect("JSON");
    reply["choices"][0]["message"]["content"].as_str().expect("content").to_owned()
}

fn question(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 48, "enable_thinking": false})
}

/// One model for all: loading it is the slow part.
#[tokio::test(flavor = "multi_thread")]
async fn nano() {
    let app = router(model(), ServerConfig::default());
    alone_and_under_load(&app).await;
    seeds_hold_under_load(&app).await;
    streamed_and_whole_agree(&app).await;
    cached_and_fresh_agree(&app).await;
    answers_keep_their_form(&app).await;
}

/// SAMP-13: a greedy answer is the same alone and beside three others.
async fn alone_and_under_load(app: &axum::Router) {
    let asked = question("Who are you?");
    let alone = content(app, &asked).await;
    assert!(!alone.is_empty());
    let others = ["Tell me about the sea.", "Count to ten.", "What is the capital of France?"].map(question);
    let (under_load, ..) = tokio::join!(
        content(app, &asked),
        content(app, &others[0]),
        content(app, &others[1]),
        content(app, &others[2])
    );
    assert_eq!(alone, under_load);
}

/// SAMP-04 on the real model.
async fn seeds_hold_under_load(app: &axum::Router) {
    let mut asked = question("Say a random word.");
    (asked["temperature"], asked["seed"]) = (json!(1.0), json!(42));
    let alone = content(app, &asked).await;
    let other = question("Tell me a story.");
    let (first, _, second) = tokio::join!(content(app, &asked), content(app, &other), content(app, &asked));
    assert_eq!((&alone, &alone), (&first, &second));
}

async fn streamed_and_whole_agree(app: &axum::Router) {
    let mut asked = question("Who are you?");
    let whole = content(app, &asked).await;
    asked["stream"] = json!(true);
    let stream = ask(app, &asked).await;
    let pieces = stream.lines().filter_map(|line| line.strip_prefix("data: {")).map(|line| {
        let chunk: Value = serde_json::from_str(&format!("{{{line}")).expect("JSON");
        chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
    });
    assert_eq!(pieces.collect::<String>(), whole);
}

/// The second turn of a conversation starts from a snapshot and says what it would have said without.
async fn cached_and_fresh_agree(app: &axum::Router) {
    let turn = json!({
        "messages": [
            {"role": "user", "content": "My name is Ada."},
            {"role": "assistant", "content": "Hello Ada."},
            {"role": "user", "content": "What is my name?"},
        ],
        "temperature": 0, "max_tokens": 32, "enable_thinking": false,
    });
    let fresh: Value = serde_json::from_str(&ask(app, &turn).await).expect("JSON");
    let cached: Value = serde_json::from_str(&ask(app, &turn).await).expect("JSON");
    let tokens = |reply: &Value| reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    assert!(tokens(&cached) > tokens(&fresh), "{cached}");
    assert_eq!(fresh["choices"][0]["message"]["content"], cached["choices"][0]["message"]["content"]);
}

/// The real model under a grammar, with thinking and without: what it says has the form, and ends by itself.
async fn answers_keep_their_form(app: &axum::Router) {
    let schema = json!({
        "type": "object", "required": ["city", "days"], "additionalProperties": false,
        "properties": {"city": {"type": "string", "maxLength": 40}, "days": {"type": "integer", "minimum": 0, "maximum": 30}},
    });
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": true}});
    let tools =
        json!([{"type": "function", "function": {"name": "forecast", "parameters": schema, "strict": true}}]);
    for thinking in [false, true] {
        let mut asked = question("What is the weather in Oslo right now?");
        (asked["max_tokens"], asked["enable_thinking"]) = (json!(400), json!(thinking));
        asked["response_format"] = format.clone();
        let answer: Value = serde_json::from_str(&content(app, &asked).await).expect("JSON");
        assert!(answer["city"].is_string() && answer["days"].is_u64(), "{answer}");
        asked["response_format"] = json!(null);
        asked["tools"] = tools.clone();
        for choice in [json!("required"), json!({"type": "function", "function": {"name": "forecast"}})] {
            asked["tool_choice"] = choice;
            let reply: Value = serde_json::from_str(&ask(app, &asked).await).expect("JSON");
            let choice = &reply["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
            let arguments =
                choice["message"]["tool_calls"][0]["function"]["arguments"].as_str().expect("text");
            let arguments: Value = serde_json::from_str(arguments).expect("JSON");
            assert!(arguments["city"].is_string() && arguments["days"].is_u64(), "{arguments}");
        }
    }
}
