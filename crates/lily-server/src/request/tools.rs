//! Tools on the wire.

use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use lily_text::json::Value;

/// Whether the model may call tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    /// As it likes.
    Auto,
    /// No: tools are not shown and the answer is not searched for calls.
    None,
}

/// The function tools of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    /// As chat completions has them on the wire.
    pub(crate) functions: Vec<Value>,
    /// The place of the first whose arguments are to be held to its schema.
    pub(crate) strict: Option<String>,
}

impl Tools {
    /// Adds a tool after checking its function, which is read from the request's own words, for their places.
    pub(crate) fn add(&mut self, function: Fields, tool: Value) -> Result<(), ApiError> {
        let path = function.at("strict");
        if check_function(function)? && self.strict.is_none() {
            self.strict = Some(path);
        }
        self.functions.push(tool);
        Ok(())
    }

    /// Refuses what a generation cannot hold to yet; rendering and counting can do without.
    pub(crate) fn check_strict(&self) -> Result<(), ApiError> {
        let reason = "arguments are not yet held to their schema; leave it out or send false";
        self.strict.as_ref().map_or(Ok(()), |path| Err(ApiError::unsupported(path.as_str(), reason)))
    }
}

/// The function tools of a request, as they are on the wire. Tools of other types are built-ins of a cloud service
/// that clients send by habit; they are left out, and the model never hears of them.
pub(crate) fn read_tools(fields: &mut Fields, most: usize) -> Result<Tools, ApiError> {
    let tools = fields.array("tools")?.unwrap_or_default();
    if tools.len() > most {
        return Err(ApiError::invalid("tools", format_args!("at most {most} tools are taken")));
    }
    let mut read = Tools::default();
    for (index, tool) in tools.into_iter().enumerate() {
        let mut tool_fields = Fields::new(&format!("tools[{index}]"), tool.clone())?;
        match tool_fields.string("type")?.as_deref() {
            Some("function") => {}
            Some(_) => continue,
            None => return Err(ApiError::invalid(tool_fields.at("type"), "is missing")),
        }
        let path = tool_fields.at("function");
        let function =
            tool_fields.object("function")?.ok_or_else(|| ApiError::invalid(path, "is missing"))?;
        read.add(function, tool)?;
    }
    Ok(read)
}

/// Checks a function's name, description and parameters; true if its arguments are to be held to its schema.
fn check_function(mut function: Fields) -> Result<bool, ApiError> {
    let path = function.at("name");
    let name = function.string("name")?.ok_or_else(|| ApiError::invalid(&path, "is missing"))?;
    // A name stands between `<function=` and `>` in the model's own format.
    let legible = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '<' | '>');
    if name.is_empty() || name.len() > 256 || !name.chars().all(legible) {
        let reason = "must have 1 to 256 bytes and no blanks, control characters, < or >";
        return Err(ApiError::invalid(path, reason));
    }
    function.string("description")?;
    if let Some(parameters) = function.get("parameters").filter(|value| value.as_object().is_none()) {
        return Err(wrong(&function.at("parameters"), "an object", parameters));
    }
    Ok(function.boolean("strict")?.unwrap_or(false))
}

/// The name of a function tool.
pub(crate) fn name_of(tool: &Value) -> Option<&str> {
    tool.get("function")?.get("name")?.as_str()
}

/// `tool_choice`: `auto` (also when absent) and `none` are honoured; what would have to be enforced is refused.
pub(crate) fn read_choice(fields: &mut Fields, tools: &Tools) -> Result<ToolChoice, ApiError> {
    const PATH: &str = "tool_choice";
    let mut choice = match fields.take(PATH) {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(word)) => {
            return match word.as_str() {
                "auto" => Ok(ToolChoice::Auto),
                "none" => Ok(ToolChoice::None),
                "required" => Err(enforce(PATH)),
                _ => Err(ApiError::invalid(PATH, "must be auto, none, required or a function")),
            };
        }
        Some(value) => Fields::new(PATH, value)?,
    };
    match choice.string("type")?.as_deref() {
        Some("function") => {}
        Some(_) => return Err(ApiError::invalid("tool_choice.type", "must be function")),
        None => return Err(ApiError::invalid("tool_choice.type", "is missing")),
    }
    let name = match choice.object("function")? {
        Some(mut function) => function.string("name")?,
        None => None,
    };
    check_named(name, "tool_choice.function.name", tools)?;
    Err(enforce(PATH))
}

/// Checks that a named tool is one of the request's.
pub(crate) fn check_named(name: Option<String>, path: &str, tools: &Tools) -> Result<String, ApiError> {
    let name = name.ok_or_else(|| ApiError::invalid(path, "is missing"))?;
    if tools.functions.iter().any(|tool| name_of(tool) == Some(&name)) {
        return Ok(name);
    }
    Err(ApiError::invalid(path, "is not among the tools of this request"))
}

/// The refusal of a choice that would have to be enforced.
pub(crate) fn enforce(path: &str) -> ApiError {
    ApiError::unsupported(path, "a call cannot be enforced yet; send auto or none")
}
