//! Filters and tests of Jinja2 where the engine's own differ from Python.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::values::Number;
use super::{methods, python, tojson};

pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter("tojson", tojson::tojson);
    environment.add_filter("trim", trim);
    environment.add_filter("string", string);
    environment.add_filter("join", join);
    environment.add_filter("capitalize", |text: &Value| methods::capitalize(&python::to_str(text)));
    environment.add_test("number", |value: &Value| {
        value.kind() == ValueKind::Number || value.kind() == ValueKind::Bool || is_number(value)
    });
    environment.add_test("integer", |value: &Value| {
        value.is_integer() || matches!(number(value), Some(crate::json::Value::Integer(_)))
    });
    environment.add_test("float", |value: &Value| {
        (value.kind() == ValueKind::Number && !value.is_integer())
            || matches!(number(value), Some(crate::json::Value::Float(_)))
    });
}

fn number(value: &Value) -> Option<&crate::json::Value> {
    value.downcast_object_ref::<Number>().map(|number| &number.0)
}

fn is_number(value: &Value) -> bool {
    number(value).is_some()
}

/// `trim(value, chars=None)`: `str(value).strip(chars)`.
fn trim(value: &Value, chars: Option<Value>) -> Result<Value, Error> {
    let text = python::to_str(value);
    let chars = match &chars {
        Some(chars) if !chars.is_none() => {
            Some(chars.as_str().ok_or_else(|| invalid("trim: chars must be a string"))?)
        }
        _ => None,
    };
    Ok(Value::from(methods::strip(&text, chars, true, true)))
}

fn string(value: &Value) -> Value {
    if value.as_str().is_some() { value.clone() } else { Value::from(python::to_str(value)) }
}

/// `join(value, d='', attribute=None)`.
fn join(state: &State, value: &Value, separator: Option<Value>, rest: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let separator = match separator {
        Some(separator) => Some(separator),
        None => kwargs.get::<Option<Value>>("d")?,
    };
    let attribute = match rest.first() {
        Some(attribute) => Some(attribute.clone()),
        None => kwargs.get::<Option<Value>>("attribute")?,
    };
    kwargs.assert_all_used()?;
    let separator = separator.map(|value| python::to_str(&value)).unwrap_or_default();
    let mut out = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        if index > 0 {
            out.push_str(&separator);
        }
        let item = match &attribute {
            Some(attribute) => item.get_item(attribute)?,
            None => item,
        };
        let text = python::to_str(&item);
        state.consume_fuel((text.len() + separator.len()) as u64 / 64 + 1)?;
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}
