//! Filters and tests of Jinja2 where the engine's own differ from Python.
#![expect(clippy::needless_pass_by_value, reason = "the engine hands arguments over by value")]

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::arguments::{arguments, flag, optional};
use super::python::Budget;
use super::values::Number;
use super::{methods, python, tojson};

pub(super) fn add_to(environment: &mut Environment<'static>) {
    // Not in Jinja2: a template that asks for them fails there, and so it should here.
    for name in ["bool", "chain", "lines", "split", "zip"] {
        environment.remove_filter(name);
    }
    environment.remove_global("debug");
    environment.add_filter("tojson", tojson::tojson);
    environment.add_filter("trim", trim);
    environment.add_filter("string", string);
    environment.add_filter("join", join);
    environment.add_filter("capitalize", |state: &State, text: &Value| {
        python::to_str(text, Budget::of(state)).map(|text| methods::capitalize(&text))
    });
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("wordcount", |state: &State, text: &Value| {
        python::to_str(text, Budget::of(state)).map(|text| word_count(&text))
    });
    environment.add_filter("indent", indent);
    environment.add_test("iterable", |value: &Value| {
        value.is_undefined() || (!value.is_none() && value.try_iter().is_ok())
    });
    // What has a length and items by index: texts and dicts too, as in Python.
    environment.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined)
    });
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
fn trim(state: &State, value: &Value, chars: Option<Value>) -> Result<Value, Error> {
    let text = python::to_str(value, Budget::of(state))?;
    let chars = match &chars {
        Some(chars) if !chars.is_none() => {
            Some(chars.as_str().ok_or_else(|| invalid("trim: chars must be a string"))?)
        }
        _ => None,
    };
    Ok(Value::from(methods::strip(&text, chars, true, true)))
}

fn string(state: &State, value: &Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        return Ok(value.clone());
    }
    python::to_str(value, Budget::of(state)).map(Value::from)
}

/// `join(value, d='', attribute=None)`.
fn join(state: &State, value: &Value, rest: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [separator, attribute] = arguments(&rest, &kwargs, ["d", "attribute"])?;
    let attribute = optional(attribute);
    let separator = match separator {
        Some(separator) => python::to_str(&separator, Budget::of(state))?,
        None => String::new(),
    };
    let mut out = String::new();
    for (index, item) in value.try_iter()?.checked().enumerate() {
        let item = item?;
        if index > 0 {
            out.push_str(&separator);
        }
        let item = match &attribute {
            Some(attribute) => item.get_item(attribute)?,
            None => item,
        };
        let text = python::to_str(&item, Budget::of(state))?;
        state.consume_fuel((text.len() + separator.len()) as u64 / 64 + 1)?;
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

/// `int(value, default=0, base=10)`: what cannot be read is the default.
fn int(value: &Value, rest: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [default, base] = arguments(&rest, &kwargs, ["default", "base"])?;
    let default = default.unwrap_or_else(|| Value::from(0));
    let base = base.map_or(Ok(10), u32::try_from)?;
    if !(2..=36).contains(&base) {
        return Err(invalid("int: the base must be from 2 to 36"));
    }
    if value.is_integer() {
        return Ok(value.clone());
    }
    let whole = match value.as_str() {
        Some(text) => {
            let text = methods::strip(text, None, true, true);
            i128::from_str_radix(text, base).ok().or_else(|| whole_number(text.parse().ok()?))
        }
        None if value.kind() == ValueKind::Bool => Some(i128::from(value.is_true())),
        None => as_float(value).and_then(whole_number),
    };
    Ok(whole.map_or(default, Value::from))
}

fn whole_number(number: f64) -> Option<i128> {
    // Beyond this a float could not be cast exactly.
    (number.is_finite() && number.abs() < 1e38).then_some(number as i128)
}

fn as_float(value: &Value) -> Option<f64> {
    match number(value) {
        Some(crate::json::Value::Float(number)) => Some(*number),
        Some(crate::json::Value::Integer(digits)) => digits.parse().ok(),
        _ => f64::try_from(value.clone()).ok(),
    }
}

/// `float(value, default=0.0)`: what cannot be read is the default.
fn float(value: &Value, rest: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [default] = arguments(&rest, &kwargs, ["default"])?;
    let default = default.unwrap_or_else(|| Value::from(0.0));
    let read = match value.as_str() {
        Some(text) => methods::strip(text, None, true, true).parse().ok(),
        None if value.kind() == ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        None => as_float(value),
    };
    Ok(read.map_or(default, super::values::float))
}

/// Runs of letters, digits and underscores.
fn word_count(text: &str) -> usize {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .count()
}

/// `indent(s, width=4, first=False, blank=False)`.
fn indent(state: &State, value: &Value, rest: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [width, first, blank] = arguments(&rest, &kwargs, ["width", "first", "blank"])?;
    let (first, blank) = (flag(first), flag(blank));
    let indention = match &width {
        None => " ".repeat(4),
        Some(width) => match (width.as_str(), width.as_usize()) {
            (Some(text), _) if text.len() <= tojson::MAX_INDENT => text.to_owned(),
            (_, Some(width)) if width <= tojson::MAX_INDENT => " ".repeat(width),
            _ => return Err(invalid("indent: the width must be a small number or a short text")),
        },
    };
    // Jinja2 splits with one newline more, so that a text that ends in one keeps it.
    let text = python::to_str(value, Budget::of(state))? + "\n";
    let mut out = String::new();
    for (index, line) in methods::lines(&text, false).into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if if index == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}
