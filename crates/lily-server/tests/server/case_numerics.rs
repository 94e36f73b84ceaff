//! The `numerics` case that a client meets: broken logits.

use crate::app::Setup;
use crate::cases::{run, table, variants, with};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn numerics() {
    let elsewhere = [
        ("NUM-05", "lily-kernels and lily-cpu: rotary pairs"),
        ("NUM-07", "lily-kernels and lily-cpu: routing in f32"),
        ("NUM-08", "lily-checkpoint: norm_topk_prob"),
        ("NUM-09", "lily-cpu: prefill against single steps"),
        ("NUM-11", "lily-cpu and lily-engine: batches"),
        ("NUM-12", "lily-cpu: parity at four lengths"),
    ];
    run("numerics", table!["NUM-02" => broken_logits], &elsewhere).await;
}

async fn broken_logits() {
    for after in [0, 3] {
        for request in variants("NUM-02") {
            let mut setup = Setup::new("Hello, how are you today?");
            setup.script.nan_after = Some(after);
            let app = setup.start();
            let reply = app.chat(&request).await;
            assert_eq!(reply.status, 500, "{}", reply.body);
            assert!(reply.error().contains("NaN"), "{}", reply.error());

            let stream = app.chat(&with(&request, &json!({"stream": true}))).await;
            assert_eq!(stream.status, 200);
            let last = stream.chunks().pop().expect("an event");
            assert!(
                last["error"]["message"].as_str().is_some_and(|message| message.contains("NaN")),
                "{last}"
            );
            assert!(stream.finish_reasons().is_empty(), "no made-up end: {}", stream.body);
            assert!(!stream.body.contains("[DONE]"));
            app.idle().await;
        }
    }
}
