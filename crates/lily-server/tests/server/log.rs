//! What the log tells, and what it keeps to itself.

use crate::app::{Setup, app};
use serde_json::json;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

/// Everything that was logged in this process.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The log so far, of everything down to the finest level.
fn logged() -> String {
    static LINES: OnceLock<Lines> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(lines.clone())
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("the only subscriber of these tests");
        lines
    });
    let bytes = lines.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8(bytes).expect("text")
}

/// Words that only this test says.
const ASKED: &str = "quaggawhisper";
const ANSWERED: &str = "thylacinemurmur";

#[tokio::test(flavor = "multi_thread")]
async fn one_line_an_answer_and_no_text() {
    logged();
    let app = app(&format!("</think>\n\n{ANSWERED}."));
    let messages = json!([{"role": "user", "content": ASKED}]);
    let reply = app.chat(&json!({"messages": messages, "user": ASKED, "metadata": {"x": ASKED}})).await;
    let id = reply.json()["id"].as_str().expect("an id").to_owned();
    let log = logged();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&id)).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for field in [
        "route=\"chat\"",
        "finish=\"stop\"",
        "prompt=",
        "cached=",
        "completion=",
        "queue_ms=",
        "prefill_ms=",
        "decode_ms=",
    ] {
        assert!(lines[0].contains(field), "{field} is not in {}", lines[0]);
    }
    let tool = json!({"type": "function", "function": {"name": ASKED, "parameters": {"properties": {ASKED: {"not": {}}}}, "strict": true}});
    for body in [
        json!({"messages": messages, "stream": true}),
        json!({"messages": messages, "temperature": ASKED}),
        json!({"messages": [{"role": ASKED, "content": "x"}]}),
        json!({"messages": messages, "tools": [tool]}),
        json!({"messages": messages, "logit_bias": {ASKED: 1}}),
        json!({"messages": messages, "stop": [ASKED], "response_format": {"type": ASKED}}),
        json!({"messages": messages, "tool_choice": ASKED}),
        json!({"model": ASKED, "messages": messages, "chat_template_kwargs": {ASKED: ASKED}}),
    ] {
        app.chat(&body).await;
    }
    app.post_raw("/v1/chat/completions", format!("{{\"{ASKED}\": {ASKED}")).await;
    app.get(&format!("/v1/{ASKED}?{ASKED}=1")).await;
    app.idle().await;
    let log = logged();
    assert!(log.contains("refused"), "refusals are told");
    for word in [ASKED, ANSWERED] {
        let told: Vec<&str> = log.lines().filter(|line| line.contains(word)).collect();
        assert!(told.is_empty(), "{told:?}");
    }
}

/// What a cancelled answer cost is told, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_answer_has_its_times() {
    logged();
    let mut setup = Setup::new(&"word ".repeat(10_000));
    setup.script.decode_time = std::time::Duration::from_millis(1);
    let app = setup.start();
    let body = json!({"messages": [{"role": "user", "content": "Hi"}], "stream": true});
    let mut live = app.open("/v1/chat/completions", &body).await;
    let mut text = String::new();
    while text.matches("word").count() < 50 {
        text.push_str(&String::from_utf8_lossy(&live.next().await.expect("more")));
    }
    drop(live);
    app.idle().await;
    let id = text.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    let log = logged();
    let line = log.lines().find(|line| line.contains(id)).expect("its line");
    assert!(line.contains("finish=\"cancelled\""), "{line}");
    let number = |name: &str| -> f64 {
        let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("{name} is not in {line}"));
        rest.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name}: {line}"))
    };
    assert!(number("decode_ms=") >= 40.0 && number("completion=") >= 50.0, "{line}");
    assert!(
        number("decode_ms=") + number("prefill_ms=") + number("queue_ms=") <= number("total_ms="),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn text_where_it_is_asked_for() {
    logged();
    let mut setup = Setup::new("</think>\n\nA numbatsigh.");
    setup.config.log_text = true;
    let app = setup.start();
    app.chat(&json!({"messages": [{"role": "user", "content": "bilbysong"}]})).await;
    let log = logged();
    assert!(log.contains("numbatsigh") && log.contains("bilbysong"));
}
