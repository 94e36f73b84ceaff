//! The `sampling` cases that a client can see.

use crate::app::{Setup, app, end};
use crate::cases::{case, run, table, variants, with};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn sampling() {
    let elsewhere = [
        ("SAMP-11", "lily-engine: penalties count generated tokens only"),
        ("SAMP-12", "lily-engine: the window of the repetition penalty"),
        ("SAMP-13", "nano.rs: greedy answers alone and under load, on the real model"),
    ];
    let tests = table![
        "SAMP-01" => numbers_that_are_none,
        "SAMP-02" => edges,
        "SAMP-04" => seed,
        "SAMP-06" => logit_bias,
        "SAMP-07" => logprobs,
        "SAMP-08" => max_completion_tokens,
        "SAMP-09" => no_hidden_limit,
        "SAMP-15" => defaults,
    ];
    run("sampling", tests, &elsewhere).await;
}

async fn numbers_that_are_none() {
    let app = app("Hello.");
    let bodies = case("SAMP-01")["input"]["raw_bodies"].as_array().expect("bodies");
    let nan = bodies[0].as_str().and_then(|body| body.find("NaN")).expect("a literal NaN") + 1;
    let nan = format!("line 1, column {nan}");
    let named = [nan.as_str(), "temperature", "top_p"];
    assert_eq!(bodies.len(), named.len());
    for (body, named) in bodies.iter().zip(named) {
        let reply = app.post_raw("/v1/chat/completions", body.as_str().expect("text").to_owned()).await;
        assert_eq!(reply.status, 400, "{body}: {}", reply.body);
        assert!(reply.error().contains(named), "{body}: {}", reply.error());
    }
}

async fn edges() {
    let app = app("Hello.");
    for request in variants("SAMP-02") {
        let refused = [("temperature", -0.1), ("top_p", 0.0), ("min_p", 1.5)];
        let refused = refused.iter().find(|(field, value)| request[*field].as_f64() == Some(*value));
        let reply = app.chat(&request).await;
        match refused {
            Some((field, _)) => {
                assert_eq!(reply.status, 400, "{request}");
                assert_eq!(reply.json()["error"]["param"], *field);
            }
            None => assert_eq!(reply.status, 200, "{request}: {}", reply.body),
        }
    }
}

/// Every token is equally likely, so that only the seed can make answers equal; others run meanwhile.
async fn seed() {
    let mut setup = Setup::new("");
    setup.script.confidence = 0.0;
    let app = setup.start();
    let request = &case("SAMP-04")["input"]["request"];
    let background = with(request, &json!({"seed": null, "temperature": 1.0, "max_tokens": 200}));
    let text = |reply: crate::app::Reply| {
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()["choices"][0]["message"].to_string()
    };
    let run = || async { text(app.chat(request).await) };
    let (first, _, second, third) = tokio::join!(run(), app.chat(&background), run(), run());
    let alone = run().await;
    assert!(first == second && second == third && third == alone, "{first} {second} {third} {alone}");
    let other = text(app.chat(&with(request, &json!({"seed": 43}))).await);
    assert_ne!(first, other);
    let unseeded = with(request, &json!({"seed": null}));
    assert_ne!(text(app.chat(&unseeded).await), text(app.chat(&unseeded).await));
    let several = app.chat(&with(request, &json!({"n": 2}))).await.json();
    assert_eq!(several["choices"][0]["message"].to_string(), first, "the first choice is that of n = 1");
    assert_ne!(several["choices"][1]["message"].to_string(), first);
}

