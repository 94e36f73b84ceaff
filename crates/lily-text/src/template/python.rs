//! How Python sees text: whitespace, `str()` and `repr()`.

use std::sync::LazyLock;

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};
use regex_syntax::hir::{Class, Hir, HirKind};

use super::filters::invalid;
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
            Ok(HirKind::Class(Class::Unicode(class))) => {
                class.iter().map(|range| (range.start(), range.end())).collect()
            }
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

/// What visiting a value may cost: a template can build lists that are far longer than the memory they take, or nested
/// without end.
pub(super) struct Budget<'a> {
    state: Option<&'a State<'a, 'a>>,
    depth: usize,
}

/// How deep a value may nest that is printed or serialised.
const MAX_DEPTH: usize = 300;

impl<'a> Budget<'a> {
    /// The fuel of a render.
    pub(super) fn of(state: &'a State<'_, '_>) -> Self {
        Budget { state: Some(state), depth: 0 }
    }

    /// For values that are known to be small.
    pub(super) fn unlimited() -> Self {
        Budget { state: None, depth: 0 }
    }

    fn pay(&self, bytes: usize) -> Result<(), Error> {
        self.state.map_or(Ok(()), |state| state.consume_fuel(1 + bytes as u64 / 64))
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            Err(invalid(format!("a value is nested deeper than {MAX_DEPTH} levels")))
        } else {
            Ok(())
        }
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }
}

/// `str(value)`.
pub(super) fn to_str(value: &Value, mut budget: Budget<'_>) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(text) => out.push_str(text),
        None if value.is_undefined() => {}
        None => push_repr(value, &mut out, &mut budget)?,
    }
    Ok(out)
}

/// `repr(value)`.
pub(super) fn repr(value: &Value, mut budget: Budget<'_>) -> Result<String, Error> {
    let mut out = String::new();
    push_repr(value, &mut out, &mut budget)?;
    Ok(out)
}

fn push_repr(value: &Value, out: &mut String, budget: &mut Budget<'_>) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        budget.pay(text.len())?;
        push_string_repr(text, out);
        return Ok(());
    }
    budget.pay(1)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Seq | ValueKind::Iterable => {
            budget.enter()?;
            let tuple = value.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            let mut count = 0;
            for item in value.try_iter()?.checked() {
                if count > 0 {
                    out.push_str(", ");
                }
                push_repr(&item?, out, budget)?;
                count += 1;
            }
            if tuple && count == 1 {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
            budget.leave();
        }
        ValueKind::Map => {
            budget.enter()?;
            out.push('{');
            for (index, key) in value.try_iter()?.checked().enumerate() {
                let key = key?;
                if index > 0 {
                    out.push_str(", ");
                }
                push_repr(&key, out, budget)?;
                out.push_str(": ");
                push_repr(&value.get_item(&key)?, out, budget)?;
            }
            out.push('}');
            budget.leave();
        }
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.push_str(&float_str(number)),
            Err(_) => out.push_str(&value.to_string()),
        },
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
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
pub(super) fn to_json(value: &Value, budget: &mut Budget<'_>) -> Result<json::Value, Error> {
    if let Some(text) = value.as_str() {
        budget.pay(text.len())?;
        return Ok(json::Value::from(text));
    }
    budget.pay(1)?;
    if let Some(number) = value.downcast_object_ref::<Number>() {
        return Ok(number.0.clone());
    }
    Ok(match value.kind() {
        ValueKind::None => json::Value::Null,
        ValueKind::Bool => json::Value::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => json::Value::Integer(value.to_string()),
        ValueKind::Number => json::Value::Float(f64::try_from(value.clone())?),
        ValueKind::Seq | ValueKind::Iterable => {
            budget.enter()?;
            let items = value
                .try_iter()?
                .checked()
                .map(|item| to_json(&item?, budget))
                .collect::<Result<_, Error>>()?;
            budget.leave();
            json::Value::Array(items)
        }
        ValueKind::Map => {
            budget.enter()?;
            let mut entries = Vec::new();
            for key in value.try_iter()?.checked() {
                let key = key?;
                let item = value.get_item(&key)?;
                entries.push((key_of(&key, budget)?, to_json(&item, budget)?));
            }
            budget.leave();
            json::Value::Object(entries)
        }
        ValueKind::Undefined => return Err(invalid("an undefined value is not JSON serializable")),
        other => return Err(invalid(format!("a value of type {other} is not JSON serializable"))),
    })
}

/// `json.dumps` turns scalar keys into text.
fn key_of(key: &Value, budget: &mut Budget<'_>) -> Result<String, Error> {
    match to_json(key, budget)? {
        json::Value::String(text) => Ok(text),
        json::Value::Array(_) | json::Value::Object(_) => {
            Err(invalid("keys must be str, int, float, bool or None"))
        }
        scalar => Ok(scalar.to_python_json()),
    }
}
