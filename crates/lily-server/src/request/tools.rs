//! Tools on the wire.

use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use lily_text::json::Value;
use std::collections::HashMap;

/// Whether the model may, must or must not call tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    /// As it likes.
    Auto,
    /// No: tools are not shown and the answer is not searched for calls.
    None,
    /// The answer is a call, of any tool.
    Required,
    /// The answer is a call of this one.
    Named(String),
}

/// A function tool of a request.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    /// As chat completions has it on the wire.
    pub(crate) wire: Value,
    /// Its arguments are held to its schema.
    pub(crate) strict: bool,
    /// Where its schema stands in the request.
    pub(crate) schema_path: String,
    /// Where its name stands in the request.
    name_path: String,
}

impl Tool {
    /// Checks a tool's function. Its fields are read from the request's own words, for their places; `schema` is the
    /// name of the one with the schema.
    pub(crate) fn read(mut function: Fields, schema: &str, wire: Value) -> Result<Self, ApiError> {
        let path = function.at("name");
        let name = function.string("name")?.ok_or_else(|| ApiError::invalid(&path, "is missing"))?;
        // A name stands between `<function=` and `>` in the model's own format.
        let legible = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '<' | '>');
        if name.is_empty() || name.len() > 256 || !name.chars().all(legible) {
            let reason = "must have 1 to 256 bytes and no blanks, control characters, < or >";
            return Err(ApiError::invalid(&path, reason));
        }
        function.string("description")?;
        let schema_path = function.at(schema);
        if let Some(parameters) = function.get(schema).filter(|value| value.as_object().is_none()) {
            return Err(wrong(&schema_path, "an object", parameters));
        }
        let strict = function.boolean("strict")?.unwrap_or(false);
        Ok(Self { wire, strict, schema_path, name_path: path })
    }

    /// The function's name.
    pub(crate) fn name(&self) -> &str {
        self.function("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The schema of its arguments.
    pub(crate) fn schema(&self) -> Option<&Value> {
        self.function("parameters").filter(|schema| **schema != Value::Null)
    }

    fn function(&self, field: &str) -> Option<&Value> {
        self.wire.get("function")?.get(field)
    }
}

/// The tools of a request, at most `most`, by the reader of one: it gives none for a tool that is left out.
pub(crate) fn read_list(
    fields: &mut Fields,
    most: usize,
    mut read: impl FnMut(Fields, Value) -> Result<Option<Tool>, ApiError>,
) -> Result<Vec<Tool>, ApiError> {
    let tools = fields.array("tools")?.unwrap_or_default();
    if tools.len() > most {
        return Err(ApiError::invalid("tools", format_args!("at most {most} tools are taken")));
    }
    let mut known: Vec<Tool> = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    for (index, tool) in tools.into_iter().enumerate() {
        let Some(tool) = read(Fields::new(&format!("tools[{index}]"), tool.clone())?, tool)? else {
            continue;
        };
        // A call says a name, and nothing of which tool it means; the same tool twice is one.
        match names.get(tool.name()).map(|at| &known[*at]) {
            Some(other) if other.wire != tool.wire => {
                let reason = "is the name of an earlier tool, which is another one";
                return Err(ApiError::invalid(tool.name_path, reason));
            }
            Some(_) => {}
            None => {
                names.insert(tool.name().to_owned(), known.len());
                known.push(tool);
            }
        }
    }
    Ok(known)
}

/// The function tools of chat completions, as they are on the wire. Tools of other types are built-ins of a cloud
/// service that clients send by habit; they are left out, and the model never hears of them.
pub(crate) fn read_tools(fields: &mut Fields, most: usize) -> Result<Vec<Tool>, ApiError> {
    read_list(fields, most, |mut tool, wire| {
        if !is_function(&mut tool)? {
            return Ok(None);
        }
        let path = tool.at("function");
        let function = tool.object("function")?.ok_or_else(|| ApiError::invalid(path, "is missing"))?;
        Tool::read(function, "parameters", wire).map(Some)
    })
}

/// Whether a tool with a type is a function.
pub(crate) fn is_function(tool: &mut Fields) -> Result<bool, ApiError> {
    let kind = tool.string("type")?.ok_or_else(|| ApiError::invalid(tool.at("type"), "is missing"))?;
    Ok(kind == "function")
}

/// Refuses what would keep a tool from the model at first, or from the client.
pub(crate) fn check_deferred(tool: &mut Fields) -> Result<(), ApiError> {
    if tool.boolean("defer_loading")? == Some(true) {
        return Err(ApiError::unsupported(
            tool.at("defer_loading"),
            "every tool is shown to the model at once",
        ));
    }
    let path = tool.at("allowed_callers");
    match tool.array("allowed_callers")? {
        Some(callers) if callers.iter().any(|caller| caller.as_str() != Some("direct")) => Err(
            ApiError::unsupported(path, "must be [\"direct\"]: the model calls tools, and nothing else does"),
        ),
        _ => Ok(()),
    }
}

/// A function in the shape of chat completions.
pub(crate) fn wire(fields: Vec<(&str, Option<Value>)>) -> Value {
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(vec![
        ("type".to_owned(), Value::String("function".to_owned())),
        ("function".to_owned(), Value::Object(fields.collect())),
    ])
}

/// `tool_choice` as OpenAI has it: a word, or a function. Chat completions has the function's name one level deeper
/// (`nested`).
pub(crate) fn read_choice(fields: &mut Fields, tools: &[Tool], nested: bool) -> Result<ToolChoice, ApiError> {
    const PATH: &str = "tool_choice";
    let mut choice = match fields.take(PATH) {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(word)) => {
            return match word.as_str() {
                "auto" => Ok(ToolChoice::Auto),
                "none" => Ok(ToolChoice::None),
                "required" => required(PATH, tools),
                _ => Err(ApiError::invalid(PATH, "must be auto, none, required or a function")),
            };
        }
        Some(value @ Value::Object(_)) => Fields::new(PATH, value)?,
        Some(other) => {
            return Err(wrong(PATH, "auto, none, required or an object that names a function", &other));
        }
    };
    if !is_function(&mut choice)? {
        return Err(ApiError::invalid(
            "tool_choice.type",
            "must be function; other choices are not supported",
        ));
    }
    if !nested {
        return named(choice.string("name")?, "tool_choice.name", tools);
    }
    let name = match choice.object("function")? {
        Some(mut function) => function.string("name")?,
        None => None,
    };
    named(name, "tool_choice.function.name", tools)
}

/// A call of any tool.
pub(crate) fn required(path: &str, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    if tools.is_empty() {
        return Err(ApiError::invalid(path, "a call is required, and this request has no function tools"));
    }
    Ok(ToolChoice::Required)
}

/// A call of one of the request's tools.
pub(crate) fn named(name: Option<String>, path: &str, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let name = name.ok_or_else(|| ApiError::invalid(path, "is missing"))?;
    if tools.iter().any(|tool| tool.name() == name) {
        return Ok(ToolChoice::Named(name));
    }
    Err(ApiError::invalid(path, "is not among the tools of this request"))
}
