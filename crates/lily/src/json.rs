//! Small builders for the JSON values that templates take.

use lily_text::{json::Value, parser::ToolCall};

/// A chat message.
pub(crate) fn message(role: &str, content: &str) -> Value {
    let entry = |key: &str, value: &str| (key.to_owned(), Value::from(value));
    Value::Object(vec![entry("role", role), entry("content", content)])
}

/// A call in machine-readable output; its arguments are JSON text, as on the wire.
pub(crate) fn call(call: &ToolCall) -> serde_json::Value {
    serde_json::json!({"name": call.name, "arguments": call.arguments})
}

/// A call as a line of JSON, its arguments as they are.
pub(crate) fn call_line(call: &ToolCall) -> String {
    format!(
        r#"{{"name": {}, "arguments": {}}}"#,
        Value::from(call.name.as_str()).to_python_json(),
        call.arguments
    )
}
