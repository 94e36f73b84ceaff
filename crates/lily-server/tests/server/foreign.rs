//! Parameters of other routes and servers: honoured, or a 400 that names them.

use crate::app::app;
use crate::cases::with;
use serde_json::{Value, json};

/// What a request to each route needs, what it refuses, and what it takes because it asks for nothing.
fn routes() -> Vec<(&'static str, Value, Value, Value)> {
    let messages = json!([{"role": "user", "content": "Hi"}]);
    vec![
        (
            "/v1/chat/completions",
            json!({"messages": messages, "max_tokens": 5}),
            json!({
                "stop_sequences": ["x"], "max_output_tokens": 5, "thinking": {"type": "enabled"},
                "reasoning": {"effort": "low"}, "output_config": {"effort": "low"}, "output_format": {"type": "text"},
                "text": {"format": {"type": "text"}}, "system": "x", "instructions": "x", "best_of": 2, "echo": true,
                "suffix": "x", "prompt": "x", "input": "x", "max_tool_calls": 1,
            }),
            json!({"stop_sequences": [], "best_of": 1, "echo": false, "text": {}, "system": null}),
        ),
        (
            "/v1/completions",
            json!({"prompt": "Hi", "max_tokens": 5}),
            json!({
                "max_completion_tokens": 5, "max_output_tokens": 5, "stop_sequences": ["x"], "top_logprobs": 2,
                "reasoning_effort": "low", "functions": [{}], "store": true, "reasoning": {"effort": "low"},
            }),
            json!({"stop_sequences": [], "functions": [], "store": false, "top_logprobs": null}),
        ),
        (
            "/v1/responses",
            json!({"input": "Hi", "max_output_tokens": 5}),
            json!({
                "logprobs": true, "max_tool_calls": 1, "stop_sequences": ["x"], "thinking": {"type": "enabled"},
                "output_format": {"type": "text"}, "system": "x",
            }),
            json!({
                "logprobs": false, "stream": true, "stream_options": {"include_obfuscation": false}, "max_tool_calls": null,
            }),
        ),
        (
            "/v1/messages",
            json!({"messages": messages, "max_tokens": 5}),
            json!({
                "parallel_tool_calls": false, "top_logprobs": 2, "max_completion_tokens": 5, "max_output_tokens": 5,
                "stream_options": {"include_usage": true}, "reasoning": {"effort": "low"}, "echo": true,
                "text": {"format": {"type": "text"}},
            }),
            json!({"parallel_tool_calls": true, "stream_options": {}, "echo": false}),
        ),
    ]
}

