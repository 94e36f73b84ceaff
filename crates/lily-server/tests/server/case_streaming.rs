//! The `streaming` cases over HTTP.

use crate::app::{Reply, Setup, app, tokenizer};
use crate::cases::{case, run, table, with};
use lily_text::TokenId;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn streaming() {
    let tests = table![
        "STRM-01" => split_characters,
        "STRM-02" => joined_before_decoding,
        "STRM-03" => invalid_bytes,
        "STRM-04" => space_after_an_incomplete_character,
        "STRM-05" => stop_over_tokens,
        "STRM-06" => earliest_stop,
        "STRM-07" => false_alarm,
        "STRM-09" => one_reason_then_done,
        "STRM-12" => no_usage_unasked,
        "STRM-14" => disconnect,
        "STRM-15" => long_prefill,
        "STRM-16" => fault_in_the_middle,
    ];
    run("streaming", tests, &[]).await;
}

/// Tokens that spell some bytes, the longest first.
fn spell(mut bytes: &[u8]) -> Vec<TokenId> {
    let size = tokenizer().size() as u32;
    let mut ids = Vec::new();
    while !bytes.is_empty() {
        let fits = |id: &TokenId| {
            !tokenizer().is_special(*id)
                && tokenizer()
                    .token_bytes(*id)
                    .is_some_and(|token| !token.is_empty() && bytes.starts_with(token))
        };
        let length = |id: &TokenId| tokenizer().token_bytes(*id).map_or(0, <[u8]>::len);
        let id = (0..size).map(TokenId).filter(fits).max_by_key(length).expect("every byte has a token");
        bytes = &bytes[length(&id)..];
        ids.push(id);
    }
    ids
}

/// The pieces of a case as tokens.
fn pieces(id: &str) -> Vec<TokenId> {
    let input = &case(id)["input"];
    let hex = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    };
    let list = |name: &str| input[name].as_array().into_iter().flatten().filter_map(Value::as_str);
    let bytes =
        list("token_bytes_hex").map(hex).chain(list("token_text").map(|text| text.as_bytes().to_vec()));
    bytes.flat_map(|piece| spell(&piece)).collect()
}

/// Sends a case's request streamed and whole, thinking off, over a model that writes its pieces.
async fn both(id: &str) -> (Reply, Value) {
    let app = Setup::with_tokens(pieces(id)).start();
    let base = json!({"messages": [{"role": "user", "content": "Hi"}], "enable_thinking": false});
    let request = match case(id)["input"].get("request") {
        Some(request) => with(&base, request),
        None => base,
    };
    let stream = app.chat(&with(&request, &json!({"stream": true}))).await;
    let whole = app.chat(&with(&request, &json!({"stream": false}))).await.json();
    let content = whole["choices"][0]["message"]["content"].clone();
    assert_eq!(json!(stream.joined("content")), content, "{id}: streamed and whole agree");
    assert_eq!(stream.finish_reasons(), [whole["choices"][0]["finish_reason"].as_str().expect("a reason")]);
    (stream, content)
}

async fn split_characters() {
    let (stream, content) = both("STRM-01").await;
    assert_eq!(content, case("STRM-01")["check"]["deltas_joined"]);
    assert!(!stream.body.contains('\u{fffd}'), "nothing half was sent: {}", stream.body);
}

async fn joined_before_decoding() {
    assert_eq!(both("STRM-02").await.1, case("STRM-02")["check"]["text"]);
}

async fn invalid_bytes() {
    let (stream, content) = both("STRM-03").await;
    let wanted = case("STRM-03")["check"]["text_contains"].as_str().expect("a text");
    assert!(content.as_str().is_some_and(|content| content.contains(wanted)), "{content}");
    assert!(!stream.body.contains("\"error\""));
}

async fn space_after_an_incomplete_character() {
    assert_eq!(both("STRM-04").await.1, case("STRM-04")["check"]["text"]);
}

async fn stop_over_tokens() {
    let check = &case("STRM-05")["check"];
    let (stream, content) = both("STRM-05").await;
    assert_eq!(content, check["text"]);
    assert_eq!(json!(stream.finish_reasons()), json!([check["finish_reason"]]));
}

async fn earliest_stop() {
    assert_eq!(both("STRM-06").await.1, case("STRM-06")["check"]["text"]);
}

