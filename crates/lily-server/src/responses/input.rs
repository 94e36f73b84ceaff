//! Input items, as messages of chat completions.

use super::items::Item;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::request::results::Calls;
use crate::request::system::{call, message};
use crate::request::thinking::CARRIED;
use crate::state::Server;
use lily_text::json::Value;
use std::collections::HashSet;

/// Appends the messages that `input` spells and returns the items as `input_items` lists them.
pub(super) fn read(input: Value, server: &Server, messages: &mut Vec<Value>) -> Result<Vec<Item>, ApiError> {
    let items = match input {
        Value::String(text) => {
            let content = serde_json::json!([{"type": "input_text", "text": text}]);
            messages.push(message("user", vec![("content", Value::String(text))]));
            let id = server.fresh_id("msg_");
            let item = serde_json::json!({"id": &id, "type": "message", "role": "user", "content": content});
            return Ok(vec![Item::new(id, &item)?]);
        }
        Value::Array(items) => items,
        other => return Err(wrong("input", "a string or a list of items", &other)),
    };
    let mut listed = Vec::with_capacity(items.len());
    let mut answer = Answer { calls_made: Calls::of(messages), ..Answer::default() };
    let mut ids = HashSet::new();
    for (index, item) in items.into_iter().enumerate() {
        let mut json = serde_json::to_value(&item).unwrap_or_default();
        let item = Fields::new(&format!("input[{index}]"), item)?;
        read_item(item, &mut answer, messages)?;
        // An id is where a page of the list begins: each item has one of its own.
        let own = json["id"].as_str().filter(|id| ids.insert((*id).to_owned())).map(str::to_owned);
        let id = own.unwrap_or_else(|| server.fresh_id("item_"));
        json["id"] = id.as_str().into();
        listed.push(Item::new(id, &json)?);
    }
    answer.flush(messages);
    Ok(listed)
}

fn read_item(mut item: Fields, answer: &mut Answer, messages: &mut Vec<Value>) -> Result<(), ApiError> {
    item.string("id")?;
    item.string("status")?;
    let kind = item.string("type")?.unwrap_or_else(|| "message".to_owned());
    match kind.as_str() {
        "message" => {
            let role = required(&mut item, "role")?;
            let path = item.at("content");
            let content = item.take("content").ok_or_else(|| ApiError::invalid(&path, "is missing"))?;
            let text = text_of(&path, content)?;
            match role.as_str() {
                "assistant" => answer.say(text, messages),
                "user" | "system" | "developer" => {
                    answer.flush(messages);
                    messages.push(message(&role, vec![("content", Value::String(text))]));
                }
                _ => {
                    return Err(ApiError::invalid(
                        item.at("role"),
                        "must be user, assistant, system or developer",
                    ));
                }
            }
        }
        "reasoning" => answer.think(&reasoning_of(&mut item)?, messages),
        "function_call" => {
            let name = required(&mut item, "name")?;
            let arguments = Value::String(arguments(&mut item)?);
            let id = required(&mut item, "call_id")?;
            answer.calls_made.made(&id);
            answer.calls.push(call(id, name, arguments));
        }
        "function_call_output" => {
            answer.flush(messages);
            let id = required(&mut item, "call_id")?;
            answer.calls_made.check(&item.at("call_id"), &id)?;
            let path = item.at("output");
            let output = item.take("output").ok_or_else(|| ApiError::invalid(&path, "is missing"))?;
            let text = text_of(&path, output)?;
            let fields = vec![("tool_call_id", Value::String(id)), ("content", Value::String(text))];
            messages.push(message("tool", fields));
        }
        _ => return Err(ApiError::unsupported(item.at("type"), "items of this type are not supported")),
    }
    Ok(())
}

/// An assistant's message that is being put together: thinking, then text, then calls.
#[derive(Default)]
struct Answer {
    reasoning: String,
    text: Option<String>,
    calls: Vec<Value>,
    /// All calls so far, its own and those before it.
    calls_made: Calls,
}

impl Answer {
    fn think(&mut self, text: &str, messages: &mut Vec<Value>) {
        if self.text.is_some() || !self.calls.is_empty() {
            self.flush(messages);
        }
        self.reasoning.push_str(text);
    }

    fn say(&mut self, text: String, messages: &mut Vec<Value>) {
        if self.text.is_some() || !self.calls.is_empty() {
            self.flush(messages);
        }
        self.text = Some(text);
    }

    /// Thinking alone is no message: the answer it led to is not there, and the template has no place for it.
    fn flush(&mut self, messages: &mut Vec<Value>) {
        let reasoning = std::mem::take(&mut self.reasoning);
        let (text, calls) = (self.text.take(), std::mem::take(&mut self.calls));
        if text.is_none() && calls.is_empty() {
            return;
        }
        let mut fields = vec![("content", text.map_or(Value::Null, Value::String))];
        if !reasoning.is_empty() {
            fields.push(("reasoning_content", Value::String(reasoning)));
        }
        if !calls.is_empty() {
            fields.push(("tool_calls", Value::Array(calls)));
        }
        messages.push(message("assistant", fields));
    }
}

/// The thinking of a reasoning item: its text, or what was carried for it. Summaries are not what the model thought.
fn reasoning_of(item: &mut Fields) -> Result<String, ApiError> {
    item.array("summary")?;
    let mut text = String::new();
    for (index, part) in item.array("content")?.unwrap_or_default().into_iter().enumerate() {
        let mut part = Fields::new(&item.at(&format!("content[{index}]")), part)?;
        text.push_str(&required(&mut part, "text")?);
    }
    let carried = item.string("encrypted_content")?;
    if text.is_empty() {
        text.push_str(
            carried.as_deref().and_then(|carried| carried.strip_prefix(CARRIED)).unwrap_or_default(),
        );
    }
    Ok(text)
}

/// The arguments of a call: JSON text of an object, or nothing where there are none.
fn arguments(item: &mut Fields) -> Result<String, ApiError> {
    let text = required(item, "arguments")?;
    if text.trim().is_empty() {
        return Ok(text);
    }
    match Value::parse(&text) {
        Ok(Value::Object(_) | Value::Null) => Ok(text),
        Ok(other) => Err(wrong(&item.at("arguments"), "JSON text of an object", &other)),
        Err(error) => Err(ApiError::invalid(item.at("arguments"), format_args!("is not JSON: {error}"))),
    }
}

/// A text, or text parts joined.
fn text_of(path: &str, content: Value) -> Result<String, ApiError> {
    let parts = match content {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        other => return Err(wrong(path, "a string or a list of parts", &other)),
    };
    let mut text = String::new();
    for (index, part) in parts.into_iter().enumerate() {
        let mut part = Fields::new(&format!("{path}[{index}]"), part)?;
        match required(&mut part, "type")?.as_str() {
            "input_text" | "output_text" | "text" => text.push_str(&required(&mut part, "text")?),
            "refusal" => text.push_str(&required(&mut part, "refusal")?),
            "input_image" | "image_url" => {
                return Err(ApiError::unsupported(
                    part.at("type"),
                    "images are not supported: this model reads text only",
                ));
            }
            _ => return Err(ApiError::unsupported(part.at("type"), "parts of this type are not supported")),
        }
    }
    Ok(text)
}

fn required(fields: &mut Fields, name: &str) -> Result<String, ApiError> {
    fields.string(name)?.ok_or_else(|| ApiError::invalid(fields.at(name), "is missing"))
}
