//! `POST /v1/completions`.

use crate::app::app;
use crate::cases::with;
use serde_json::{Value, json};

const PATH: &str = "/v1/completions";

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_continued_as_it_is() {
    let app = app("<think>raw</think> text");
    let reply = app.post(PATH, &json!({"prompt": "Once", "max_tokens": 100})).await.json();
    assert_eq!(
        (&reply["object"], &reply["choices"][0]["finish_reason"]),
        (&json!("text_completion"), &json!("stop"))
    );
    assert_eq!(reply["choices"][0]["text"], "<think>raw</think> text");
    let stream = app.post(PATH, &json!({"prompt": "Once", "stream": true})).await;
    let texts = stream
        .chunks()
        .iter()
        .map(|chunk| chunk["choices"][0]["text"].as_str().expect("text").to_owned())
        .collect::<String>();
    assert_eq!(texts, "<think>raw</think> text");
    assert!(stream.body.ends_with("data: [DONE]\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_prompts_in_every_form() {
    let app = app("yes");
    let ids: Vec<u32> = crate::app::tokenizer().encode("Once upon").into_iter().map(|id| id.0).collect();
    for (prompt, prompts) in
        [(json!(["a", "b"]), 2), (json!(ids), 1), (json!([ids, ids]), 2), (json!("a"), 1)]
    {
        let reply = app.post(PATH, &json!({"prompt": prompt, "n": 2, "temperature": 0})).await.json();
        assert_eq!(reply["choices"].as_array().map(Vec::len), Some(2 * prompts), "{prompt}: {reply}");
    }
    let one = app.post(PATH, &json!({"prompt": ids})).await;
    assert_eq!(one.number("/usage/prompt_tokens"), ids.len() as u64);
    for prompt in [Value::Null, json!([]), json!([99_999_999]), json!([true]), json!({}), json!([["x"]])] {
        let reply = app.post(PATH, &json!({"prompt": prompt})).await;
        assert_eq!(reply.status, 400, "{prompt}: {}", reply.body);
        assert!(reply.error().starts_with("prompt"), "{}", reply.error());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logprobs_in_the_older_shape() {
    let app = app("one two three");
    let request = json!({"prompt": "x", "logprobs": 2, "temperature": 0});
    let whole = app.post(PATH, &request).await.json();
    let logprobs = &whole["choices"][0]["logprobs"];
    let tokens: Vec<&str> =
        logprobs["tokens"].as_array().expect("tokens").iter().filter_map(Value::as_str).collect();
    assert_eq!(tokens.concat(), "one two three");
    assert_eq!(logprobs["text_offset"][1], json!(tokens[0].len()));
    assert_eq!(logprobs["top_logprobs"][0].as_object().map(serde_json::Map::len), Some(2));
    let stream = app.post(PATH, &with(&request, &json!({"stream": true}))).await;
    let offsets: Vec<Value> = stream
        .chunks()
        .iter()
        .flat_map(|chunk| {
            chunk["choices"][0]["logprobs"]["text_offset"].as_array().cloned().unwrap_or_default()
        })
        .collect();
    assert_eq!(json!(offsets), logprobs["text_offset"]);
}

/// Characters that are split over tokens: offsets count characters of the text, and every token has a spelling of its own.
#[tokio::test(flavor = "multi_thread")]
async fn logprobs_of_split_characters() {
    let text = "a😀é b";
    let tokens: Vec<u8> = text.bytes().collect();
    let id = |byte: &u8| {
        let ids = (0..crate::app::tokenizer().size() as u32).map(lily_engine::TokenId);
        let is = |id: &lily_engine::TokenId| crate::app::tokenizer().token_bytes(*id) == Some(&[*byte]);
        ids.into_iter().find(is).expect("a token for every byte")
    };
    let app = crate::app::Setup::with_tokens(tokens.iter().map(id).collect()).start();
    let request = json!({"prompt": "x", "logprobs": 1, "temperature": 0});
    let whole = app.post(PATH, &request).await.json();
    assert_eq!(whole["choices"][0]["text"], text);
    let logprobs = &whole["choices"][0]["logprobs"];
    assert_eq!(logprobs["text_offset"], json!([0, 1, 1, 1, 1, 2, 2, 3, 4]));
    let spelled = |byte: &u8| match byte.is_ascii() {
        true => char::from(*byte).to_string(),
        false => format!("bytes:\\x{byte:02x}"),
    };
    assert_eq!(logprobs["tokens"], json!(tokens.iter().map(spelled).collect::<Vec<_>>()));
    assert_eq!(logprobs["top_logprobs"][1], json!({"bytes:\\xf0": logprobs["token_logprobs"][1]}));
    let stream = app.post(PATH, &with(&request, &json!({"stream": true}))).await.chunks();
    let list = |name: &str| -> Vec<Value> {
        let of =
            |chunk: &Value| chunk["choices"][0]["logprobs"][name].as_array().cloned().unwrap_or_default();
        stream.iter().flat_map(of).collect()
    };
    assert_eq!(json!(list("text_offset")), logprobs["text_offset"]);
    assert_eq!(json!(list("tokens")), logprobs["tokens"]);
    let joined: String = stream.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
    assert_eq!(joined, text);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_supported_is_named() {
    let app = app("yes");
    for (field, value) in [
        ("suffix", json!("x")),
        ("echo", json!(true)),
        ("best_of", json!(3)),
        ("tools", json!([])),
        ("logprobs", json!(21)),
    ] {
        let reply = app.post(PATH, &json!({"prompt": "a", field: value})).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!(field)),
            "{}",
            reply.body
        );
    }
    let reply =
        app.post(PATH, &json!({"prompt": "a", "best_of": 2, "n": 2, "echo": false, "suffix": null})).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}
