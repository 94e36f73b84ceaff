//! The `tojson` filter, as Hugging Face defines it for chat templates: `json.dumps(x, ensure_ascii=False, ...)`, without
//! the HTML escapes of Jinja2's own.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::python;
use crate::json::JsonStyle;

/// An indent wider than this is a mistake or an attack.
pub(super) const MAX_INDENT: usize = 64;

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(
    state: &State,
    value: &Value,
    positional: minijinja::value::Rest<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    if positional.len() > names.len() {
        return Err(invalid("tojson takes at most 4 arguments"));
    }
    let argument = |place: usize| -> Result<Option<Value>, Error> {
        match positional.get(place) {
            Some(value) => Ok(Some(value.clone())),
            None => kwargs.get::<Option<Value>>(names[place]),
        }
    };
    let mut style = JsonStyle::default();
    style.ensure_ascii = argument(0)?.is_some_and(|value| value.is_true());
    if let Some(indent) = argument(1)?.filter(|value| !value.is_none()) {
        style.indent = Some(match indent.as_str() {
            Some(text) if text.len() <= MAX_INDENT => text.to_owned(),
            Some(_) => return Err(invalid("tojson: indent is too wide")),
            None if indent.kind() == ValueKind::Bool => " ".repeat(usize::from(indent.is_true())),
            None => match indent.as_i64() {
                Some(width) if width <= 0 => String::new(),
                Some(width) if width as usize <= MAX_INDENT => " ".repeat(width as usize),
                Some(_) => return Err(invalid("tojson: indent is too wide")),
                None => return Err(invalid("tojson: indent must be a number or a string")),
            },
        });
        style.item_separator = ",".to_owned();
    }
    if let Some(separators) = argument(2)?.filter(|value| !value.is_none()) {
        let pair: Vec<Value> = separators.try_iter()?.take(3).collect();
        match pair.as_slice() {
            [item, key] if item.as_str().is_some() && key.as_str().is_some() => {
                style.item_separator = python::to_str(item);
                style.key_separator = python::to_str(key);
            }
            _ => return Err(invalid("tojson: separators must be two strings")),
        }
    }
    style.sort_keys = argument(3)?.is_some_and(|value| value.is_true());
    kwargs.assert_all_used()?;
    let json = python::to_json(value).map_err(invalid)?;
    let text = json.to_json_styled(&style);
    // Serialising visits every item; the result's bytes are charged by the engine.
    state.consume_fuel(text.len() as u64 / 8)?;
    Ok(Value::from(text))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}
