//! System messages in formats that allow them anywhere.

use lily_text::json::Value;

/// Joins all system messages, a blank line between them, into one at the front.
///
/// Chat completions leaves their place to the template, which takes one, at the front, and refuses others in its own
/// words. The clients of the other formats put instructions in two places or add to them later; to refuse those would
/// shut them out, so there the text keeps its rank and order and loses its place.
pub(crate) fn gather(messages: Vec<Value>) -> Vec<Value> {
    let (mut system, mut rest): (Option<String>, _) = (None, Vec::with_capacity(messages.len()));
    for message in messages {
        let text = message.get("content").and_then(Value::as_str);
        match (message.get("role").and_then(Value::as_str), text) {
            (Some("system" | "developer"), Some(text)) => match &mut system {
                None => system = Some(text.to_owned()),
                Some(system) => {
                    system.push_str("\n\n");
                    system.push_str(text);
                }
            },
            _ => rest.push(message),
        }
    }
    if let Some(text) = system {
        rest.insert(0, message("system", vec![("content", Value::String(text))]));
    }
    rest
}

/// A message in the shape of chat completions.
pub(crate) fn message(role: &str, fields: Vec<(&str, Value)>) -> Value {
    let role = ("role", Value::String(role.to_owned()));
    Value::Object(std::iter::once(role).chain(fields).map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A call in the shape of chat completions; `arguments` is JSON text or an object.
pub(crate) fn call(id: String, name: String, arguments: Value) -> Value {
    let object = |fields: Vec<(&str, Value)>| {
        Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    object(vec![
        ("id", Value::String(id)),
        ("type", Value::String("function".to_owned())),
        ("function", object(vec![("name", Value::String(name)), ("arguments", arguments)])),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_messages_meet_at_the_front() {
        let text = |role, text: &str| message(role, vec![("content", Value::String(text.to_owned()))]);
        let gathered = gather(vec![text("system", "a"), text("user", "u"), text("developer", "b")]);
        assert_eq!(gathered, [text("system", "a\n\nb"), text("user", "u")]);
        assert_eq!(gather(vec![text("user", "u")]), [text("user", "u")]);
    }
}
