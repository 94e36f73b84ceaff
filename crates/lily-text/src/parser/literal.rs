//! Python literals, which models write where JSON is meant: `{'lang': 'de', 'strict': True}`.

use crate::json::{MAX_DEPTH, Value};

/// Reads a text that is one literal: dict, list, tuple, string, number, `True`, `False` or `None`, also with a comma at the
/// end. JSON's own words are read too. `None` if it is anything else.
pub(super) fn parse_literal(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text.trim(), depth: 0 };
    let value = reader.value()?;
    reader.skip_blank();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_blank();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Option<Value> {
        self.skip_blank();
        match self.rest.chars().next()? {
            '{' => self.dict(),
            '[' => self.list("[", "]"),
            '(' => self.list("(", ")"),
            '\'' | '"' => self.string().map(Value::String),
            '-' | '+' | '0'..='9' | '.' => self.number(),
            _ => self.word(),
        }
    }

    fn enter(&mut self, open: &str) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH && self.take(open)).then_some(())
    }

    fn list(&mut self, open: &str, close: &str) -> Option<Value> {
        self.enter(open)?;
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.value()?);
            if !self.take(",") {
                self.take(close).then_some(())?;
                break;
            }
        }
        self.depth -= 1;
        Some(Value::Array(items))
    }

    fn dict(&mut self) -> Option<Value> {
        self.enter("{")?;
        let mut entries: Vec<(String, Value)> = Vec::new();
        while !self.take("}") {
            let key = match self.value()? {
                Value::String(key) => key,
                number @ (Value::Integer(_) | Value::Float(_)) => number.to_python_json(),
                _ => return None,
            };
            self.take(":").then_some(())?;
            let value = self.value()?;
            match entries.iter_mut().find(|(name, _)| *name == key) {
                Some(entry) => entry.1 = value,
                None => entries.push((key, value)),
            }
            if !self.take(",") {
                self.take("}").then_some(())?;
                break;
            }
        }
        self.depth -= 1;
        Some(Value::Object(entries))
    }

    fn word(&mut self) -> Option<Value> {
        let end = self
            .rest
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "True" | "true" => Some(Value::Bool(true)),
            "False" | "false" => Some(Value::Bool(false)),
            "None" | "null" => Some(Value::Null),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        let ends = |letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '+' | '-' | '.' | '_');
        let (number, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        let number = number.strip_prefix('+').unwrap_or(number).replace('_', "");
        Value::parse(&number).ok().or_else(|| {
            // `5.` and `.5` are numbers in Python.
            let digits = number
                .bytes()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'e' | b'E' | b'+'));
            digits.then(|| number.parse().ok().map(Value::Float)).flatten()
        })
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut letters = self.rest[1..].chars();
        let mut out = String::new();
        loop {
            match letters.next()? {
                letter if letter == quote => break,
                '\\' => match escape(&mut letters)? {
                    Escape::Char(letter) => out.push(letter),
                    Escape::Nothing => {}
                    Escape::Unknown(letter) => out.extend(['\\', letter]),
                },
                letter => out.push(letter),
            }
        }
        self.rest = letters.as_str();
        Some(out)
    }
}

enum Escape {
    Char(char),
    /// A line that goes on.
    Nothing,
    /// Python keeps an escape that it does not know.
    Unknown(char),
}

fn escape(letters: &mut std::str::Chars<'_>) -> Option<Escape> {
    Some(Escape::Char(match letters.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        '0' => '\0',
        '\n' => return Some(Escape::Nothing),
        letter @ ('\\' | '\'' | '"' | '/') => letter,
        'x' => hex(letters, 2)?,
        'u' => hex(letters, 4)?,
        'U' => hex(letters, 8)?,
        other => return Some(Escape::Unknown(other)),
    }))
}

fn hex(letters: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let mut code = 0_u32;
    for _ in 0..digits {
        code = code.checked_mul(16)? + letters.next()?.to_digit(16)?;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_python_are_read() {
        for (text, json) in [
            ("{'lang': 'de', 'max': 3, 'strict': True}", r#"{"lang": "de", "max": 3, "strict": true}"#),
            ("[1, 2.5, None, 'it\\'s', \"q\\x41\", (1,), ()]", r#"[1, 2.5, null, "it's", "qA", [1], []]"#),
            ("{ }", "{}"),
            ("{'a': {'b': [],},}", r#"{"a": {"b": []}}"#),
            ("{1: 'x', 'a': -1e3}", r#"{"1": "x", "a": -1000.0}"#),
            ("{'k': 'a\\nb\\d'}", r#"{"k": "a\nb\\d"}"#),
            ("{'a': 1, 'a': 2}", r#"{"a": 2}"#),
            ("[+5, 1_000, 5., .5]", "[5, 1000, 5.0, 0.5]"),
            ("{'mixed': true, \"x\": null}", r#"{"mixed": true, "x": null}"#),
        ] {
            assert_eq!(
                parse_literal(text).map(|value| value.to_python_json()).as_deref(),
                Some(json),
                "{text}"
            );
        }
    }

    #[test]
    fn anything_else_is_not() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "{",
            "{'a'}",
            "{'a': }",
            "[1 2]",
            "'open",
            "f(x)",
            "{'a': b}",
            "[1]]",
            "{[]: 1}",
            "'\\xZZ'",
            "nan",
            deep.as_str(),
        ] {
            assert_eq!(parse_literal(text), None, "{}", &text[..text.len().min(20)]);
        }
    }
}
