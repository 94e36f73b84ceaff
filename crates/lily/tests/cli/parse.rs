//! `lily parse`.

use crate::process::{done, fed};
use serde_json::{Value, json};
use std::{fs, path::Path};

const TOOLS: &str =
    r#"[{"name": "f", "parameters": {"properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}}]"#;
const TEXT: &str = "Hm.\n</think>\n\nWell.\n\n<tool_call>\n<function=f>\n<parameter=a>\nx \"y\"\n</parameter>\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>";

/// A folder with the tools in `tools.json`.
fn tools() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tools.json");
    fs::write(&path, TOOLS).expect("written");
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn the_message_is_the_same_in_all_pieces() {
    let (_folder, tools) = tools();
    let expected = json!({
        "reasoning_content": "Hm.",
        "content": "Well.",
        "tool_calls": [{"name": "f", "arguments": "{\"a\": \"x \\\"y\\\"\", \"n\": 7}"}],
        "incomplete": null,
        "finish_reason": "tool_calls",
    });
    for chunk in ["whole", "1", "2", "3,1,4,1,5", "random:1", "random:2"] {
        let object = fed(["parse", "--tools", &tools, "--chunk", chunk], TEXT).success().json();
        assert_eq!(object, expected, "{chunk}");
    }
    let without = fed(["parse"], TEXT).success().json();
    assert!(without["content"].as_str().is_some_and(|text| text.contains("<function=f>")), "{without}");
    assert_eq!(without["finish_reason"], "stop");
    let raw = fed(["parse", "--start", "raw"], TEXT).success().json();
    assert_eq!((&raw["content"], &raw["reasoning_content"]), (&TEXT.into(), &"".into()));
}

#[test]
fn events_come_as_a_stream_would_have_them() {
    let (_folder, tools) = tools();
    let output = fed(["parse", "--tools", &tools, "--chunk", "1", "--stream"], TEXT).success().stdout;
    let events: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let join = |kind: &str, field: &str| -> String {
        let events = events.iter().filter(|event| event["event"] == kind);
        events.map(|event| event[field].as_str().expect("text")).collect()
    };
    assert_eq!(join("reasoning", "text"), "Hm.");
    assert_eq!(join("content", "text"), "Well.");
    assert_eq!(join("call_start", "name"), "f");
    assert_eq!(join("call_arguments", "json"), "{\"a\": \"x \\\"y\\\"\", \"n\": 7}");
    let arguments = events.iter().filter(|event| event["event"] == "call_arguments").count();
    assert!(arguments > 5, "arguments come while they are written: {output}");
    assert_eq!(events.last().expect("events")["event"], "call_end");
    let places: Vec<u64> = events.iter().map(|event| event["piece"].as_u64().expect("a piece")).collect();
    assert!(places.is_sorted() && places.last() <= Some(&(TEXT.chars().count() as u64)));
}

#[test]
fn a_text_that_was_cut_off_says_so() {
    let (_folder, tools) = tools();
    let half = &TEXT[..TEXT.find("</function>").expect("there")];
    let cut = fed(["parse", "--tools", &tools, "--cut"], half).success().json();
    assert_eq!((&cut["tool_calls"], &cut["finish_reason"]), (&json!([]), &"length".into()));
    let stopped = fed(["parse", "--tools", &tools], half).success().json();
    assert_eq!(stopped["finish_reason"], "tool_calls");
    let head = fed(["parse", "--tools", &tools, "--start", "answer"], "Well.\n<tool_call>\n<function=")
        .success()
        .json();
    assert_eq!((&head["content"], &head["incomplete"]), (&"Well.".into(), &"<tool_call>\n<function=".into()));
    assert_eq!(head["finish_reason"], "length");
}

#[test]
fn a_request_gives_tools_and_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("request.json");
    for (thinking, reasoning, content) in [(true, "a", "b"), (false, "", "a\n</think>\nb")] {
        let request = format!(
            r#"{{"messages": [{{"role": "user", "content": "Hi"}}], "chat_template_kwargs": {{"enable_thinking": {thinking}}}}}"#
        );
        fs::write(&path, request).expect("written");
        let args = ["parse", "--request", path.to_str().expect("UTF-8")];
        let object = fed(args, "a\n</think>\nb").success().json();
        assert_eq!((&object["reasoning_content"], &object["content"]), (&reasoning.into(), &content.into()));
    }
}

#[test]
fn the_cases_of_the_parser_through_the_command() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/cases/cases.jsonl");
    let folder = tempfile::tempdir().expect("a folder");
    let tools = folder.path().join("tools.json");
    let mut seen = 0;
    for line in fs::read_to_string(cases).expect("read").lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let (id, input, check) = (&case["id"], &case["input"], &case["check"]);
        let (Some(text), Value::Array(definitions)) = (input["model_text"].as_str(), &input["tools"]) else {
            continue;
        };
        let (Value::Array(expected), Value::Null) = (&check["tool_calls"], &input["prompt_ends_with"]) else {
            continue;
        };
        fs::write(&tools, serde_json::to_string(definitions).expect("JSON")).expect("written");
        let mut args = vec!["parse", "--chunk", "random:3", "--tools", tools.to_str().expect("UTF-8")];
        if input["end"] == "length" {
            args.push("--cut");
        }
        let object = fed(&args, text).success().json();
        let calls = object["tool_calls"].as_array().expect("calls");
        let names: Vec<&Value> = calls.iter().map(|call| &call["name"]).collect();
        assert_eq!(names, expected.iter().map(|call| &call["name"]).collect::<Vec<_>>(), "{id}");
        for (call, expected) in
            calls.iter().zip(expected).filter(|(_, expected)| !expected["arguments"].is_null())
        {
            let arguments: Value =
                serde_json::from_str(call["arguments"].as_str().expect("text")).expect("JSON");
            assert_eq!(arguments, expected["arguments"], "{id}");
        }
        seen += 1;
    }
    assert!(seen >= 10, "only {seen} cases");
}

#[test]
fn what_is_missing_is_named() {
    let done = done(["parse", "--tools", "/no/such/tools.json", "/dev/null"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("/no/such/tools.json"), "{}", done.stderr);
}
