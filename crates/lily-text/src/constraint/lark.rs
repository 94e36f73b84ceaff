//! Writing a grammar in the words of `llguidance`'s dialect of Lark.

use crate::TokenId;
use crate::json::Value;
use std::fmt::Write;

/// A grammar that grows.
#[derive(Debug, Default)]
pub(super) struct Lark {
    text: String,
    names: usize,
}

impl Lark {
    /// Adds a rule and gives its name; `attributes` are like `[lazy]`.
    pub(super) fn rule(&mut self, attributes: &str, body: &str) -> String {
        let name = format!("r{}", self.names);
        self.define(&name, attributes, body);
        name
    }

    /// Adds a terminal (one regular expression, however it is written) and gives its name.
    pub(super) fn terminal(&mut self, body: &str) -> String {
        let name = format!("T{}", self.names);
        self.define(&name, "", body);
        name
    }

    fn define(&mut self, name: &str, attributes: &str, body: &str) {
        self.names += 1;
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{name}{attributes}: {body}");
    }

    /// The whole, with the rule that it begins with.
    pub(super) fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}", self.text)
    }
}

/// A text, to the letter.
pub(super) fn literal(text: &str) -> String {
    // The one control character that JSON does not escape.
    Value::from(text).to_python_json().replace('\u{7f}', "\\u007f")
}

/// A token, which is no text.
pub(super) fn token(id: TokenId) -> String {
    format!("<[{}]>", id.0)
}

/// A value of a JSON schema.
pub(super) fn json(schema: &serde_json::Value) -> String {
    format!("%json {schema}")
}

/// One of several; the first stands for itself.
pub(super) fn any_of(choices: &[String]) -> String {
    format!("({})", choices.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_escaped() {
        assert_eq!(literal("a\"\n\u{7f}/é"), r#""a\"\n\u007f/é""#);
    }
}
