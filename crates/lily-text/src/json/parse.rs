//! A strict JSON reader with a depth limit and errors that name the place.

use std::collections::HashMap;

use super::Value;

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 128;

/// Objects longer than this find a repeated key through a hash map.
const LINEAR_KEYS: usize = 16;

/// Why a text is not JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub reason: String,
}

impl Value {
    /// Reads one JSON value. Integers stay exact; `1e400` is infinite, as in Python. `NaN` and `Infinity`, which Python
    /// would accept, are not JSON and are refused, and so is a lone surrogate (`\ud800`), which is no character.
    ///
    /// # Errors
    /// The first thing that is not JSON, with its line and column; nesting deeper than [`MAX_DEPTH`].
    pub fn parse(text: &str) -> Result<Value, ParseError> {
        let mut reader = Reader { text, at: 0, depth: 0 };
        reader.skip_blank();
        let value = reader.value()?;
        reader.skip_blank();
        if reader.at < text.len() {
            return Err(reader.error("there is more text after the value"));
        }
        Ok(value)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn error(&self, reason: impl Into<String>) -> ParseError {
        self.error_at(self.at, reason)
    }

    fn error_at(&self, at: usize, reason: impl Into<String>) -> ParseError {
        let mut end = at.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &self.text[..end];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ParseError {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            reason: reason.into(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Value, ParseError> {
        match self.peek() {
            None => Err(self.error("the text ends where a value should be")),
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => {
                for (word, value) in
                    [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))]
                {
                    if self.text[self.at..].starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.error("expected a value"))
            }
        }
    }

    fn enter(&mut self) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.at += 1;
        self.skip_blank();
        Ok(())
    }

    fn array(&mut self) -> Result<Value, ParseError> {
        self.enter()?;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
        } else {
            loop {
                self.skip_blank();
                items.push(self.value()?);
                self.skip_blank();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b']') => {
                        self.at += 1;
                        break;
                    }
                    _ => return Err(self.error("expected `,` or `]`")),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Array(items))
    }

    fn object(&mut self) -> Result<Value, ParseError> {
        self.enter()?;
        let mut entries = Entries::default();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                self.skip_blank();
                if self.peek() != Some(b'"') {
                    return Err(self.error("expected a key in double quotes"));
                }
                let key = self.string()?;
                self.skip_blank();
                if self.peek() != Some(b':') {
                    return Err(self.error("expected `:`"));
                }
                self.at += 1;
                self.skip_blank();
                let value = self.value()?;
                entries.insert(key, value);
                self.skip_blank();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => {
                        self.at += 1;
                        break;
                    }
                    _ => return Err(self.error("expected `,` or `}`")),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Object(entries.list))
    }

    fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.peek();
        let whole = self.digits()?;
        if whole > 1 && first == Some(b'0') {
            return Err(self.error_at(start, "a number must not begin with 0"));
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            integer = false;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
            integer = false;
        }
        let text = &self.text[start..self.at];
        if integer {
            // Python's int has no negative zero.
            return Ok(Value::Integer(if text == "-0" { "0" } else { text }.to_owned()));
        }
        text.parse().map(Value::Float).map_err(|_| self.error_at(start, "not a number"))
    }

    fn digits(&mut self) -> Result<usize, ParseError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.error("expected a digit")) } else { Ok(self.at - start) }
    }

    fn string(&mut self) -> Result<String, ParseError> {
        let opening = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let Some(run) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) else {
                return Err(self.error_at(opening, "this string does not end"));
            };
            out.push_str(&self.text[self.at..self.at + run]);
            self.at += run;
            match rest[run] {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => out.push(self.escape()?),
                _ => return Err(self.error("a control character in a string must be escaped")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let start = self.at;
        self.at += 1;
        let Some(letter) = self.peek() else {
            return Err(self.error_at(start, "this escape does not end"));
        };
        self.at += 1;
        Ok(match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.four_hex(start)?;
                let code = if (0xD800..0xDC00).contains(&high) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.four_hex(start)?;
                    if !(0xDC00..0xE000).contains(&low) {
                        return Err(self.lone_surrogate(start, high));
                    }
                    0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
                } else {
                    high
                };
                char::from_u32(code).ok_or_else(|| self.lone_surrogate(start, code))?
            }
            _ => return Err(self.error_at(start, "unknown escape")),
        })
    }

    fn lone_surrogate(&self, at: usize, code: u32) -> ParseError {
        self.error_at(at, format!("\\u{code:04x} is half of a surrogate pair and no character"))
    }

    fn four_hex(&mut self, start: usize) -> Result<u32, ParseError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.error_at(start, "\\u needs four hexadecimal digits"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

/// The entries of an object while it is read: a repeated key keeps its first place and takes the last value.
#[derive(Default)]
struct Entries {
    list: Vec<(String, Value)>,
    places: HashMap<String, usize>,
}

impl Entries {
    fn insert(&mut self, key: String, value: Value) {
        let known = if self.list.len() <= LINEAR_KEYS {
            self.list.iter().position(|(name, _)| *name == key)
        } else {
            if self.places.is_empty() {
                self.places =
                    self.list.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
            }
            self.places.get(&key).copied()
        };
        if let Some(place) = known {
            self.list[place].1 = value;
        } else {
            if !self.places.is_empty() {
                self.places.insert(key.clone(), self.list.len());
            }
            self.list.push((key, value));
        }
    }
}
