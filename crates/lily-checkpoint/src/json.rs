//! JSON files as Python writes them, and typed access to their fields with the full path in every error.

use crate::{CheckpointError, Hint};
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Parses a file. A byte order mark is skipped, and Python's bare `NaN`, `Infinity` and `-Infinity` become strings, so
/// that one in an unread field does no harm and one in a read field is refused by that field's name.
pub(crate) fn parse(file: &str, bytes: &[u8]) -> Result<Value, CheckpointError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes)
        .or_else(|error| serde_json::from_slice(&quote_python_numbers(bytes)).map_err(|_| error))
        .map_err(|error| CheckpointError::Json { file: file.to_owned(), message: error.to_string() })
}

fn quote_python_numbers(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    let (mut rest, mut in_string) = (bytes, false);
    while let Some(&byte) = rest.first() {
        let literal =
            ["NaN", "-Infinity", "Infinity"].iter().find(|l| !in_string && rest.starts_with(l.as_bytes()));
        if let Some(literal) = literal {
            out.extend(format!("\"{literal}\"").bytes());
            rest = &rest[literal.len()..];
            continue;
        }
        let step = if in_string && byte == b'\\' { 2.min(rest.len()) } else { 1 };
        in_string ^= byte == b'"';
        out.extend(&rest[..step]);
        rest = &rest[step..];
    }
    out
}

/// A JSON object with its place in a file.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    file: &'a str,
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The whole file.
    pub(crate) fn root(file: &'a str, value: &'a Value) -> Result<Self, CheckpointError> {
        match value.as_object() {
            Some(map) => Ok(Self { file, path: String::new(), map }),
            None => {
                Err(CheckpointError::Json { file: file.to_owned(), message: "expected an object".to_owned() })
            }
        }
    }

    /// The file.
    pub(crate) fn file(&self) -> &'a str {
        self.file
    }

    /// An object that is the value of this one's field `name`.
    pub(crate) fn nested(&self, name: &str, map: &'a Map<String, Value>) -> Self {
        Self { file: self.file, path: self.path(name), map }
    }

    /// All fields in the file's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.map.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// A field; `null` counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// The full path of a field.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// An error about a field.
    pub(crate) fn error(
        &self,
        name: &str,
        problem: impl Into<String>,
        hint: impl Into<Hint>,
    ) -> CheckpointError {
        CheckpointError::Config {
            file: self.file.to_owned(),
            field: self.path(name),
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> CheckpointError {
        self.error(name, format!("must be {expected}, found {}", brief(found)), Hint::NONE)
    }

    /// An error that says that a field is needed.
    pub(crate) fn missing(&self, name: &str) -> CheckpointError {
        self.error(name, "is missing", Hint::NONE)
    }

    /// A nested object.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Fields<'a>>, CheckpointError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let map = value.as_object().ok_or_else(|| self.wrong(name, "an object", value))?;
        Ok(Some(self.nested(name, map)))
    }

    /// A whole number within a range. A float without a fraction (`20.0`) is one too.
    pub(crate) fn count(
        &self,
        name: &str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>, CheckpointError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match whole(value).and_then(|n| usize::try_from(n).ok()).filter(|n| range.contains(n)) {
            Some(n) => Ok(Some(n)),
            None => {
                let expected = format!("a whole number from {} to {}", range.start(), range.end());
                Err(self.wrong(name, &expected, value))
            }
        }
    }

    /// One of a few whole numbers.
    pub(crate) fn choice(&self, name: &str, choices: &[usize]) -> Result<Option<usize>, CheckpointError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match whole(value).and_then(|n| usize::try_from(n).ok()).filter(|n| choices.contains(n)) {
            Some(n) => Ok(Some(n)),
            None => {
                let choices: Vec<String> = choices.iter().map(usize::to_string).collect();
                Err(self.wrong(name, &format!("one of {}", choices.join(", ")), value))
            }
        }
    }

    /// The same as [`Self::count`], which must be there.
    pub(crate) fn required_count(
        &self,
        name: &str,
        range: RangeInclusive<usize>,
    ) -> Result<usize, CheckpointError> {
        self.count(name, range)?.ok_or_else(|| self.missing(name))
    }

    /// A finite number that passes a test.
    pub(crate) fn number(
        &self,
        name: &str,
        expected: &str,
        accept: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, CheckpointError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_f64().filter(|n| n.is_finite() && accept(*n)) {
            Some(n) => Ok(Some(n)),
            None => Err(self.wrong(name, expected, value)),
        }
    }

    /// A truth value.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, CheckpointError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, "true or false", value))
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, CheckpointError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(name, "a string", value))
    }

    /// One token id or a list of them; empty when absent.
    pub(crate) fn token_ids(&self, name: &str) -> Result<Vec<u32>, CheckpointError> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let id = |value: &Value| whole(value).and_then(|n| u32::try_from(n).ok());
        let ids = match value {
            Value::Array(values) => values.iter().map(id).collect(),
            single => id(single).map(|id| vec![id]),
        };
        ids.ok_or_else(|| self.wrong(name, "a token id or a list of token ids", value))
    }
}

fn whole(value: &Value) -> Option<u64> {
    // 2^53: beyond it a float does not tell whole numbers apart.
    let float = || value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(n));
    value.as_u64().or_else(|| float().map(|n| n as u64))
}

/// A value's JSON, cut to a length that fits in a message.
pub(crate) fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
