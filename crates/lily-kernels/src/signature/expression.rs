//! Whole-number expressions of constants: how many threads an entry point has.

use std::collections::HashMap;

/// Evaluates `+ - * / %` and parentheses over numbers, constants and macros without arguments.
pub(super) fn evaluate(
    text: &str,
    constant: &dyn Fn(&str) -> Option<i64>,
    macros: &HashMap<&str, &str>,
) -> Result<i64, String> {
    let mut reader = Reader { rest: text, constant, macros, depth: 0 };
    let value = reader.sum()?;
    match reader.rest.trim() {
        "" => Ok(value),
        rest => Err(format!("cannot read `{rest}`")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    constant: &'a dyn Fn(&str) -> Option<i64>,
    macros: &'a HashMap<&'a str, &'a str>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn next_is(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.product()?;
        loop {
            if self.next_is('+') {
                value = value.checked_add(self.product()?).ok_or("overflow")?;
            } else if self.next_is('-') {
                value = value.checked_sub(self.product()?).ok_or("overflow")?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.atom()?;
        loop {
            value = if self.next_is('*') {
                value.checked_mul(self.atom()?).ok_or("overflow")?
            } else if self.next_is('/') {
                value.checked_div(self.atom()?).ok_or("division by zero")?
            } else if self.next_is('%') {
                value.checked_rem(self.atom()?).ok_or("division by zero")?
            } else {
                return Ok(value);
            };
        }
    }

    fn atom(&mut self) -> Result<i64, String> {
        if self.next_is('(') {
            let value = self.sum()?;
            return if self.next_is(')') { Ok(value) } else { Err("a parenthesis stays open".to_owned()) };
        }
        let end =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if let Ok(number) = word.parse() {
            return Ok(number);
        }
        if let Some(value) = (self.constant)(word) {
            return Ok(value);
        }
        let text: &'a str = self.macros.get(word).copied().ok_or_else(|| format!("`{word}` has no value"))?;
        if self.depth == 16 {
            return Err(format!("`{word}` is defined by itself"));
        }
        let mut inner = Reader { rest: text, depth: self.depth + 1, ..*self };
        let value = inner.sum()?;
        match inner.rest.trim() {
            "" => Ok(value),
            rest => Err(format!("`{word}`: cannot read `{rest}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_errors() {
        let macros = HashMap::from([("THREADS", "(N + 1) * 32"), ("LOOP", "LOOP + 1"), ("CAST", "(uint)N")]);
        let value = |text: &str| evaluate(text, &|name| (name == "N").then_some(8), &macros);
        assert_eq!(value("N * 32"), Ok(256));
        assert_eq!(value("2 + 3 * 4 - 6 / 2 % 2"), Ok(13));
        assert_eq!(value("THREADS / 2"), Ok(144));
        assert_eq!(value("M"), Err("`M` has no value".to_owned()));
        assert_eq!(value("1 / 0"), Err("division by zero".to_owned()));
        assert!(value("LOOP").is_err() && value("CAST").is_err() && value("(1").is_err());
    }
}
