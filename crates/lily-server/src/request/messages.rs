//! The messages of chat completions, as far as a template would not say what is wrong with them.

use super::results::Calls;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use lily_text::json::Value;

/// Reads `messages`: each an object with a role, whose other fields have the types that they should, and each result
/// one of a call.
pub(crate) fn read(fields: &mut Fields, most: usize) -> Result<Vec<Value>, ApiError> {
    let messages = fields.array("messages")?.ok_or_else(|| ApiError::invalid("messages", "is missing"))?;
    if messages.len() > most {
        return Err(ApiError::invalid("messages", format_args!("at most {most} messages are taken")));
    }
    let mut calls = Calls::default();
    let read = messages.into_iter().enumerate().map(|(index, message)| {
        let message = check(&format!("messages[{index}]"), message, &calls)?;
        calls.see(&message);
        Ok(message)
    });
    read.collect()
}

fn check(path: &str, mut message: Value, calls: &Calls) -> Result<Value, ApiError> {
    if message.as_object().is_none() {
        return Err(wrong(path, "an object", &message));
    }
    let Some(role) = string(path, &message, "role")?.map(str::to_owned) else {
        return Err(ApiError::invalid(format!("{path}.role"), "is missing"));
    };
    string(path, &message, "name")?;
    let answers = string(path, &message, "tool_call_id")?;
    if role == "tool" {
        let path = format!("{path}.tool_call_id");
        let id = answers.ok_or_else(|| {
            ApiError::invalid(&path, "is missing; it is the id of the call that this is the result of")
        })?;
        calls.check(&path, id)?;
    }
    check_calls(path, &message, &role)?;
    for (name, instead) in [("function_call", "send tool_calls"), ("audio", "this model reads text only")] {
        if get(&message, name).is_some() {
            return Err(ApiError::unsupported(
                format!("{path}.{name}"),
                format_args!("is not supported; {instead}"),
            ));
        }
    }
    // How other servers mark an answer that is to be continued.
    for name in ["prefix", "partial"] {
        if get(&message, name).is_some_and(|value| *value != Value::Bool(false)) {
            let reason = "an answer cannot be continued: every message is closed";
            return Err(ApiError::unsupported(format!("{path}.{name}"), reason));
        }
    }
    take_refusal(path, &mut message)?;
    // A template would show null as nothing. Answers may have calls instead, and calls no result to tell.
    if ["user", "system", "developer"].contains(&role.as_str()) && get(&message, "content").is_none() {
        return Err(ApiError::invalid(path, format_args!("a {role} message needs `content`")));
    }
    Ok(message)
}

/// The calls of an earlier answer: their ids and types; what they call is checked where they are rendered.
fn check_calls(path: &str, message: &Value, role: &str) -> Result<(), ApiError> {
    let Some(calls) = get(message, "tool_calls") else { return Ok(()) };
    let path = format!("{path}.tool_calls");
    let Value::Array(calls) = calls else { return Err(wrong(&path, "an array", calls)) };
    if role != "assistant" && !calls.is_empty() {
        return Err(ApiError::invalid(path, "only the assistant makes calls"));
    }
    for (at, call) in calls.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if call.as_object().is_none() {
            return Err(wrong(&path, "an object", call));
        }
        string(&path, call, "id")?;
        if string(&path, call, "type")?.is_some_and(|kind| kind != "function") {
            return Err(ApiError::unsupported(format!("{path}.type"), "must be function"));
        }
    }
    Ok(())
}

/// `refusal`: what another model said in place of an answer. It is shown as that answer.
fn take_refusal(path: &str, message: &mut Value) -> Result<(), ApiError> {
    let Some(refusal) = string(path, message, "refusal")?.filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let refusal = Value::String(refusal.to_owned());
    let empty = [Value::Null, Value::String(String::new()), Value::Array(Vec::new())];
    let Value::Object(fields) = message else { return Ok(()) };
    match fields.iter_mut().find(|(key, _)| key == "content") {
        Some((_, content)) if empty.contains(content) => *content = refusal,
        Some(_) => {
            let reason = "cannot stand beside content; send it as part of the content";
            return Err(ApiError::unsupported(format!("{path}.refusal"), reason));
        }
        None => fields.push(("content".to_owned(), refusal)),
    }
    Ok(())
}

fn get<'a>(message: &'a Value, name: &str) -> Option<&'a Value> {
    message.get(name).filter(|value| **value != Value::Null)
}

fn string<'a>(path: &str, message: &'a Value, name: &str) -> Result<Option<&'a str>, ApiError> {
    match get(message, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(&format!("{path}.{name}"), "a string", other)),
    }
}
