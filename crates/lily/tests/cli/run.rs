//! `lily run` on nano.

use crate::process::{done, fed};
use std::fs;

/// A greedy answer without thinking.
fn answer(prompt: &str) -> String {
    done(["run", "-t", "0", "--think", "off", prompt]).success().stdout
}

#[test]
fn nano_greets_and_says_what_it_is() {
    assert_eq!(answer("Hi"), "Hello! How can I help you today?\n");
    assert!(answer("Who are you?").contains("lily-nano"));
}

#[test]
fn nano_answers_from_a_passage() {
    let passage = "Text: Anna lives in Paris. The lamp is in the kitchen. Tom likes rice.\n\nQuestion: Where is the lamp?";
    let text = answer(&format!("Read the text and answer the question.\n\n{passage}"));
    assert!(text.contains("kitchen"), "{text}");
}

const WEATHER: &str = r#"[{"type": "function", "function": {"name": "get_weather", "description": "Get the weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]"#;

#[test]
fn nano_calls_a_given_tool() {
    let folder = tempfile::tempdir().expect("a folder");
    let tools = folder.path().join("tools.json");
    fs::write(&tools, WEATHER).expect("written");
    let tools = tools.display().to_string();
    let ask = ["run", "-t", "0", "--think", "off", "--tools", &tools, "What is the weather in Paris?"];
    let text = done(ask).success().stdout;
    assert_eq!(text, "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n");
    let object = done(ask.into_iter().chain(["--json"])).success().json();
    assert_eq!(object["finish_reason"], "tool_calls");
    assert_eq!(object["text"], "");
    let call = serde_json::json!([{"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}]);
    assert_eq!(object["tool_calls"], call);
}

#[test]
fn what_is_no_tool_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tools.json");
    let path = file.display().to_string();
    for (text, words) in [("{\"foo\": 1}", "tools[0].function"), ("[1]", "tools[0] must be an object")] {
        fs::write(&file, text).expect("written");
        let done = done(["run", "--tools", &path, "Hi"]);
        assert_eq!(done.code, Some(1), "{done:#?}");
        let place = format!("{path}: {words}");
        assert!(done.stderr.contains(&place) && done.stderr.contains("\nhint: "), "{done:#?}");
    }
    let request = r#"{"messages": [{"role": "user", "content": "Hi"}], "tools": [1]}"#;
    let done = fed(["run", "--messages", "-"], request);
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(done.stderr.contains("stdin: tools[0]"), "{done:#?}");
}

#[test]
fn thinking_is_told_apart() {
    let object = done(["run", "--json", "-t", "0", "--think", "on", "Hi"]).success().json();
    let text = |key: &str| object[key].as_str().expect("a string").to_owned();
    assert_eq!(text("text"), "Hello! How can I help you today?");
    assert!(text("reasoning").contains("greet"), "{object}");
    assert_eq!(text("finish_reason"), "stop");
    // stdout of a plain run holds the answer alone.
    assert_eq!(
        done(["run", "-t", "0", "--think", "on", "Hi"]).success().stdout,
        "Hello! How can I help you today?\n"
    );
}

#[test]
fn json_counts_and_times() {
    let object = done(["run", "--json", "-t", "0", "-n", "3", "--think", "off", "Hi"]).success().json();
    assert_eq!(object["finish_reason"], "length");
    assert_eq!(object["usage"]["completion_tokens"], 3);
    let prompt = object["usage"]["prompt_tokens"].as_u64().expect("a number");
    assert_eq!(object["usage"]["total_tokens"], prompt + 3);
    for key in ["load_ms", "prefill_ms", "decode_ms", "time_to_first_token_ms", "total_ms"] {
        assert!(object["timings"][key].as_f64().is_some_and(|ms| ms >= 0.0), "{key}: {object}");
    }
}

#[test]
fn an_answer_that_was_cut_is_told() {
    let done = done(["run", "-t", "0", "-n", "3", "--think", "on", "Hi"]).success();
    assert!(
        done.stderr.contains("cut after 3 tokens") && done.stderr.contains("--think off"),
        "{}",
        done.stderr
    );
}

#[test]
fn stdin_is_the_prompt_or_follows_it() {
    let args = ["run", "-t", "0", "--think", "off"];
    assert_eq!(fed(args, "Hi\n").success().stdout, "Hello! How can I help you today?\n");
    let both = fed(args.into_iter().chain(["Repeat this:"]), "one two three\n").success().stdout;
    assert!(both.contains("one two three"), "{both}");
}

#[test]
fn a_seed_repeats() {
    let run = |seed: &str| {
        done([
            "run",
            "-t",
            "2",
            "--top-k",
            "0",
            "--top-p",
            "1",
            "-n",
            "24",
            "--seed",
            seed,
            "--think",
            "off",
            "Tell me a story.",
        ])
        .success()
        .stdout
    };
    let first = run("1");
    assert_eq!(first, run("1"));
    assert!((2..6).any(|seed| run(&seed.to_string()) != first), "other seeds, other texts");
}

#[test]
fn stop_strings_end_the_answer() {
    let object = done(["run", "--json", "-t", "0", "--think", "off", "--stop", "5", "Count from 1 to 9."])
        .success()
        .json();
    assert_eq!((&object["text"], &object["stop"]), (&"1, 2, 3, 4, ".into(), &"5".into()));
}

#[test]
fn raw_continues_the_text() {
    let prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    assert_eq!(
        done(["run", "--raw", "-t", "0", prompt]).success().stdout,
        "Hello! How can I help you today?\n"
    );
}

#[test]
fn a_whole_conversation_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("request.json");
    let request = r#"{"messages": [
        {"role": "user", "content": "Hello, I am Anna."},
        {"role": "assistant", "content": "Hello, Anna! Nice to meet you. How can I help you today?"},
        {"role": "user", "content": "What is my name?"}]}"#;
    fs::write(&file, request).expect("written");
    let args = ["run", "-t", "0", "--think", "off", "--messages"];
    let text = done(args.into_iter().chain([file.to_str().expect("UTF-8")])).success().stdout;
    assert!(text.contains("Anna"), "{text}");
    assert_eq!(fed(args.into_iter().chain(["-"]), request).success().stdout, text);
}

#[test]
fn a_prompt_beyond_the_context_is_refused() {
    let done =
        done(["run", "--context", "8", "--think", "off", "One two three four five six seven eight nine"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("the context holds 8") && done.stderr.contains("hint:"), "{}", done.stderr);
}

#[test]
fn the_reference_agrees() {
    let done =
        done(["run", "--backend", "reference", "-t", "0", "--think", "off", "-n", "4", "Hi"]).success();
    assert!("Hello! How can I help you today?".starts_with(done.stdout.trim_end()), "{}", done.stdout);
}
