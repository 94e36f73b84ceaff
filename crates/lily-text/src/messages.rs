//! From messages as they are on the wire to messages as a template wants them.

use crate::json::Value;
use crate::word::shown;

/// Why a message cannot be rendered; names the message's index and field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("messages[{index}]: {reason}")]
pub struct MessageError {
    /// Index of the message.
    pub index: usize,
    /// What is wrong with it and what to do.
    pub reason: String,
}

/// Checks and normalises wire messages, so that a template finds what it expects:
///
/// - `role` must be one of system, developer, user, assistant, tool; `developer` becomes `system`;
/// - `content` must be text, `null`, or a list of text parts; other parts (images, audio, files) are refused by name;
/// - of an assistant, `reasoning` is accepted for `reasoning_content` (which wins), and each call's `arguments` text
///   becomes the object it spells.
///
/// Fields that are not known stay as they are: a template may read them.
///
/// # Errors
/// The first message that cannot be rendered.
pub fn prepare_messages(messages: Vec<Value>) -> Result<Vec<Value>, MessageError> {
    messages
        .into_iter()
        .enumerate()
        .map(|(index, message)| prepare(message).map_err(|reason| MessageError { index, reason }))
        .collect()
}

fn prepare(message: Value) -> Result<Value, String> {
    let Value::Object(mut fields) = message else {
        return Err(format!("must be an object with `role` and `content`, not {}", message.kind()));
    };
    let role = prepare_role(&mut fields)?;
    if let Some(content) = field(&mut fields, "content") {
        check_content(content)?;
    } else if role != "assistant" {
        return Err(format!("a {role} message needs `content`"));
    }
    if role == "assistant" {
        prepare_reasoning(&mut fields)?;
        if let Some(calls) = field(&mut fields, "tool_calls") {
            prepare_calls(calls)?;
        }
    }
    Ok(Value::Object(fields))
}

fn field<'a>(fields: &'a mut [(String, Value)], name: &str) -> Option<&'a mut Value> {
    fields.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn prepare_role(fields: &mut [(String, Value)]) -> Result<String, String> {
    match field(fields, "role") {
        None => Err("`role` is missing".to_owned()),
        Some(Value::String(role)) => match role.as_str() {
            "developer" => {
                *role = "system".to_owned();
                Ok(role.clone())
            }
            "system" | "user" | "assistant" | "tool" => Ok(role.clone()),
            other => Err(format!(
                "role \"{}\" is not known\nhint: use system, developer, user, assistant or tool",
                shown(other)
            )),
        },
        Some(other) => Err(format!("`role` must be a string, not {}", other.kind())),
    }
}

fn check_content(content: &Value) -> Result<(), String> {
    match content {
        Value::Null | Value::String(_) => Ok(()),
        Value::Array(parts) => parts
            .iter()
            .enumerate()
            .try_for_each(|(at, part)| check_part(part).map_err(|why| format!("content[{at}]: {why}"))),
        other => Err(format!("`content` must be text or a list of text parts, not {}", other.kind())),
    }
}

/// Keys by which the template would take a part for something that is not text, whatever its type says.
const MEDIA_KEYS: [&str; 5] = ["image", "image_url", "video", "video_url", "audio"];

fn check_part(part: &Value) -> Result<(), String> {
    if part.as_object().is_none() {
        return Err(format!(
            "must be an object such as {{\"type\": \"text\", \"text\": ...}}, not {}",
            part.kind()
        ));
    }
    if let Some(key) = MEDIA_KEYS.into_iter().find(|key| part.get(key).is_some()) {
        return Err(unsupported(key));
    }
    match part.get("type") {
        None => {}
        Some(Value::String(kind)) if matches!(kind.as_str(), "text" | "input_text" | "output_text") => {}
        Some(Value::String(kind)) => return Err(unsupported(kind)),
        Some(other) => return Err(format!("`type` must be a string, not {}", other.kind())),
    }
    match part.get("text") {
        Some(Value::String(_)) => Ok(()),
        Some(other) => Err(format!("`text` must be a string, not {}", other.kind())),
        None => Err("`text` is missing".to_owned()),
    }
}

fn unsupported(kind: &str) -> String {
    let what = match ["image", "video", "audio", "file"].into_iter().find(|noun| kind.contains(noun)) {
        Some("audio") => "audio is not supported",
        Some("image") => "images are not supported",
        Some("video") => "videos are not supported",
        Some(_) => "files are not supported",
        None => "this kind of content is not supported",
    };
    let kind = shown(kind);
    format!("{what} (part of type \"{kind}\")\nhint: this model reads text only; send parts of type \"text\"")
}

fn prepare_reasoning(fields: &mut Vec<(String, Value)>) -> Result<(), String> {
    for name in ["reasoning_content", "reasoning"] {
        match field(fields, name) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => return Err(format!("`{name}` must be a string, not {}", other.kind())),
        }
    }
    if matches!(field(fields, "reasoning_content"), Some(Value::String(_))) {
        return Ok(());
    }
    let Some(Value::String(reasoning)) = field(fields, "reasoning") else {
        return Ok(());
    };
    let reasoning = Value::String(reasoning.clone());
    match field(fields, "reasoning_content") {
        Some(slot) => *slot = reasoning,
        None => fields.push(("reasoning_content".to_owned(), reasoning)),
    }
    Ok(())
}

fn prepare_calls(calls: &mut Value) -> Result<(), String> {
    match calls {
        Value::Null => Ok(()),
        Value::Array(calls) => calls
            .iter_mut()
            .enumerate()
            .try_for_each(|(at, call)| prepare_call(call).map_err(|why| format!("tool_calls[{at}]{why}"))),
        other => Err(format!("`tool_calls` must be a list, not {}", other.kind())),
    }
}

/// Decodes a call's arguments in place. The call is `{"function": {"name", "arguments"}}`, or flat, as templates allow.
fn prepare_call(call: &mut Value) -> Result<(), String> {
    let Value::Object(outer) = call else {
        return Err(format!(": must be an object, not {}", call.kind()));
    };
    let (fields, place) = if outer.iter().any(|(key, _)| key == "function") {
        match field(outer, "function") {
            Some(Value::Object(fields)) => (fields, ".function"),
            other => {
                return Err(format!(
                    ".function: must be an object, not {}",
                    other.map_or("missing", |v| v.kind())
                ));
            }
        }
    } else {
        (outer, "")
    };
    match field(fields, "name") {
        Some(Value::String(_)) => {}
        Some(other) => return Err(format!("{place}.name: must be a string, not {}", other.kind())),
        None => return Err(format!("{place}.name: is missing")),
    }
    let Some(arguments) = field(fields, "arguments") else {
        return Ok(());
    };
    let decoded = match arguments {
        Value::Object(_) => return Ok(()),
        // No arguments: clients spell this in several ways, and nothing is lost.
        Value::Null => Value::Object(Vec::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(Vec::new()),
        Value::String(text) => Value::parse(text)
            .map_err(|error| format!("{place}.arguments: is not JSON: {error}\n{ARGUMENTS_HINT}"))?,
        other => {
            return Err(format!("{place}.arguments: must be JSON text of an object, not {}", other.kind()));
        }
    };
    *arguments = match decoded {
        Value::Object(entries) => Value::Object(entries),
        Value::Null => Value::Object(Vec::new()),
        other => {
            return Err(format!(
                "{place}.arguments: must spell an object, not {}\n{ARGUMENTS_HINT}",
                other.kind()
            ));
        }
    };
    Ok(())
}

const ARGUMENTS_HINT: &str =
    "hint: a call whose arguments were cut off must be repaired or removed before it is sent back";