async fn false_alarm() {
    assert_eq!(both("STRM-07").await.1, case("STRM-07")["check"]["text"]);
}

async fn one_reason_then_done() {
    let check = &case("STRM-09")["check"];
    let reply = app("</think>\n\nHello.").chat(&case("STRM-09")["input"]["request"]).await;
    assert_eq!(json!(reply.finish_reasons()), check["finish_reasons"]);
    let lines: Vec<&str> = reply.body.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.last().copied(), check["last_line"].as_str());
    let last = reply.chunks().pop().expect("a chunk");
    assert_eq!(last["choices"][0]["finish_reason"], "stop", "the reason is in the last chunk");
}

async fn no_usage_unasked() {
    let check = &case("STRM-12")["check"];
    let request = &case("STRM-12")["input"]["request"];
    let app = app("</think>\n\nHello.");
    let chunks = app.chat(request).await.chunks();
    let with_usage = chunks.iter().filter(|chunk| !chunk["usage"].is_null()).count();
    assert_eq!(json!(with_usage), check["usage_chunks"]);
    assert!(
        chunks.iter().all(|chunk| chunk["choices"].as_array().is_some_and(|choices| !choices.is_empty()))
    );
    for (field, count) in [("created", "distinct_created"), ("id", "distinct_id")] {
        let mut values: Vec<String> = chunks.iter().map(|chunk| chunk[field].to_string()).collect();
        values.dedup();
        assert_eq!(json!(values.len()), check[count]);
    }
    let asked = with(request, &json!({"stream_options": {"include_usage": true}}));
    let chunks = app.chat(&asked).await.chunks();
    let (last, others) = chunks.split_last().expect("chunks");
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["total_tokens"].as_u64().is_some_and(|total| total > 0));
    assert!(others.iter().all(|chunk| chunk["usage"].is_null()));
}

/// A prompt of about as many tokens.
fn long_prompt(tokens: usize) -> Value {
    json!([{"role": "user", "content": "word ".repeat(tokens)}])
}

async fn disconnect() {
    let mut setup = Setup::new("</think>\n\nHello.");
    setup.script.prefill_time = Duration::from_millis(10);
    setup.engine.max_running = 1;
    let app = setup.start();
    let long = json!({"messages": long_prompt(60_000), "stream": true});
    let live = app.open("/v1/chat/completions", &long).await;
    while app.seen.prefilled.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(live);
    let started = Instant::now();
    let reply = app.chat(&json!({"messages": [{"role": "user", "content": "Hi"}]})).await;
    assert_eq!(reply.status, 200);
    // The whole prompt would have taken about ten seconds.
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(app.seen.prefilled.load(Ordering::Relaxed) < 30_000);
    app.idle().await;
}

async fn long_prefill() {
    let mut setup = Setup::new("</think>\n\nHello.");
    setup.script.prefill_time = Duration::from_millis(1);
    setup.config.limits.keep_alive = Duration::from_millis(50);
    let app = setup.start();
    let long = json!({"messages": long_prompt(30_000), "stream": true});
    let mut live = app.open("/v1/chat/completions", &long).await;
    assert_eq!(live.status, 200);
    let (mut comments, mut last) = (0, Instant::now());
    while let Some(bytes) = live.next().await {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.starts_with("data:") {
            break;
        }
        assert!(text.starts_with(':') && text.ends_with("\n\n"), "{text:?}");
        assert!(last.elapsed() < Duration::from_secs(1), "a gap of {:?}", last.elapsed());
        last = Instant::now();
        comments += 1;
    }
    assert!(comments >= 3, "{comments} comment lines");
}

async fn fault_in_the_middle() {
    let mut setup = Setup::new("</think>\n\nHello, how are you doing on this fine day?");
    setup.script.fail_after = Some(5);
    let app = setup.start();
    let reply = app.chat(&case("STRM-16")["input"]["request"]).await;
    assert_eq!(reply.status, 200);
    let chunks = reply.chunks();
    let (last, others) = chunks.split_last().expect("events");
    assert!(last["error"]["message"].as_str().is_some_and(|message| message.contains("fell off")), "{last}");
    assert!(others.iter().all(|chunk| chunk.get("error").is_none()) && !others.is_empty());
    assert!(reply.finish_reasons().is_empty());
}
