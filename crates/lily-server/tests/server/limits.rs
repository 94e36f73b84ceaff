//! Everything is bounded.

use crate::app::{Setup, app};
use crate::cases::with;
use axum::body::{Body, Bytes};
use axum::http::Request;
use futures::stream;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::{Duration, Instant};

const CHAT: &str = "/v1/chat/completions";

fn hi() -> Value {
    json!({"messages": [{"role": "user", "content": "Hi"}], "enable_thinking": false})
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies() {
    let mut setup = Setup::new("Hello.");
    setup.config.limits.body_bytes = 1000;
    setup.config.limits.body_timeout = Duration::from_millis(100);
    let app = setup.start();
    let large = json!({"messages": [{"role": "user", "content": "x".repeat(2000)}]});
    let reply = app.post(CHAT, &large).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["error"]["code"]), (413, &json!("body_too_large")));
    // Without a length that tells beforehand.
    let chunks = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(b"          ")));
    assert_eq!(app.post_raw(CHAT, Body::from_stream(chunks)).await.status, 413);
    let never = stream::pending::<Result<Bytes, Infallible>>();
    assert_eq!(app.post_raw(CHAT, Body::from_stream(never)).await.status, 408);
    let broken = stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("reset"))]);
    assert_eq!(app.post_raw(CHAT, Body::from_stream(broken)).await.status, 400);
}

