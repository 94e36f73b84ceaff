//! A server in the test's own process, over a scripted backend, and the answers it gives.

use crate::script::{Script, Seen};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use lily_engine::{Engine, EngineOptions, SamplingParams, TokenId};
use lily_server::{Model, ServerConfig, router};
use lily_text::{ChatTemplate, Tokenizer};
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tower::ServiceExt;

/// The embedded model's tokenizer: real merges, real added tokens.
static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_json(&std::fs::read(nano("tokenizer.json")).expect("models/nano")).expect("a tokenizer")
});

pub(crate) fn nano(file: &str) -> String {
    format!("{}/../../models/nano/{file}", env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn tokenizer() -> &'static Tokenizer {
    &TOKENIZER
}

/// The id that ends an answer.
pub(crate) fn end() -> TokenId {
    TOKENIZER.token_id("<|im_end|>").expect("the end of a turn")
}

/// How an app is made.
pub(crate) struct Setup {
    pub(crate) script: Script,
    pub(crate) config: ServerConfig,
    pub(crate) engine: EngineOptions,
    pub(crate) template: String,
}

/// A running server without a socket.
pub(crate) struct App {
    pub(crate) router: Router,
    pub(crate) engine: Engine,
    pub(crate) seen: Arc<Seen>,
}

/// An app whose model answers every prompt with `text`.
pub(crate) fn app(text: &str) -> App {
    Setup::new(text).start()
}

impl Setup {
    pub(crate) fn new(text: &str) -> Self {
        Self::with_tokens(TOKENIZER.encode(text))
    }

    pub(crate) fn with_tokens(tokens: Vec<TokenId>) -> Self {
        let script = Script {
            answers: Arc::new(move |_| tokens.clone()),
            end: end(),
            vocab: TOKENIZER.size(),
            context: 1 << 17,
            chunk: 64,
            nan_after: None,
            fail_after: None,
            prefill_time: Duration::ZERO,
            decode_time: Duration::ZERO,
            confidence: 40.0,
            seen: Arc::default(),
        };
        let template = std::fs::read_to_string(nano("chat_template.jinja")).expect("models/nano");
        Self { script, config: ServerConfig::default(), engine: EngineOptions::default(), template }
    }

    /// The model as the server takes it.
    pub(crate) fn model(&self) -> Model {
        let engine = Engine::start(self.script.clone(), TOKENIZER.clone(), self.engine.clone());
        Model {
            id: "scripted".to_owned(),
            created: 1_700_000_000,
            engine,
            tokenizer: TOKENIZER.clone(),
            template: ChatTemplate::new(&self.template).expect("a template"),
            stop_ids: vec![end()],
            defaults: SamplingParams::default(),
        }
    }

    pub(crate) fn start(self) -> App {
        let model = self.model();
        let (engine, seen) = (model.engine.clone(), Arc::clone(&self.script.seen));
        App { router: router(model, self.config), engine, seen }
    }
}

/// A response, read to its end.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl App {
    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.expect("a router does not fail");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let body = String::from_utf8(bytes.to_vec()).expect("text");
        Reply { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Request::get(path).body(Body::empty()).expect("a request")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_raw(path, body.to_string()).await
    }

    pub(crate) async fn post_raw(&self, path: &str, body: impl Into<Body>) -> Reply {
        self.send(post(path, body)).await
    }

    pub(crate) async fn chat(&self, body: &Value) -> Reply {
        self.post("/v1/chat/completions", body).await
    }

    /// Tokens of a conversation's prompt.
    pub(crate) async fn count(&self, conversation: &Value) -> u64 {
        self.post("/tokenize", conversation).await.number("/count")
    }

    /// The response as it comes.
    pub(crate) async fn open(&self, path: &str, body: &Value) -> Live {
        let response = self.router.clone().oneshot(post(path, body.to_string())).await.expect("a response");
        Live { status: response.status(), body: response.into_body() }
    }

    /// Waits until the engine has nothing to do.
    pub(crate) async fn idle(&self) {
        for _ in 0..1000 {
            let metrics = self.engine.metrics();
            if metrics.running + metrics.waiting == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the engine is still busy: {:?}", self.engine.metrics());
    }
}

fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into())
        .expect("a request")
}

/// A response that is being read.
pub(crate) struct Live {
    pub(crate) status: StatusCode,
    body: Body,
}

impl Live {
    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(bytes) => return Some(bytes),
                    Err(_) => continue,
                },
                Err(error) => panic!("the body broke: {error}"),
            }
        }
    }
}

/// A server-sent event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.body))
    }

    /// A number in the answer.
    pub(crate) fn number(&self, pointer: &str) -> u64 {
        let number = self.json().pointer(pointer).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("no number at {pointer} in {}", self.body))
    }

    /// The events of a stream, comments left out.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.body
            .split("\n\n")
            .filter_map(|block| {
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|line| line.strip_prefix(name).map(|value| value.trim_start().to_owned()))
                };
                Some(Event { name: field("event:"), data: field("data:")? })
            })
            .collect()
    }

    /// The JSON of a stream's events, without the end marker.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let json = |data: &str| {
            serde_json::from_str(data).unwrap_or_else(|error| panic!("not JSON ({error}): {data}"))
        };
        self.events().iter().filter(|event| event.data != "[DONE]").map(|event| json(&event.data)).collect()
    }

    /// Everything of one kind that a stream's deltas of choice 0 hold (`content`, `reasoning_content`).
    pub(crate) fn joined(&self, field: &str) -> String {
        let text =
            |chunk: &Value| chunk["choices"][0]["delta"][field].as_str().unwrap_or_default().to_owned();
        self.chunks().iter().map(text).collect()
    }

    /// All reasons for an end in a stream.
    pub(crate) fn finish_reasons(&self) -> Vec<String> {
        let reason = |chunk: &Value| chunk["choices"][0]["finish_reason"].as_str().map(str::to_owned);
        self.chunks().iter().filter_map(reason).collect()
    }

    /// The error's message.
    pub(crate) fn error(&self) -> String {
        self.json()["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("no error in {}", self.body))
            .to_owned()
    }
}