async fn logit_bias() {
    let app = app("Hello.");
    let mut requests = variants("SAMP-06");
    assert_eq!(requests.len(), 3);
    let bias = requests[1]["logit_bias"].as_object().expect("a bias").values().next().expect("one").clone();
    requests[1]["logit_bias"] = json!({end().0.to_string(): bias});
    assert_eq!(app.chat(&requests[0]).await.status, 200);
    let null = with(&requests[0], &json!({"logit_bias": null}));
    assert_eq!(app.chat(&null).await.status, 200);

    let unbiased = app.chat(&with(&requests[1], &json!({"logit_bias": {}}))).await.json();
    assert_eq!(unbiased["choices"][0]["finish_reason"], "stop");
    let banned = app.chat(&requests[1]).await.json();
    assert_eq!(banned["usage"]["completion_tokens"], 8, "the end is banned: {banned}");
    assert_eq!(banned["choices"][0]["finish_reason"], "length");

    let forced = json!({"logit_bias": {end().0.to_string(): 100}});
    let forced = app.chat(&with(&requests[0], &forced)).await.json();
    assert_eq!(forced["usage"]["completion_tokens"], 1, "the end is forced: {forced}");

    let bad = app.chat(&requests[2]).await;
    assert_eq!((bad.status.as_u16(), bad.json()["error"]["param"].clone()), (400, json!("logit_bias")));
    for bias in [json!({"5": 101}), json!({"x": 1}), json!([1]), json!({"5": "1"})] {
        assert_eq!(app.chat(&with(&requests[0], &json!({"logit_bias": bias}))).await.status, 400, "{bias}");
    }
}

async fn logprobs() {
    let app = app("é and more of it");
    let requests = variants("SAMP-07");
    let plain = app.chat(&requests[0]).await.json();
    let content = plain["choices"][0]["logprobs"]["content"].as_array().expect("log-probabilities");
    assert_eq!(content.len(), 4);
    for entry in content {
        assert!(entry["logprob"].as_f64().is_some_and(|value| value <= 0.0), "{entry}");
        assert_eq!(entry["top_logprobs"], json!([]));
    }
    let bytes = |content: &[Value]| -> Vec<u8> {
        let bytes = content.iter().flat_map(|entry| entry["bytes"].as_array().expect("bytes"));
        bytes.map(|byte| byte.as_u64().expect("a byte") as u8).collect()
    };
    assert!("é and more of it".as_bytes().starts_with(&bytes(content)), "{content:?}");

    let top = app.chat(&requests[1]).await.json();
    let content = top["choices"][0]["logprobs"]["content"].as_array().expect("log-probabilities");
    for entry in content {
        let top = entry["top_logprobs"].as_array().expect("a list");
        assert_eq!(top.len(), 3);
        assert_eq!((&top[0]["token"], &top[0]["logprob"]), (&entry["token"], &entry["logprob"]), "greedy");
    }
    let streamed = app.chat(&with(&requests[1], &json!({"stream": true}))).await;
    let entries = streamed
        .chunks()
        .into_iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array().cloned());
    assert_eq!(entries.flatten().collect::<Vec<_>>(), *content, "streamed and whole agree");

    for (request, field) in [(&requests[2], "top_logprobs"), (&requests[3], "top_logprobs")] {
        let reply = app.chat(request).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!(field)),
            "{request}"
        );
    }
}

async fn max_completion_tokens() {
    let app = app("one two three four five six seven eight nine ten");
    let check = &case("SAMP-08")["check"];
    for request in variants("SAMP-08") {
        let reply = app.chat(&request).await.json();
        assert_eq!(reply["usage"]["completion_tokens"], check["usage.completion_tokens"], "{request}");
        assert_eq!(reply["choices"][0]["finish_reason"], check["finish_reason"]);
    }
}

async fn no_hidden_limit() {
    let mut setup = Setup::new(&"word ".repeat(9000));
    setup.script.context = 6000;
    let app = setup.start();
    for request in variants("SAMP-09") {
        let reply = app.chat(&request).await.json();
        assert_eq!(reply["choices"][0]["finish_reason"], "length", "the context's end");
        let usage = &reply["usage"];
        assert!(usage["total_tokens"].as_u64().is_some_and(|total| total >= 5999), "{usage}");
    }
}

async fn defaults() {
    let setup = Setup::new("Hello.");
    let mut model = setup.model();
    (model.defaults.temperature, model.defaults.top_p, model.defaults.top_k) = (1.0, 0.95, 20);
    let app = crate::app::App {
        engine: model.engine.clone(),
        seen: setup.script.seen.clone(),
        router: lily_server::router(model, setup.config),
    };
    let reply = app.post("/v1/responses", &json!({"input": "Hi"})).await.json();
    assert_eq!(reply["temperature"], 1.0);
    assert!((reply["top_p"].as_f64().expect("a number") - 0.95).abs() < 1e-6);
    let reply = app.post("/v1/responses", &json!({"input": "Hi", "temperature": 0.5})).await.json();
    assert_eq!(reply["temperature"], 0.5);
}
