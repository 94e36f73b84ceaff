//! Small builders for the JSON values that templates take.

use lily_text::json::Value;

/// A chat message.
pub(crate) fn message(role: &str, content: &str) -> Value {
    let entry = |key: &str, value: &str| (key.to_owned(), Value::from(value));
    Value::Object(vec![entry("role", role), entry("content", content)])
}
