//! What of a wire message is accepted, and what a refusal says.

use lily_text::json::Value;
use lily_text::prepare_messages;

fn prepare(json: &str) -> Result<String, String> {
    let Value::Array(messages) = Value::parse(json).unwrap() else { panic!("not a list") };
    prepare_messages(messages)
        .map(|messages| Value::Array(messages).to_python_json())
        .map_err(|error| error.to_string())
}

#[test]
fn messages_are_made_what_templates_expect() {
    for (given, expected) in [
        (r#"[{"role": "developer", "content": "x"}]"#, r#"[{"role": "system", "content": "x"}]"#),
        (
            r#"[{"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function":
                {"name": "f", "arguments": "{\"b\": 1, \"a\": 12345678901234567890123}"}}]}]"#,
            r#"[{"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": 12345678901234567890123}}}]}]"#,
        ),
        (
            r#"[{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ""}}, {"name": "g", "arguments": {}},
                {"function": {"name": "h", "arguments": null}}, {"function": {"name": "i"}}]}]"#,
            r#"[{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}, {"name": "g", "arguments": {}}, {"function": {"name": "h", "arguments": {}}}, {"function": {"name": "i"}}]}]"#,
        ),
        (
            r#"[{"role": "assistant", "content": "x", "reasoning": "why"}]"#,
            r#"[{"role": "assistant", "content": "x", "reasoning": "why", "reasoning_content": "why"}]"#,
        ),
        (
            r#"[{"role": "assistant", "content": "x", "reasoning_content": "first", "reasoning": "second"}]"#,
            r#"[{"role": "assistant", "content": "x", "reasoning_content": "first", "reasoning": "second"}]"#,
        ),
        (
            r#"[{"role": "assistant", "content": "x", "reasoning_content": null, "reasoning": "why", "tool_calls": null}]"#,
            r#"[{"role": "assistant", "content": "x", "reasoning_content": "why", "reasoning": "why", "tool_calls": null}]"#,
        ),
        (
            r#"[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, {"text": "c"}], "name": "n"}]"#,
            r#"[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, {"text": "c"}], "name": "n"}]"#,
        ),
        (r#"[{"role": "tool", "content": null}]"#, r#"[{"role": "tool", "content": null}]"#),
        ("[]", "[]"),
    ] {
        assert_eq!(prepare(given).as_deref(), Ok(expected));
    }
}

#[test]
fn refusals_name_the_message_and_the_field() {
    let user = r#"{"role": "user", "content": "hi"}"#;
    for (message, words) in [
        ("5", "messages[1]: must be an object"),
        (r#"{"content": "x"}"#, "messages[1]: `role` is missing"),
        (r#"{"role": 1, "content": "x"}"#, "`role` must be a string, not a number"),
        (r#"{"role": "function", "content": "x"}"#, "role \"function\" is not known"),
        (r#"{"role": "user"}"#, "a user message needs `content`"),
        (r#"{"role": "tool"}"#, "a tool message needs `content`"),
        (r#"{"role": "user", "content": 3}"#, "`content` must be text or a list of text parts, not a number"),
        (r#"{"role": "user", "content": {"text": "x"}}"#, "not an object"),
        (r#"{"role": "user", "content": ["x"]}"#, "content[0]: must be an object"),
        (
            r#"{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:"}}]}"#,
            "messages[1]: content[1]: images are not supported",
        ),
        (r#"{"role": "user", "content": [{"type": "input_image"}]}"#, "images are not supported"),
        (
            r#"{"role": "user", "content": [{"type": "text", "text": "x", "image": "y"}]}"#,
            "images are not supported",
        ),
        (
            r#"{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}"#,
            "audio is not supported",
        ),
        (r#"{"role": "user", "content": [{"type": "video"}]}"#, "videos are not supported"),
        (r#"{"role": "user", "content": [{"type": "file", "file": {}}]}"#, "files are not supported"),
        (r#"{"role": "user", "content": [{"type": "hologram"}]}"#, "\"hologram\""),
        (r#"{"role": "user", "content": [{"type": "text"}]}"#, "content[0]: `text` is missing"),
        (
            r#"{"role": "user", "content": [{"type": "text", "text": null}]}"#,
            "`text` must be a string, not null",
        ),
        (r#"{"role": "user", "content": [{"type": 1, "text": "x"}]}"#, "`type` must be a string"),
        (
            r#"{"role": "assistant", "content": "x", "reasoning": []}"#,
            "`reasoning` must be a string, not a list",
        ),
        (
            r#"{"role": "assistant", "content": "x", "reasoning_content": 1}"#,
            "`reasoning_content` must be a string",
        ),
        (r#"{"role": "assistant", "tool_calls": {}}"#, "`tool_calls` must be a list, not an object"),
        (r#"{"role": "assistant", "tool_calls": [1]}"#, "tool_calls[0]: must be an object"),
        (
            r#"{"role": "assistant", "tool_calls": [{"function": "f"}]}"#,
            "tool_calls[0].function: must be an object",
        ),
        (
            r#"{"role": "assistant", "tool_calls": [{"function": {}}]}"#,
            "tool_calls[0].function.name: is missing",
        ),
        (
            r#"{"role": "assistant", "tool_calls": [{"function": {"name": null}}]}"#,
            "name: must be a string, not null",
        ),
        (
            r#"{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}"#,
            "messages[1]: tool_calls[0].function.arguments: is not JSON: line 1, column 2",
        ),
        (
            r#"{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}"#,
            "must spell an object, not a list",
        ),
        (
            r#"{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "7"}}]}"#,
            "must spell an object, not a number",
        ),
        (
            r#"{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}"#,
            "must be JSON text of an object, not a list",
        ),
    ] {
        let error = prepare(&format!("[{user}, {message}]")).unwrap_err();
        assert!(error.starts_with("messages[1]") && error.contains(words), "{message}\n{error}");
    }
}
