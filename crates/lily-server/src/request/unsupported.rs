//! Parameters that are known and cannot be honoured: refused by name, unless their value asks for nothing.

use crate::error::ApiError;
use crate::fields::Fields;
use lily_text::json::Value;

/// Refuses what chat completions elsewhere offer and this server does not.
pub(crate) fn check_chat(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["functions", "function_call"] {
        if fields.get(name).is_some_and(|value| *value != Value::Array(Vec::new())) {
            return Err(ApiError::unsupported(name, "is the old form; send tools and tool_choice"));
        }
    }
    for name in ["audio", "prediction", "web_search_options"] {
        if fields.get(name).is_some() {
            return Err(ApiError::unsupported(name, "is not supported by this server"));
        }
    }
    let text_only = Value::Array(vec![Value::String("text".to_owned())]);
    if fields.take("modalities").is_some_and(|modalities| modalities != text_only) {
        return Err(ApiError::unsupported("modalities", "this model answers in text only; send [\"text\"]"));
    }
    allow(fields, "verbosity", &["medium"])?;
    allow(fields, "service_tier", &["auto", "default"])?;
    if fields.boolean("store")? == Some(true) {
        return Err(ApiError::unsupported("store", "completions are not kept; leave it out or send false"));
    }
    Ok(())
}

/// Refuses what completions elsewhere offer and this server does not.
pub(crate) fn check_completions(fields: &mut Fields) -> Result<(), ApiError> {
    // Nothing behind the prompt.
    if fields.get("suffix").and_then(Value::as_str) == Some("") {
        fields.take("suffix");
    }
    for name in ["suffix", "tools", "tool_choice", "messages"] {
        if fields.get(name).is_some() {
            return Err(ApiError::unsupported(
                name,
                "is not supported on this route; see /v1/chat/completions",
            ));
        }
    }
    if fields.boolean("echo")? == Some(true) {
        return Err(ApiError::unsupported("echo", "the prompt is not repeated; leave it out or send false"));
    }
    let choices = fields.get("n").and_then(Value::as_i64).unwrap_or(1);
    if fields.integer("best_of", 1, i64::MAX)?.is_some_and(|best_of| best_of != choices) {
        return Err(ApiError::unsupported(
            "best_of",
            "every choice is returned; leave it out or send the value of n",
        ));
    }
    Ok(())
}

/// A string that may be absent or one of `allowed`.
pub(crate) fn allow(fields: &mut Fields, name: &str, allowed: &[&str]) -> Result<(), ApiError> {
    match fields.string(name)? {
        Some(value) if !allowed.contains(&value.as_str()) => {
            let reason = format!("this server knows {} only; leave it out", allowed.join(" and "));
            Err(ApiError::unsupported(fields.at(name), reason))
        }
        _ => Ok(()),
    }
}
