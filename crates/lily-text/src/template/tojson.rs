//! The `tojson` filter, as Hugging Face defines it for chat templates: `json.dumps(x, ensure_ascii=False, ...)`, without
//! the HTML escapes of Jinja2's own.
#![expect(clippy::needless_pass_by_value, reason = "the engine hands arguments over by value")]

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, State, Value};

use super::arguments::{arguments, flag, optional};
use super::filters::invalid;
use super::python;
use crate::json::JsonStyle;

/// An indent wider than this is a mistake or an attack.
pub(super) const MAX_INDENT: usize = 64;

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(
    state: &State,
    value: &Value,
    rest: Rest<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let [ensure_ascii, indent, separators, sort_keys] =
        arguments(&rest, &kwargs, ["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let mut style =
        JsonStyle { ensure_ascii: flag(ensure_ascii), sort_keys: flag(sort_keys), ..JsonStyle::default() };
    if let Some(indent) = optional(indent) {
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
    if let Some(separators) = optional(separators) {
        let pair: Vec<Value> = separators.try_iter()?.checked().take(3).collect::<Result<_, _>>()?;
        match pair.as_slice() {
            [item, key] if item.as_str().is_some() && key.as_str().is_some() => {
                style.item_separator = item.to_string();
                style.key_separator = key.to_string();
            }
            _ => return Err(invalid("tojson: separators must be two strings")),
        }
    }
    let json = python::to_json(value, &mut python::Budget::of(state))?;
    let text = json.to_json_styled(&style);
    // Serialising visits every item; the result's bytes are charged by the engine.
    state.consume_fuel(text.len() as u64 / 8)?;
    Ok(Value::from(text))
}
