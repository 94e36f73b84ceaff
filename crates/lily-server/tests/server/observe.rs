//! Models, health and metrics.

use crate::app::{Setup, app};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn models() {
    let app = app("");
    let list = app.get("/v1/models").await.json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][0]["id"], "scripted");
    assert_eq!(app.get("/v1/models/scripted").await.json(), list["data"][0]);
    // Anthropic's client reads the same list.
    let model = &list["data"][0];
    assert_eq!((&model["type"], &model["created_at"]), (&json!("model"), &json!("2023-11-14T22:13:20Z")));
    assert_eq!((&model["display_name"], &list["has_more"]), (&model["id"], &json!(false)));
    let missing = app.get("/v1/models/other/name").await;
    assert_eq!((missing.status.as_u16(), &missing.json()["error"]["code"]), (404, &json!("model_not_found")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_model_is_refused_only_where_that_is_asked_for() {
    let mut setup = Setup::new("</think>\n\nHello.");
    (setup.config.strict_model, setup.config.aliases) = (true, vec!["other".to_owned()]);
    let app = setup.start();
    let ask = async |model: &str| {
        app.chat(&json!({"model": model, "messages": [{"role": "user", "content": "Hi"}]})).await
    };
    assert_eq!(ask("scripted").await.status, 200);
    assert_eq!(ask("other").await.status, 200);
    let refused = ask("gpt-4o").await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]["param"]), (404, &json!("model")));
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_whether_requests_are_taken() {
    let app = app("");
    let health = app.get("/health").await;
    assert_eq!(health.status, 200);
    assert_eq!(health.json()["status"], "ok");
    let engine = app.engine.clone();
    tokio::task::spawn_blocking(move || engine.shut_down(std::time::Duration::ZERO))
        .await
        .expect("shut down");
    assert_eq!(app.get("/health").await.status, 503);
    let reply = app.chat(&json!({"messages": [{"role": "user", "content": "Hi"}]})).await;
    assert_eq!(reply.status, 503, "{}", reply.body);
    assert!(reply.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count() {
    let app = app("</think>\n\nHello, you.");
    for _ in 0..3 {
        app.chat(&json!({"messages": [{"role": "user", "content": "Hi"}]})).await;
    }
    app.chat(&json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})).await;
    app.chat(&json!({})).await;
    app.idle().await;
    let metrics = app.get("/metrics").await;
    assert!(
        metrics.headers["content-type"]
            .to_str()
            .is_ok_and(|kind| kind.starts_with("text/plain; version=0.0.4"))
    );
    for line in [
        "lily_answers_total{finish=\"stop\"} 3",
        "lily_answers_total{finish=\"length\"} 1",
        "lily_time_to_first_token_seconds_count 4",
        "lily_http_responses_total{status=\"2xx\"} 4",
        "lily_http_responses_total{status=\"4xx\"} 1",
        "lily_accepted_total 4",
        "lily_running 0",
    ] {
        assert!(metrics.body.lines().any(|have| have == line), "{line} is not in\n{}", metrics.body);
    }
    for line in metrics.body.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

/// Every operation of the document is a route, and what the document does not know is none.
#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_true() {
    let app = app("</think>\n\nHello.");
    let document = app.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() >= 13);
    for (path, operations) in paths {
        let operations = operations.as_object().expect("operations");
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let request = axum::http::Request::builder().method(method).uri(path.replace("{id}", "x"));
            let reply = app.send(request.body(axum::body::Body::from("{}")).expect("a request")).await;
            let known = operations.contains_key(&method.to_lowercase());
            assert_eq!(reply.status != 405, known, "{method} {path}: {}", reply.status);
            assert!(!reply.body.contains("unknown_path"), "{method} {path}");
        }
    }
    // References lead somewhere.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    let wrong = app.get("/v2/chat").await;
    assert_eq!(wrong.status, 404);
    for path in paths.keys() {
        assert!(wrong.error().contains(path.as_str()), "{path} is not in the answer to a wrong path");
    }
}
