//! `json.dumps(ensure_ascii=False)` of Python.

use std::fmt::Write;

use super::{Value, python_float};

/// How `json.dumps` lays its output out; the default is that of `json.dumps(x, ensure_ascii=False)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonStyle {
    /// One item per line, each level indented by this text.
    pub indent: Option<String>,
    /// Between items; Python's default is `", "`, and `","` with an indent.
    pub item_separator: String,
    /// Between a key and its value.
    pub key_separator: String,
    /// Sort keys by code points.
    pub sort_keys: bool,
    /// Write everything beyond ASCII as `\uXXXX`.
    pub ensure_ascii: bool,
}

impl Default for JsonStyle {
    fn default() -> Self {
        JsonStyle {
            indent: None,
            item_separator: ", ".to_owned(),
            key_separator: ": ".to_owned(),
            sort_keys: false,
            ensure_ascii: false,
        }
    }
}

impl JsonStyle {
    /// The layout of `json.dumps(x, ensure_ascii=False, indent=spaces)`.
    pub fn indented(spaces: usize) -> Self {
        JsonStyle { indent: Some(" ".repeat(spaces)), item_separator: ",".to_owned(), ..JsonStyle::default() }
    }
}

impl Value {
    /// The text that Python's `json.dumps(value, ensure_ascii=False)` gives.
    pub fn to_python_json(&self) -> String {
        self.to_json_styled(&JsonStyle::default())
    }

    /// The text that Python's `json.dumps` gives with other arguments.
    pub fn to_json_styled(&self, style: &JsonStyle) -> String {
        let mut out = String::new();
        write_value(&mut out, self, style, 0);
        out
    }
}

fn write_value(out: &mut String, value: &Value, style: &JsonStyle, level: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Integer(digits) => out.push_str(digits),
        Value::Float(number) => out.push_str(&python_float(*number)),
        Value::String(text) => write_string(out, text, style.ensure_ascii),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                begin_item(out, style, level + 1, index == 0);
                write_value(out, item, style, level + 1);
            }
            end_items(out, style, level, items.is_empty());
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            let mut sorted: Vec<&(String, Value)> = entries.iter().collect();
            if style.sort_keys {
                sorted.sort_by(|left, right| left.0.cmp(&right.0));
            }
            for (index, (key, item)) in sorted.into_iter().enumerate() {
                begin_item(out, style, level + 1, index == 0);
                write_string(out, key, style.ensure_ascii);
                out.push_str(&style.key_separator);
                write_value(out, item, style, level + 1);
            }
            end_items(out, style, level, entries.is_empty());
            out.push('}');
        }
    }
}

fn begin_item(out: &mut String, style: &JsonStyle, level: usize, first: bool) {
    if !first {
        out.push_str(&style.item_separator);
    }
    new_line(out, style, level);
}

fn end_items(out: &mut String, style: &JsonStyle, level: usize, empty: bool) {
    if !empty {
        new_line(out, style, level);
    }
}

fn new_line(out: &mut String, style: &JsonStyle, level: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        for _ in 0..level {
            out.push_str(indent);
        }
    }
}

fn write_string(out: &mut String, text: &str, ensure_ascii: bool) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' => write_unit(out, letter as u16),
            _ if ensure_ascii && letter > '~' => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write_unit(out, *unit);
                }
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
}

fn write_unit(out: &mut String, unit: u16) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\u{unit:04x}");
}
