//! How Python sees text: whitespace, `str()` and `repr()`.

use std::sync::LazyLock;

use minijinja::Value;
use minijinja::value::ValueKind;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::values::Number;
use crate::json::{self, python_float};

/// `str.isspace`: Unicode's white space, and also the separators U+001C to U+001F.
pub(super) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

/// `str.isprintable`: neither of the categories Other nor, but for the blank, Separator.
fn is_printable(letter: char) -> bool {
    static HIDDEN: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
        let parsed = regex_syntax::Parser::new().parse(r"[\p{C}\p{Z}]").map(Hir::into_kind);
        match parsed {
            Ok(HirKind::Class(Class::Unicode(class))) => class.iter().map(|range| (range.start(), range.end())).collect(),
            _ => Vec::new(),
        }
    });
    if letter.is_ascii() {
        return !letter.is_ascii_control();
    }
    let after = HIDDEN.partition_point(|(start, _)| *start <= letter);
    after == 0 || HIDDEN[after - 1].1 < letter
}

/// `str(float)`.
pub(super) fn float_str(number: f64) -> String {
    if number.is_nan() {
        "nan".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "inf" } else { "-inf" }.to_owned()
    } else {
        python_float(number)
    }
}

/// `str(value)`.
pub(super) fn to_str(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_undefined() => String::new(),
        None => repr(value),
    }
}

/// `repr(value)`.
pub(super) fn repr(value: &Value) -> String {
    let mut out = String::new();
    push_repr(value, &mut out);
    out
}

fn push_repr(value: &Value, out: &mut String) {
    if let Some(text) = value.as_str() {
        push_string_repr(text, out);
        return;
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Seq | ValueKind::Iterable if value.downcast_object_ref::<Number>().is_none() => {
            let tuple = value.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                if count > 0 {
                    out.push_str(", ");
                }
                push_repr(&item, out);
                count += 1;
            }
            if tuple && count == 1 {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                push_repr(&key, out);
                out.push_str(": ");
                push_repr(&value.get_item(&key).unwrap_or_default(), out);
            }
            out.push('}');
        }
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.push_str(&float_str(number)),
            Err(_) => out.push_str(&value.to_string()),
        },
        _ => out.push_str(&value.to_string()),
    }
}

fn push_string_repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if letter == quote => {
                out.push('\\');
                out.push(letter);
            }
            _ if !is_printable(letter) => {
                let code = u32::from(letter);
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
            _ => out.push(letter),
        }
    }
    out.push(quote);
}

/// The JSON value of a template value, as `json.dumps` would take it.
///
/// # Errors
/// What it is that JSON cannot express.
pub(super) fn to_json(value: &Value) -> Result<json::Value, String> {
    if let Some(text) = value.as_str() {
        return Ok(json::Value::from(text));
    }
    if let Some(number) = value.downcast_object_ref::<Number>() {
        return Ok(number.0.clone());
    }
    Ok(match value.kind() {
        ValueKind::None => json::Value::Null,
        ValueKind::Bool => json::Value::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => json::Value::Integer(value.to_string()),
        ValueKind::Number => json::Value::Float(f64::try_from(value.clone()).map_err(|error| error.to_string())?),
        ValueKind::Seq | ValueKind::Iterable => json::Value::Array(
            value.try_iter().map_err(|error| error.to_string())?.map(|item| to_json(&item)).collect::<Result<_, _>>()?,
        ),
        ValueKind::Map => {
            let mut entries = Vec::new();
            for key in value.try_iter().map_err(|error| error.to_string())? {
                let item = value.get_item(&key).map_err(|error| error.to_string())?;
                entries.push((key_of(&key)?, to_json(&item)?));
            }
            json::Value::Object(entries)
        }
        ValueKind::Undefined => return Err("an undefined value is not JSON serializable".to_owned()),
        other => return Err(format!("a value of type {other} is not JSON serializable")),
    })
}

/// `json.dumps` turns scalar keys into text.
fn key_of(key: &Value) -> Result<String, String> {
    match to_json(key)? {
        json::Value::String(text) => Ok(text),
        json::Value::Array(_) | json::Value::Object(_) => {
            Err("keys must be str, int, float, bool or None".to_owned())
        }
        scalar => Ok(scalar.to_python_json()),
    }
}