/// Of other local servers: on every route.
fn everywhere() -> (Value, Value) {
    let refused = json!({
        "structured_outputs": {"regex": "x"}, "regex": "x", "ebnf": "x", "guided_json": {}, "guided_regex": "x",
        "guided_choice": ["x"], "guided_grammar": "x", "guided_decoding_backend": "x", "min_tokens": 2,
        "ignore_eos": true, "stop_token_ids": [1], "bad_words": ["x"], "allowed_token_ids": [1],
        "repeat_penalty": 1.1, "continue_final_message": true, "add_generation_prompt": false,
        "truncate_prompt_tokens": 5, "use_beam_search": true, "length_penalty": 1.2, "typical_p": 0.9, "top_a": 0.1,
        "mirostat": 2, "dry_multiplier": 0.8, "xtc_probability": 0.5, "samplers": ["top_k"], "prompt_logprobs": 1,
        "skip_special_tokens": false, "num_ctx": 4096, "options": {"num_ctx": 4096}, "format": "json",
        "lora": [{"id": 0}],
    });
    let also_refused = json!({
        "chat_template": "{{ x }}", "documents": [{"text": "x"}], "return_token_ids": true,
        "n_predict": 5, "num_predict": 5, "max_new_tokens": 5, "min_length": 5, "think": true, "thinking_budget": 100,
        "reasoning_budget": 0, "include_reasoning": false, "random_seed": 5, "stop_words": ["x"], "tfs_z": 0.9,
        "typical": 0.9, "dynatemp_range": 0.5, "xtc_threshold": 0.2, "num_return_sequences": 2, "do_sample": false,
        "logits_processors": ["x"], "keep_alive": "5m",
    });
    let taken = json!({
        "min_tokens": 0, "ignore_eos": false, "stop_token_ids": [], "bad_words": [], "repeat_penalty": 1.0,
        "continue_final_message": false, "add_generation_prompt": true, "regex": null, "use_beam_search": false,
        "length_penalty": 1.0, "mirostat": 0, "skip_special_tokens": true, "options": {}, "lora": [],
    });
    let also_taken = json!({
        "chat_template": null, "documents": [], "return_token_ids": false, "n_predict": -1, "num_predict": -1,
        "min_length": 0, "reasoning_budget": -1, "include_reasoning": true, "stop_words": [], "tfs_z": 1.0, "typical": 1,
        "dynatemp_range": 0.0, "xtc_threshold": 0.1, "num_return_sequences": 1, "do_sample": true,
        "logits_processors": [], "keep_alive": -1, "suffix": "",
    });
    (with(&refused, &also_refused), with(&taken, &also_taken))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_named_or_asks_for_nothing() {
    let app = app("</think>Hello.");
    let (refused_everywhere, taken_everywhere) = everywhere();
    for (path, body, refused, taken) in routes() {
        let refused = with(&refused, &refused_everywhere);
        for (name, value) in refused.as_object().expect("an object") {
            let reply = app.post(path, &with(&body, &json!({name: value}))).await;
            assert_eq!(reply.status, 400, "{path} {name}: {}", reply.body);
            assert!(reply.error().starts_with(name), "{path} {name}: {}", reply.error());
        }
        let reply = app.post(path, &with(&body, &with(&taken, &taken_everywhere))).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    }
    for body in [json!({"prompt": "Hi"}), json!({"messages": [{"role": "user", "content": "Hi"}]})] {
        for (name, value) in [("add_generation_prompt", false), ("return_token_strs", true)] {
            let reply = app.post("/tokenize", &with(&body, &json!({name: value}))).await;
            assert_eq!(
                (reply.status.as_u16(), &reply.json()["error"]["param"]),
                (400, &json!(name)),
                "{body}: {}",
                reply.body
            );
        }
    }
}

/// A stop string could cut a form, and the half would look whole.
#[tokio::test(flavor = "multi_thread")]
async fn stop_strings_beside_a_form() {
    let app = app("</think>\n\n{}");
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50});
    let object = json!({"type": "json_object"});
    let schema = json!({"type": "json_schema", "schema": {"type": "object"}});
    for (path, body, name) in [
        ("/v1/chat/completions", with(&chat, &json!({"response_format": object, "stop": "x"})), "stop"),
        ("/v1/completions", json!({"prompt": "x", "response_format": object, "stop": ["x"]}), "stop"),
        ("/v1/responses", json!({"input": "x", "text": {"format": object}, "stop": ["x"]}), "stop"),
        (
            "/v1/messages",
            with(&chat, &json!({"output_config": {"format": schema}, "stop_sequences": ["x"]})),
            "stop_sequences",
        ),
    ] {
        let reply = app.post(path, &body).await;
        assert_eq!(reply.status, 400, "{path}: {}", reply.body);
        assert!(reply.error().starts_with(&format!("{name}: ")), "{path}: {}", reply.error());
    }
    let empty = with(&chat, &json!({"response_format": object, "stop": []}));
    assert_eq!(app.chat(&empty).await.status, 200);
    let text = with(&chat, &json!({"response_format": {"type": "text"}, "stop": "x"}));
    assert_eq!(app.chat(&text).await.status, 200);
}

/// Faults of a conversation have the place that the client wrote.
#[tokio::test(flavor = "multi_thread")]
async fn items_of_input_are_called_so() {
    let app = app("Hello.");
    let user = json!({"role": "user", "content": "Hi"});
    for arguments in ["{", "[1]"] {
        let call = json!({"type": "function_call", "name": "f", "call_id": "c", "arguments": arguments});
        let reply =
            app.post("/v1/responses", &json!({"instructions": "Be brief.", "input": [user, call]})).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["error"]["param"]),
            (400, &json!("input[1].arguments")),
            "{}",
            reply.body
        );
    }
    let assistant = json!({"role": "assistant", "content": "Hi"});
    for input in [json!([]), json!([assistant])] {
        let reply = app.post("/v1/responses", &json!({"input": input})).await;
        assert!(reply.status == 200 || !reply.error().contains("messages["), "{}", reply.body);
    }
}
