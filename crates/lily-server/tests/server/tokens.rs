//! `/tokenize` and `/detokenize`.

use crate::app::{app, tokenizer};
use crate::cases::with;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn there_and_back() {
    let app = app("");
    let reply = app.post("/tokenize", &json!({"prompt": "Hello, 東京 <|im_end|>"})).await.json();
    assert_eq!(reply["count"], json!(reply["tokens"].as_array().expect("tokens").len()));
    let text = app.post("/detokenize", &json!({"tokens": reply["tokens"]})).await.json();
    assert_eq!(text["prompt"], "Hello, 東京 <|im_end|>");
    assert_eq!(app.post("/tokenize", &json!({"content": "Hello, 東京 <|im_end|>"})).await.json(), reply);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_what_chat_completions_reads() {
    let app = app("");
    let request = json!({"messages": [{"role": "user", "content": "Hi"}], "enable_thinking": false});
    assert_eq!(app.chat(&request).await.number("/usage/prompt_tokens"), app.count(&request).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_named() {
    let app = app("");
    assert_eq!(app.post("/tokenize", &json!({})).await.json()["error"]["param"], "prompt");
    assert_eq!(app.post("/detokenize", &json!({})).await.json()["error"]["param"], "tokens");
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let both = app.post("/tokenize", &json!({"messages": messages, "content": "Hi"})).await;
    assert_eq!((both.status.as_u16(), &both.json()["error"]["param"]), (400, &json!("content")));
    assert_eq!(app.post("/tokenize", &json!({"messages": null, "content": "Hi"})).await.status, 200);
    for id in [json!(tokenizer().size()), json!(-1), json!("1"), json!(1e30)] {
        let reply = app.post("/detokenize", &json!({"tokens": [0, id]})).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!("tokens[1]")),
            "{id}"
        );
    }
}

/// Texts and tokens have no more parameters than they need; what would change them is named.
#[tokio::test(flavor = "multi_thread")]
async fn what_would_change_nothing_is_named() {
    let app = app("");
    for (path, body) in [("/tokenize", json!({"prompt": "Hi"})), ("/detokenize", json!({"tokens": [1]}))] {
        for (name, value) in [
            ("tools", json!([{"type": "function"}])),
            ("parse_special", json!(false)),
            ("with_pieces", json!(true)),
            ("user", json!(5)),
            ("extra_body", json!({"extra_body": {}})),
        ] {
            let reply = app.post(path, &with(&body, &json!({name: value}))).await;
            assert_eq!(reply.status, 400, "{path} {name}: {}", reply.body);
            assert!(reply.error().starts_with(name), "{path} {name}: {}", reply.error());
        }
        let idle =
            json!({"model": "m", "user": "u", "parse_special": true, "with_pieces": false, "tools": []});
        assert_eq!(app.post(path, &with(&body, &idle)).await.status, 200, "{path}");
    }
}