/// A compressed body is no JSON that is broken.
#[tokio::test(flavor = "multi_thread")]
async fn encodings_of_bodies() {
    let app = app("Hello.");
    for (encoding, status) in [("gzip", 415), ("identity, br", 415), ("zstd", 415), ("Identity", 200)] {
        let request = Request::post(CHAT).header("content-encoding", encoding);
        let reply = app.send(request.body(Body::from(hi().to_string())).expect("a request")).await;
        assert_eq!(reply.status, status, "{encoding}: {}", reply.body);
        assert!(status == 200 || reply.error().starts_with("Content-Encoding: "), "{}", reply.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_faults_have_a_place_and_no_bytes_of_the_body() {
    let app = app("Hello.");
    for (body, place) in [
        ("{\n  \"messages\": [secret", "line 2"),
        ("", "line 1"),
        ("[1,2", "line 1"),
        ("{\"a\":1}}", "line 1, column 8"),
    ] {
        let reply = app.post_raw(CHAT, body).await;
        assert_eq!(reply.status, 400);
        assert!(reply.error().contains(place), "{body:?}: {}", reply.error());
        assert!(!reply.error().contains("secret"));
    }
    let reply = app.post_raw(CHAT, b"{\"a\": \"\xff\"}".to_vec()).await;
    assert_eq!(reply.status, 400);
    assert!(reply.error().contains("line 1, column 8"), "{}", reply.error());
    let long = json!({"messages": [{"role": "x".repeat(100_000), "content": "Hi"}]});
    let reply = app.post(CHAT, &long).await;
    assert!(reply.status == 400 && reply.body.len() < 2000, "{} bytes", reply.body.len());
    for body in ["[]", "null", "3", "\"text\""] {
        assert_eq!(app.post_raw(CHAT, body).await.status, 400, "{body}");
    }
    let deep = format!("{{\"messages\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let reply = app.post_raw(CHAT, deep).await;
    assert_eq!(reply.status, 400);
    assert!(reply.error().contains("nests deeper"), "{}", reply.error());
}

/// Large bodies are read elsewhere, and are answered alike.
#[tokio::test(flavor = "multi_thread")]
async fn large_bodies() {
    let mut setup = Setup::new("Hello.");
    setup.config.limits.body_bytes = 4 << 20;
    setup.config.limits.json_depth = 8;
    setup.script.context = 1 << 20;
    let app = setup.start();
    let text = "x ".repeat(50_000);
    let whole = with(&hi(), &json!({"note": text}));
    assert_eq!(app.post(CHAT, &whole).await.status, 200);
    let broken = format!("{{\n\"note\": \"{text}\", ");
    let deep = format!("{{\"note\": \"{text}\", \"a\": {}", "[".repeat(20));
    let bytes = [b"\"", text.as_bytes(), b"\xff\""].concat();
    for (body, reason) in [
        (broken.into_bytes(), "line 2"),
        (deep.into_bytes(), "nests deeper"),
        (bytes, "not UTF-8: line 1, column 100002"),
    ] {
        let reply = app.post_raw(CHAT, body).await;
        assert_eq!(reply.status, 400);
        assert!(reply.error().contains(reason), "{}", reply.error());
    }
    assert_eq!(app.post_raw(CHAT, " ".repeat(5 << 20)).await.status, 413);
    let keys: serde_json::Map<String, Value> = (0..100_000).map(|k| (format!("k{k}"), json!(k))).collect();
    for body in [Value::Object(keys.clone()), json!({"extra_body": keys})] {
        let reply = app.post(CHAT, &body).await;
        assert_eq!(reply.status, 400);
        assert!(reply.error().contains("at most 1024 fields"), "{}", reply.error());
    }
}

/// One worker serves everyone here: what holds it up holds up all.
#[tokio::test]
async fn a_large_body_holds_up_nobody() {
    let app = app("Hello.");
    let keys: Vec<String> = (0..400_000).map(|k| format!("\"k{k}\":1")).collect();
    let body = format!("{{{}}}", keys.join(","));
    let answered = std::sync::atomic::AtomicBool::new(false);
    let large = async {
        let reply = app.post_raw(CHAT, body).await;
        assert_eq!(reply.status, 400);
        assert!(answered.load(std::sync::atomic::Ordering::Relaxed), "the other was answered first");
    };
    let small = async {
        assert_eq!(app.get("/health").await.status, 200);
        answered.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    tokio::join!(large, small);
}

/// A number beyond a bound is told which.
#[tokio::test(flavor = "multi_thread")]
async fn numbers() {
    let app = app("Hello.");
    for (body, reason) in [
        (r#""max_tokens": 100000000000000000000"#, "max_tokens: must be at most 9223372036854775807"),
        (r#""max_tokens": 0"#, "max_tokens: must be at least 1"),
        (r#""max_tokens": -100000000000000000000"#, "max_tokens: must be at least 1"),
        (r#""max_tokens": 1.5"#, "max_tokens: must be a whole number, without a fraction"),
        (r#""max_tokens": "1""#, "max_tokens: must be a whole number, not a string"),
        (r#""top_k": -2"#, "top_k: must be at least -1"),
        (r#""n": 9"#, "n: must be from 1 to 8"),
        (r#""seed": 18446744073709551616"#, "seed: must be a whole number of 64 bits"),
        (r#""seed": 0.5"#, "seed: must be a whole number, without a fraction"),
    ] {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "Hi"}}], {body}}}"#);
        let reply = app.post_raw(CHAT, body.clone()).await;
        assert_eq!((reply.status.as_u16(), reply.error().as_str()), (400, reason), "{body}");
    }
    for seed in [json!(u64::MAX), json!(i64::MIN), json!(-1), json!(3.0)] {
        assert_eq!(app.post(CHAT, &with(&hi(), &json!({"seed": seed}))).await.status, 200, "{seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_answers_than_can_wait() {
    let app = app("Hello.");
    let prompts = vec!["a"; 32];
    let reply = app.post("/v1/completions", &json!({"prompt": prompts, "n": 3})).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["error"]["param"]), (400, &json!("prompt")));
    assert!(reply.error().contains("96 answers; at most 64"), "{}", reply.error());
    assert_eq!(app.engine.metrics().accepted, 0, "nothing was begun");
    assert_eq!(app.post("/v1/completions", &json!({"prompt": prompts, "n": 2})).await.status, 200);
}

/// What an idle server refuses it says so, with the limit and without a promise that later will do.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_one_request() {
    for (places, queue) in [(1, 0), (2, 1), (1, 3), (4, 0)] {
        let mut setup = Setup::new("Hello.");
        (setup.engine.max_running, setup.engine.max_waiting) = (places, queue);
        let app = setup.start();
        for count in 1..=6_usize {
            let several = json!({"n": count, "temperature": 1});
            let prompts = json!({"prompt": vec!["a"; count]});
            for (path, body, param) in [
                (CHAT, with(&hi(), &several), "n"),
                ("/v1/completions", with(&json!({"prompt": "a"}), &several), "n"),
                ("/v1/completions", prompts.clone(), if count == 1 { "n" } else { "prompt" }),
                (
                    "/v1/completions",
                    with(&prompts, &json!({"stream": true})),
                    if count == 1 { "n" } else { "prompt" },
                ),
            ] {
                let reply = app.post(path, &body).await;
                if count <= places + queue {
                    assert_eq!(reply.status, 200, "{places} {queue} {path} {body}: {}", reply.body);
                } else {
                    assert_eq!(
                        (reply.status.as_u16(), &reply.json()["error"]["param"]),
                        (400, &json!(param)),
                        "{body}"
                    );
                    assert!(
                        reply.error().contains(&format!("at most {}", places + queue)),
                        "{}",
                        reply.error()
                    );
                }
                app.idle().await;
            }
        }
    }
}

/// Two requests that each fill the server: one is served and the other comes later, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_with_several_answers_do_not_starve_each_other() {
    let mut setup = Setup::new("Hello.");
    (setup.engine.max_running, setup.engine.max_waiting) = (2, 6);
    let app = setup.start();
    let body = json!({"prompt": vec!["a"; 8]});
    for _ in 0..20 {
        let replies = futures::future::join_all((0..4).map(|_| app.post("/v1/completions", &body))).await;
        let served = replies.iter().filter(|reply| reply.status == 200).count();
        assert!(served >= 1, "nobody was served");
        assert!(replies.iter().all(|reply| [200, 503].contains(&reply.status.as_u16())));
        app.idle().await;
    }
}

/// The deadline holds for what comes before the generation too.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_before_the_generation() {
    let app = app("{}");
    let properties: serde_json::Map<String, Value> = (0..2_000)
        .map(|k| (format!("k{k}"), json!({"type": "string", "pattern": "^[a-z]{1,40}$"})))
        .collect();
    let schema = json!({"type": "object", "properties": properties});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let request = with(&hi(), &json!({"response_format": format, "deadline_seconds": 0.005}));
    let reply = app.post(CHAT, &request).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["error"]["code"]), (408, &json!("deadline_exceeded")));
    assert_eq!(app.engine.metrics().accepted, 0, "no generation was begun");
}

/// Grammars that are still made when their requests are over do not take the places of what others need.
#[test]
fn schemas_that_nobody_waits_for() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(4).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let app = app("{}");
        let properties: serde_json::Map<String, Value> = (0..2_000)
            .map(|k| (format!("k{k}"), json!({"type": "string", "pattern": "^[a-z]{1,40}$"})))
            .collect();
        let schema = json!({"type": "object", "properties": properties});
        let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
        let request = with(&hi(), &json!({"response_format": format}));
        let begun = Instant::now();
        assert_eq!(
            app.post(CHAT, &request).await.status,
            400,
            "too much for a grammar, which shows in the end"
        );
        let alone = begun.elapsed();
        let request = with(&request, &json!({"deadline_seconds": alone.as_secs_f64() / 20.0}));
        let replies = futures::future::join_all((0..8).map(|_| app.post(CHAT, &request))).await;
        assert!(replies.iter().all(|reply| reply.status == 408));
        let begun = Instant::now();
        assert_eq!(app.post(CHAT, &hi()).await.status, 200);
        // Had all of them gone on, this would have waited for one of four that share the cores.
        let waited = begun.elapsed();
        assert!(waited < alone / 2, "{waited:?}, where a grammar takes {alone:?}");
    });
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread")]
async fn counts() {
    let mut setup = Setup::new("Hello.");
    let limits = &mut setup.config.limits;
    (limits.messages, limits.tools, limits.stop_strings, limits.stop_bytes, limits.logit_bias) =
        (3, 2, 2, 8, 2);
    let app = setup.start();
    let messages = vec![json!({"role": "user", "content": "Hi"}); 4];
    let tools = vec![json!({"type": "function", "function": {"name": "f"}}); 3];
    for (field, value) in [
        ("messages", json!(messages)),
        ("tools", json!(tools)),
        ("stop", json!(["a", "b", "c"])),
        ("stop", json!("123456789")),
        ("logit_bias", json!({"1": 1, "2": 1, "3": 1})),
    ] {
        let reply = app.post(CHAT, &with(&hi(), &json!({field: value}))).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["error"]["param"]), (400, &json!(field)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_a_503_that_says_when_to_come_back() {
    let mut setup = Setup::new(&"word ".repeat(400));
    setup.script.decode_time = Duration::from_millis(5);
    (setup.engine.max_running, setup.engine.max_waiting) = (1, 1);
    let app = setup.start();
    let streamed = with(&hi(), &json!({"stream": true}));
    let running = app.open(CHAT, &streamed).await;
    while app.engine.metrics().running == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let waiting = app.open(CHAT, &streamed).await;
    for request in [&hi(), &streamed] {
        let refused = app.post(CHAT, request).await;
        assert_eq!((refused.status.as_u16(), &refused.json()["error"]["code"]), (503, &json!("overloaded")));
        assert_eq!(refused.headers["retry-after"], "2");
    }
    drop((running, waiting));
    app.idle().await;
    assert_eq!(
        app.post(CHAT, &with(&hi(), &json!({"max_tokens": 1}))).await.status,
        200,
        "and then it works again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_does_not_fit_is_a_400() {
    let mut setup = Setup::new("Hello.");
    setup.script.context = 100;
    let app = setup.start();
    let request = json!({"messages": [{"role": "user", "content": "word ".repeat(200)}]});
    for stream in [false, true] {
        let reply = app.post(CHAT, &with(&request, &json!({"stream": stream}))).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["code"]),
            (400, &json!("context_length_exceeded"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines() {
    let mut setup = Setup::new(&"word ".repeat(10_000));
    setup.script.decode_time = Duration::from_millis(2);
    let app = setup.start();
    let request = with(&hi(), &json!({"deadline_seconds": 0.2}));
    let reply = app.post(CHAT, &request).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["error"]["code"]), (408, &json!("deadline_exceeded")));
    for (path, body) in [
        ("/v1/messages", json!({"messages": [{"role": "user", "content": "Hi"}], "deadline_seconds": 0.1})),
        ("/v1/responses", json!({"input": "Hi", "deadline_seconds": 0.1})),
        ("/v1/completions", json!({"prompt": "Hi", "deadline_seconds": 0.1})),
    ] {
        assert_eq!(app.post(path, &body).await.status, 408, "{path}");
    }
    let stream = app.post(CHAT, &with(&request, &json!({"stream": true}))).await;
    let last = stream.chunks().pop().expect("an event");
    assert_eq!(last["error"]["code"], "deadline_exceeded");
    assert!(stream.joined("content").contains("word"));
    app.idle().await;
}

/// A reader that stands still loses its own stream and nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader() {
    let mut setup = Setup::new(&"word ".repeat(20_000));
    setup.config.limits.stream_buffer = 64 << 10;
    let app = setup.start();
    let mut slow = app.open(CHAT, &with(&hi(), &json!({"stream": true}))).await;
    assert!(slow.next().await.is_some());
    let other = app.post(CHAT, &with(&hi(), &json!({"max_tokens": 50}))).await;
    assert_eq!(other.status, 200, "{}", other.body);
    app.idle().await;
    let mut rest = Vec::new();
    while let Some(bytes) = slow.next().await {
        rest.extend_from_slice(&bytes);
    }
    let rest = String::from_utf8(rest).expect("text");
    assert!(rest.contains("\"code\":\"slow_reader\""), "the last event says why");
    assert!(rest.len() < 20_000 * 200, "not all of the answer was kept: {} bytes", rest.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_those_who_leave() {
    let mut setup = Setup::new(&"word ".repeat(10_000));
    setup.script.decode_time = Duration::from_millis(1);
    let app = setup.start();
    for _ in 0..20 {
        let mut live = app.open(CHAT, &with(&hi(), &json!({"stream": true, "n": 2}))).await;
        assert!(live.next().await.is_some());
        drop(live);
    }
    // The engine learns of the last ones a moment later, and may look idle before.
    for _ in 0..1000 {
        if app.engine.metrics().cancelled >= 40 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    app.idle().await;
    assert_eq!(app.engine.metrics().cancelled, 40);
}
