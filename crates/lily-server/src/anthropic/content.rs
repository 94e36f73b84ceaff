//! Messages in Anthropic's format, as chat completions has them.

use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::request::idle;
use crate::request::results::Calls;
use crate::request::system::{call, gather, message};
use crate::request::thinking::CARRIED;
use lily_text::json::Value;

/// Reads `system` and `messages`. Blocks keep their order; a user's tool results become messages of their own.
pub(super) fn read_messages(fields: &mut Fields, most: usize) -> Result<Vec<Value>, ApiError> {
    let mut out = Vec::new();
    if let Some(system) = fields.take("system") {
        out.push(message("system", vec![("content", Value::String(text_of("system", system)?))]));
    }
    let messages = fields.array("messages")?.ok_or_else(|| ApiError::invalid("messages", "is missing"))?;
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "needs at least one message"));
    }
    if messages.len() > most {
        return Err(ApiError::invalid("messages", format_args!("at most {most} messages are taken")));
    }
    let last = messages.len() - 1;
    let mut calls = Calls::default();
    for (index, item) in messages.into_iter().enumerate() {
        let mut fields = Fields::new(&format!("messages[{index}]"), item)?;
        let path = fields.at("content");
        let role =
            fields.string("role")?.ok_or_else(|| ApiError::invalid(fields.at("role"), "is missing"))?;
        let content = fields.take("content").ok_or_else(|| ApiError::invalid(&path, "is missing"))?;
        match role.as_str() {
            "user" => user(&path, content, &calls, &mut out)?,
            "assistant" if index == last => {
                let reason = "an answer cannot be continued: the last message must not be the assistant's";
                return Err(ApiError::unsupported("messages", reason));
            }
            "assistant" => {
                let message = assistant(&path, content)?;
                calls.see(&message);
                out.push(message);
            }
            // Not of the original, and yet some clients send it.
            "system" => {
                out.push(message("system", vec![("content", Value::String(text_of(&path, content)?))]));
            }
            _ => return Err(ApiError::invalid(fields.at("role"), "must be user or assistant")),
        }
    }
    Ok(gather(out))
}

/// A text, or text blocks joined; anything else is refused by name.
fn text_of(path: &str, content: Value) -> Result<String, ApiError> {
    let blocks = match content {
        Value::String(text) => return Ok(text),
        Value::Array(blocks) => blocks,
        other => return Err(wrong(path, "a string or a list of blocks", &other)),
    };
    let mut text = String::new();
    for (index, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::new(&format!("{path}[{index}]"), block)?;
        match kind_of(&mut block)?.as_str() {
            "text" => text.push_str(&required(&mut block, "text")?),
            kind => return Err(refused(&block, kind)),
        }
    }
    Ok(text)
}

/// Text blocks become user messages, tool results tool messages, in order.
fn user(path: &str, content: Value, calls: &Calls, out: &mut Vec<Value>) -> Result<(), ApiError> {
    let blocks = match content {
        Value::Array(blocks) => blocks,
        other => {
            let text = text_of(path, other)?;
            out.push(message("user", vec![("content", Value::String(text))]));
            return Ok(());
        }
    };
    let mut text: Option<String> = None;
    let count = out.len();
    for (index, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::new(&format!("{path}[{index}]"), block)?;
        match kind_of(&mut block)?.as_str() {
            "text" => text.get_or_insert_default().push_str(&required(&mut block, "text")?),
            "tool_result" => {
                flush(&mut text, out);
                let id = required(&mut block, "tool_use_id")?;
                calls.check(&block.at("tool_use_id"), &id)?;
                let is_error = block.boolean("is_error")?.unwrap_or(false);
                let inner = block.at("content");
                let result =
                    block.take("content").map_or(Ok(String::new()), |content| text_of(&inner, content))?;
                // The template has one form for results; the word is how the model learns that this one is a failure.
                let says_so =
                    result.trim_start().get(..5).is_some_and(|word| word.eq_ignore_ascii_case("error"));
                let result = if is_error && !says_so { format!("Error: {result}") } else { result };
                let fields = vec![("tool_call_id", Value::String(id)), ("content", Value::String(result))];
                out.push(message("tool", fields));
            }
            kind => return Err(refused(&block, kind)),
        }
    }
    flush(&mut text, out);
    if out.len() == count {
        return Err(ApiError::invalid(path, "needs at least one block"));
    }
    Ok(())
}

fn flush(text: &mut Option<String>, out: &mut Vec<Value>) {
    if let Some(text) = text.take() {
        out.push(message("user", vec![("content", Value::String(text))]));
    }
}

/// Text, thinking and calls of an earlier answer.
fn assistant(path: &str, content: Value) -> Result<Value, ApiError> {
    let blocks = match content {
        Value::Array(blocks) => blocks,
        other => return Ok(message("assistant", vec![("content", Value::String(text_of(path, other)?))])),
    };
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for (index, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::new(&format!("{path}[{index}]"), block)?;
        match kind_of(&mut block)?.as_str() {
            "text" => text.push_str(&required(&mut block, "text")?),
            "thinking" => {
                let shown = required(&mut block, "thinking")?;
                let carried = block.string("signature")?;
                let carried = carried.as_deref().and_then(|carried| carried.strip_prefix(CARRIED));
                thinking.push_str(carried.filter(|_| shown.is_empty()).unwrap_or(&shown));
            }
            // Another server's secret: it cannot be read here and was never this model's.
            "redacted_thinking" => {}
            "tool_use" => {
                let input = block.object("input")?.map_or_else(Vec::new, Fields::into_rest);
                let name = required(&mut block, "name")?;
                calls.push(call(required(&mut block, "id")?, name, Value::Object(input)));
            }
            kind => return Err(refused(&block, kind)),
        }
    }
    let mut fields = vec![("content", Value::String(text))];
    if !thinking.is_empty() {
        fields.push(("reasoning_content", Value::String(thinking)));
    }
    if !calls.is_empty() {
        fields.push(("tool_calls", Value::Array(calls)));
    }
    Ok(message("assistant", fields))
}

/// A block's type; what it says beside its content is checked.
fn kind_of(block: &mut Fields) -> Result<String, ApiError> {
    idle::cache_control(block)?;
    required(block, "type")
}

fn required(block: &mut Fields, name: &str) -> Result<String, ApiError> {
    block.string(name)?.ok_or_else(|| ApiError::invalid(block.at(name), "is missing"))
}

fn refused(block: &Fields, kind: &str) -> ApiError {
    let reason = match kind {
        "image" => "images are not supported: this model reads text only",
        "document" => "documents are not supported: this model reads text only",
        _ => "a block of this type is not supported here",
    };
    ApiError::unsupported(block.at("type"), reason)
}
