//! A chat request as JSON: messages, tools and template variables, as a client of the server would send them.

use crate::failure::Advice;
use anyhow::{Context, Result, bail};
use lily_text::{RenderRequest, json::Value};
use std::{
    fs,
    io::{self, Read},
};

/// Reads a whole file, or stdin for `-`.
pub(crate) fn read_text(path: &str) -> Result<String> {
    let read = |from: &mut dyn Read| {
        let mut text = String::new();
        from.read_to_string(&mut text).map(|_| text)
    };
    if path == "-" {
        return read(&mut io::stdin().lock()).context("stdin");
    }
    fs::File::open(path).and_then(|mut file| read(&mut file)).with_context(|| path.to_owned())
}

/// Reads a request: `{"messages": [...], "tools": [...], "chat_template_kwargs": {...}}`, or the messages alone. Other
/// fields of a wire request (`model`, `temperature`) say nothing about the prompt and are ignored.
pub(crate) fn read(path: &str) -> Result<RenderRequest> {
    let place = if path == "-" { "stdin" } else { path };
    let parsed = parse(&read_text(path)?);
    parsed.with_context(|| Advice::new(format!("{place} is not a chat request"), HINT))
}

const HINT: &str = r#"expected {"messages": [{"role": "user", "content": "Hi"}], "tools": [...], "chat_template_kwargs": {...}} or the messages alone"#;

fn parse(text: &str) -> Result<RenderRequest> {
    let value = Value::parse(text)?;
    if let Value::Array(messages) = value {
        return Ok(RenderRequest { messages, add_generation_prompt: true, ..RenderRequest::default() });
    }
    let Value::Object(entries) = value else { bail!("neither an object nor an array") };
    let mut request = RenderRequest { add_generation_prompt: true, ..RenderRequest::default() };
    let mut has_messages = false;
    for (key, value) in entries {
        match (key.as_str(), value) {
            ("messages", Value::Array(messages)) => (request.messages, has_messages) = (messages, true),
            ("tools", Value::Array(tools)) => request.tools = tools,
            ("kwargs" | "chat_template_kwargs", Value::Object(kwargs)) => request.kwargs.extend(kwargs),
            ("add_generation_prompt", Value::Bool(wanted)) => request.add_generation_prompt = wanted,
            ("tools" | "kwargs" | "chat_template_kwargs" | "add_generation_prompt", Value::Null) => {}
            ("messages" | "tools", _) => bail!("`{key}` must be an array"),
            ("kwargs" | "chat_template_kwargs", _) => bail!("`{key}` must be an object"),
            ("add_generation_prompt", _) => bail!("`{key}` must be true or false"),
            _ => {}
        }
    }
    if !has_messages {
        bail!("there is no field `messages`");
    }
    Ok(request)
}

/// Reads tool definitions: an array, or one definition alone.
pub(crate) fn read_tools(path: &str) -> Result<Vec<Value>> {
    let value = Value::parse(&read_text(path)?).with_context(|| path.to_owned())?;
    let tools = match value {
        Value::Array(tools) => tools,
        tool @ Value::Object(_) => vec![tool],
        _ => bail!("{path}: tools must be an array of definitions"),
    };
    check_tools(path, &tools)?;
    Ok(tools)
}

/// Refuses what is no definition of a function, which the model would be shown and could not call; says where it stands.
pub(crate) fn check_tools(path: &str, tools: &[Value]) -> Result<()> {
    for (index, tool) in tools.iter().enumerate() {
        check_tool(tool)
            .map_err(|reason| Advice::new(format!("{path}: tools[{index}]{reason}"), TOOL_HINT))?;
    }
    Ok(())
}

const TOOL_HINT: &str = r#"expected {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", ...}}}"#;

/// Both `{"type": "function", "function": {"name", "parameters"}}` and the function alone are definitions.
fn check_tool(tool: &Value) -> Result<(), String> {
    if tool.as_object().is_none() {
        return Err(format!(" must be an object, not {}", tool.kind()));
    }
    let (function, place) = match tool.get("function") {
        Some(function) => (function, ".function"),
        None if tool.get("name").is_some() => (tool, ""),
        None => return Err(".function is missing".to_owned()),
    };
    if function.as_object().is_none() {
        return Err(format!("{place} must be an object, not {}", function.kind()));
    }
    // A name stands between `<function=` and `>` in the model's own format.
    let legible = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '<' | '>');
    match function.get("name") {
        None => return Err(format!("{place}.name is missing")),
        Some(Value::String(name)) if !name.is_empty() && name.chars().all(legible) => {}
        Some(_) => {
            return Err(format!("{place}.name must be text without blanks, control characters, < or >"));
        }
    }
    for field in ["parameters", "input_schema"] {
        let schema = function.get(field).filter(|schema| !schema.is_null());
        if let Some(schema) = schema.filter(|schema| schema.as_object().is_none()) {
            return Err(format!("{place}.{field} must be an object, not {}", schema.kind()));
        }
    }
    Ok(())
}

/// Sets the template variable `enable_thinking`, unless there is nothing to say.
pub(crate) fn set_thinking(request: &mut RenderRequest, thinking: Option<bool>) {
    if let Some(on) = thinking {
        request.kwargs.retain(|(name, _)| name != "enable_thinking");
        request.kwargs.push(("enable_thinking".to_owned(), Value::Bool(on)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let bare = parse(r#"[{"role": "user", "content": "Hi"}]"#).unwrap();
        let full = parse(
            r#"{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": null,
                "chat_template_kwargs": {"enable_thinking": false}}"#,
        )
        .unwrap();
        assert_eq!(bare.messages, full.messages);
        assert!(bare.add_generation_prompt && full.add_generation_prompt);
        assert_eq!(full.kwargs, [("enable_thinking".to_owned(), Value::Bool(false))]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("{", "line 1"),
            ("3", "neither an object nor an array"),
            ("{}", "no field `messages`"),
            (r#"{"messages": {}}"#, "`messages` must be an array"),
            (r#"{"messages": [], "kwargs": 1}"#, "`kwargs` must be an object"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    /// `[1]` and `{"foo": 1}` were once accepted, and the model had no tools.
    #[test]
    fn what_is_no_tool_is_refused_with_its_place() {
        let good = r#"{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}"#;
        for fine in [good, r#"{"name": "f"}"#, r#"{"name": "f", "input_schema": {}, "parameters": null}"#] {
            check_tools("t", &[Value::parse(fine).unwrap()]).unwrap();
        }
        for (tool, words) in [
            ("1", "t: tools[1] must be an object"),
            (r#"{"foo": 1}"#, "t: tools[1].function is missing"),
            (r#"{"type": "function", "function": []}"#, "t: tools[1].function must be an object"),
            (r#"{"function": {"parameters": {}}}"#, "t: tools[1].function.name is missing"),
            (r#"{"function": {"name": "a b"}}"#, "t: tools[1].function.name must be text"),
            (r#"{"function": {"name": ""}}"#, "t: tools[1].function.name must be text"),
            (r#"{"name": "f", "parameters": 3}"#, "t: tools[1].parameters must be an object"),
        ] {
            let tools = [good, tool].map(|text| Value::parse(text).unwrap());
            let error = check_tools("t", &tools).unwrap_err().to_string();
            assert!(error.contains(words), "{tool}: {error}");
        }
    }
}
