//! Choosing a model, and models that are none.

use crate::process::{done, fed, lily, nano, nano_copy};
use std::fs;

const HI: &str = r#"[{"role": "user", "content": "Hi"}]"#;

#[test]
fn option_beats_environment_beats_embedded() {
    let name = |command: &mut std::process::Command| -> String {
        let done = crate::process::Done::from(command.output().expect("the binary starts")).success();
        done.json()["name"].as_str().expect("a name").to_owned()
    };
    let folder = nano_copy(true);
    let folder_name = folder.path().file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    assert_eq!(name(&mut lily(["info", "--json"])), "lily-nano");
    assert_eq!(name(lily(["info", "--json"]).env("LILY_MODEL", folder.path())), folder_name);
    assert_eq!(name(lily(["info", "--json", "--model"]).arg(nano()).env("LILY_MODEL", "/nowhere")), "nano");
    assert_eq!(name(lily(["info", "--json", "--model", "nano"]).env("LILY_MODEL", "/nowhere")), "lily-nano");
}

#[test]
fn what_is_no_model_is_said_with_its_place_and_a_hint() {
    let empty = tempfile::tempdir().expect("a folder");
    let file = nano().join("config.json");
    let cases = [
        ("/no/such/model".to_owned(), "/no/such/model"),
        ("Qwen/Qwen3.6-35B-A3B".to_owned(), "hub"),
        (file.display().to_string(), "folder"),
        (empty.path().display().to_string(), "config.json"),
    ];
    for (model, words) in cases {
        for command in ["info", "run"] {
            let done =
                done([command, "--model", &model].into_iter().chain((command == "run").then_some("Hi")));
            assert_eq!(done.code, Some(1), "{model}: {done:#?}");
            assert!(done.stderr.starts_with("error: "), "{model}: {}", done.stderr);
            assert!(
                done.stderr.contains(words) && done.stderr.contains("\nhint: "),
                "{model}: {}",
                done.stderr
            );
            assert_eq!(done.stdout, "", "{model}");
        }
    }
}

#[test]
fn a_broken_file_is_named() {
    let breaks: &[(&str, &[u8], &str)] = &[
        ("config.json", b"{", "config.json"),
        ("config.json", b"{\"model_type\": \"llama\"}", "llama"),
        ("generation_config.json", b"[", "generation_config.json"),
        ("tokenizer.json", b"{}", "tokenizer.json"),
        ("tokenizer_config.json", b"{", "tokenizer_config.json"),
        ("tokenizer_config.json", b"[]", "tokenizer_config.json"),
        ("tokenizer_config.json", b"{\"eos_token\": 5}", "tokenizer_config.json: `eos_token`"),
        ("chat_template.jinja", b"{% if %}", "line 1"),
        ("chat_template.jinja", b" \n", "the template is empty"),
        ("model.safetensors", b"short", "model.safetensors"),
    ];
    for (file, bytes, words) in breaks {
        let folder = nano_copy(true);
        fs::write(folder.path().join(file), bytes).expect("written");
        let done = done(["run", "--model", &folder.path().display().to_string(), "Hi"]);
        assert_eq!(done.code, Some(1), "{file}: {done:#?}");
        assert!(done.stderr.contains(words), "{file}: {}", done.stderr);
        let lines: Vec<&str> = done.stderr.lines().collect();
        let mut unique = lines.clone();
        unique.dedup();
        assert_eq!(lines, unique, "{file}: something is said twice");
    }
}

/// Ids without a token are never sampled, so answers would go on to their limit.
#[test]
fn stop_ids_without_tokens_are_told_at_load() {
    let folder = nano_copy(true);
    let model = folder.path().display().to_string();
    let edit = |file: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let path = folder.path().join(file);
        let mut value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
        change(&mut value);
        fs::write(path, value.to_string()).expect("written");
    };
    // Ids of another tokenizer beside one that is left.
    edit("generation_config.json", &|value| value["eos_token_id"] = serde_json::json!([5119]));
    edit("config.json", &|value| {
        value["eos_token_id"] = serde_json::json!([5119]);
        value["text_config"]["eos_token_id"] = serde_json::json!(5119);
    });
    let ask = ["run", "-t", "0", "--think", "off", "--model", &model, "Hi"];
    let warned = done(ask).success();
    assert!(warned.stderr.contains("WARN") && warned.stderr.contains("(5119)"), "{warned:#?}");
    assert_eq!(warned.stdout, "Hello! How can I help you today?\n");

    edit("tokenizer_config.json", &|value| value["eos_token"] = "<|nowhere|>".into());
    let refused = done(ask);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    for words in ["no token for any id that ends an answer (5119)", "<|nowhere|>", "\nhint: "] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
}

#[test]
fn a_missing_tokenizer_is_named() {
    let folder = nano_copy(true);
    fs::remove_file(folder.path().join("tokenizer.json")).expect("removed");
    let done = done(["run", "--model", &folder.path().display().to_string(), "Hi"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("tokenizer.json") && done.stderr.contains("hint:"), "{}", done.stderr);
}

#[test]
fn the_template_may_sit_in_the_tokenizer_config() {
    let folder = nano_copy(false);
    let template = folder.path().join("chat_template.jinja");
    let text = fs::read_to_string(&template).expect("read");
    fs::remove_file(template).expect("removed");
    let render = || fed(["render", "--model", &folder.path().display().to_string()], HI);
    let without = render();
    assert_eq!(without.code, Some(1));
    assert!(
        without.stderr.contains("no chat template") && without.stderr.contains("--raw"),
        "{}",
        without.stderr
    );

    let config = folder.path().join("tokenizer_config.json");
    let mut value: serde_json::Value =
        serde_json::from_slice(&fs::read(&config).expect("read")).expect("JSON");
    value["chat_template"] = text.into();
    fs::write(config, value.to_string()).expect("written");
    assert_eq!(render().success().stdout, fed(["render"], HI).success().stdout);
}
