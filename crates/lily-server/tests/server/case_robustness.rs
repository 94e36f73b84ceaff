//! The `robustness` cases.

use crate::app::{Setup, app};
use crate::cases::{case, run, table, variants, with};
use axum::body::Body;
use axum::http::Request;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn robustness() {
    let tests = table![
        "ROB-05" => preflight,
        "ROB-09" => mixed,
        "ROB-10" => tools,
        "ROB-11" => malformed_tool_choice,
    ];
    run("robustness", tests, &[]).await;
}

async fn preflight() {
    let mut setup = Setup::new("Hello.");
    setup.config.cors_origins = vec!["http://localhost:3000".to_owned()];
    setup.config.api_keys = vec!["secret".to_owned()];
    let app = setup.start();
    let line = case("ROB-05")["input"]["http"].as_str().expect("a request");
    let value = |name: &str| {
        let rest = line.split(&format!("{name}: ")).nth(1).expect("a header");
        rest.split("  ").next().expect("a value").to_owned()
    };
    let request = Request::builder()
        .method("OPTIONS")
        .uri("/v1/chat/completions")
        .header("origin", value("Origin"))
        .header("access-control-request-method", value("Access-Control-Request-Method"))
        .header("access-control-request-headers", value("Access-Control-Request-Headers"));
    let reply = app.send(request.body(Body::empty()).expect("a request")).await;
    assert_eq!(reply.status, 204, "{}", reply.body);
    assert_eq!(reply.headers["access-control-allow-origin"], "http://localhost:3000");
    assert_eq!(reply.headers["access-control-allow-headers"], "authorization,content-type");
    assert!(
        reply.headers["access-control-allow-methods"].to_str().is_ok_and(|methods| methods.contains("POST"))
    );

    let unauthorized = Request::post("/v1/chat/completions").header("origin", value("Origin"));
    let reply = app.send(unauthorized.body(Body::from("{}")).expect("a request")).await;
    assert_eq!(reply.status, 401);
    assert_eq!(reply.headers["access-control-allow-origin"], "http://localhost:3000", "errors carry it too");
}

async fn mixed() {
    let app = app("</think>\n\nHello, all of you.");
    let ask = async |tokens: usize, stream: bool| {
        let content = "word ".repeat(tokens);
        let request = json!({"messages": [{"role": "user", "content": content}], "stream": stream});
        let reply = app.chat(&request).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        if stream {
            reply.joined("content")
        } else {
            reply.json()["choices"][0]["message"]["content"].as_str().expect("content").to_owned()
        }
    };
    let answers = tokio::join!(ask(20, true), ask(900, false), ask(90, true));
    let wanted = "Hello, all of you.".to_owned();
    assert_eq!(answers, (wanted.clone(), wanted.clone(), wanted));
}

async fn tools() {
    let app = app("</think>\n\nHello.");
    let many: Vec<_> = (0..200)
        .map(|index| json!({"type": "function", "function": {"name": format!("tool_{index}"), "parameters": {}}}))
        .collect();
    let base = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let requests = variants("ROB-10").into_iter().chain([with(&base, &json!({"tools": many}))]);
    for request in requests {
        let reply = app.chat(&request).await;
        assert_eq!(reply.status, 200, "{request}: {}", reply.body);
        assert_eq!(reply.json()["choices"][0]["message"]["content"], "Hello.");
    }
}

async fn malformed_tool_choice() {
    let app = app("</think>\n\nHello.");
    let tools = json!({"tools": [{"type": "function", "function": {"name": "known"}}]});
    for request in variants("ROB-11") {
        for request in [request.clone(), with(&request, &tools)] {
            let reply = app.chat(&request).await;
            assert_eq!(json!(reply.status.as_u16()), case("ROB-11")["check"]["http_status"], "{request}");
            let param = reply.json()["error"]["param"].clone();
            assert!(param.as_str().is_some_and(|param| param.starts_with("tool_choice")), "{param}");
        }
    }
}
