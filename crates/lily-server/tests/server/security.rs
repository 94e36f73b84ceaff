//! Who may ask.

use crate::app::{App, Reply, Setup};
use axum::body::Body;
use axum::http::Request;
use serde_json::json;

const BODY: &str = r#"{"messages":[{"role":"user","content":"Hi"}],"enable_thinking":false}"#;

async fn ask(app: &App, headers: &[(&str, &str)]) -> Reply {
    ask_at(app, "/v1/chat/completions", headers).await
}

async fn ask_at(app: &App, path: &str, headers: &[(&str, &str)]) -> Reply {
    let request =
        headers.iter().fold(Request::post(path), |request, (name, value)| request.header(*name, *value));
    app.send(request.body(Body::from(BODY)).expect("a request")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_are_kept_out() {
    let app = Setup::new("Hello.").start();
    let host = ("host", "localhost:8080");
    assert_eq!(ask(&app, &[host]).await.status, 200);
    assert_eq!(ask(&app, &[host, ("origin", "http://localhost:8080")]).await.status, 200);
    for origin in ["http://evil.example", "null", "http://localhost:3000"] {
        let reply = ask(&app, &[host, ("origin", origin)]).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["code"]),
            (403, &json!("origin_not_allowed"))
        );
        assert!(!reply.headers.contains_key("access-control-allow-origin"));
    }
    let rebound = ask(&app, &[("host", "evil.example:8080"), ("origin", "http://evil.example:8080")]).await;
    assert_eq!(
        (rebound.status.as_u16(), &rebound.json()["error"]["code"]),
        (403, &json!("host_not_allowed"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_origins() {
    let mut setup = Setup::new("Hello.");
    setup.config.cors_origins = vec!["http://app.example".to_owned()];
    let app = setup.start();
    let reply = ask(&app, &[("origin", "http://app.example")]).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["access-control-allow-origin"], "http://app.example");
    assert_eq!(ask(&app, &[("origin", "http://other.example")]).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys() {
    let mut setup = Setup::new("Hello.");
    setup.config.api_keys = vec!["secret".to_owned()];
    let app = setup.start();
    assert_eq!(ask(&app, &[("authorization", "Bearer secret")]).await.status, 200);
    assert_eq!(ask(&app, &[("x-api-key", "secret")]).await.status, 200);
    for headers in [vec![], vec![("authorization", "Bearer wrong")], vec![("authorization", "Bearer ")]] {
        let reply = ask(&app, &headers).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["error"]["code"]), (401, &json!("invalid_api_key")));
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
        assert!(!reply.body.contains("wrong"), "keys are not repeated");
    }
    assert_eq!(app.get("/health").await.status, 200, "whether it lives may be asked without a key");
    for path in ["/v1/models", "/metrics", "/nothing"] {
        assert_eq!(app.get(path).await.status, 401, "{path}");
    }
    let anthropic = ask_at(&app, "/v1/messages", &[]).await;
    assert_eq!(anthropic.status, 401);
    assert_eq!(anthropic.json()["error"]["type"], "authentication_error");
    assert_eq!(anthropic.json()["type"], "error", "each format has its own shape of errors");
}
