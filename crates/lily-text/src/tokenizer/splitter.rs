//! Cuts text into the pieces within which BPE merges: the regular expression of Qwen's tokenizers, by hand.
//!
//! The expression needs a look-ahead, so a regex engine has to backtrack; on a long run of blanks the pure-Rust one
//! gives up after a million steps and the `tokenizers` crate then takes the rest of the text for one piece, in silence.
//! This is the same cut in one pass. A tokenizer with another expression is refused.

use std::sync::LazyLock;

use super::TokenizerError;
use super::file::unsupported;

/// Qwen3.5 and 3.6: a word is letters and marks.
const WORDS_WITH_MARKS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen2 to 3: a word is letters.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The rule by which a tokenizer cuts text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Splitter {
    /// Marks belong to words.
    marks: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Mark,
    Number,
    Newline,
    Blank,
    Other,
}

/// General category of every code point, as far as the expression asks: built once, 1.1 MB.
static CLASSES: LazyLock<Box<[Class]>> = LazyLock::new(|| {
    let mut classes = vec![Class::Other; 0x11_0000].into_boxed_slice();
    for (pattern, class) in [(r"\p{L}", Class::Letter), (r"\p{M}", Class::Mark), (r"\p{N}", Class::Number)] {
        let parsed = regex_syntax::Parser::new().parse(pattern).map(regex_syntax::hir::Hir::into_kind);
        if let Ok(regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(ranges))) = parsed {
            for range in ranges.iter() {
                classes[range.start() as usize..=range.end() as usize].fill(class);
            }
        }
    }
    for letter in (0..0x3001).filter_map(char::from_u32).filter(|letter| letter.is_whitespace()) {
        classes[letter as usize] = if matches!(letter, '\r' | '\n') { Class::Newline } else { Class::Blank };
    }
    classes
});

impl Splitter {
    /// The rule that `pre_tokenizer` of `tokenizer.json` asks for.
    pub(super) fn new(pre_tokenizer: &serde_json::Value) -> Result<Self, TokenizerError> {
        let text =
            |value: Option<&serde_json::Value>| value.and_then(|value| value.as_str()).map(str::to_owned);
        let steps = pre_tokenizer.get("pretokenizers").and_then(|steps| steps.as_array());
        let [split, bytes] = steps.map(Vec::as_slice).unwrap_or_default() else {
            return Err(unsupported("its pre_tokenizer is not a Split followed by ByteLevel"));
        };
        let flag =
            |step: &serde_json::Value, name| step.get(name).and_then(|flag| flag.as_bool()).unwrap_or(false);
        let known = text(split.get("type")).as_deref() == Some("Split")
            && text(split.get("behavior")).as_deref() == Some("Isolated")
            && !flag(split, "invert")
            && text(bytes.get("type")).as_deref() == Some("ByteLevel")
            && !flag(bytes, "add_prefix_space")
            && bytes.get("use_regex").and_then(|flag| flag.as_bool()) == Some(false);
        if !known {
            return Err(unsupported(
                "its pre_tokenizer is not an isolating Split followed by a bare ByteLevel",
            ));
        }
        match text(split.get("pattern").and_then(|pattern| pattern.get("Regex"))).as_deref() {
            Some(WORDS_WITH_MARKS) => Ok(Splitter { marks: true }),
            Some(WORDS) => Ok(Splitter { marks: false }),
            other => {
                Err(unsupported(format!("its pre_tokenizer splits by {:?}", other.unwrap_or("no regex"))))
            }
        }
    }

    /// The pieces of a text, in order; joined they are the text.
    pub(super) fn pieces(self, text: &str) -> Pieces<'_> {
        Pieces { splitter: self, rest: text, classes: &CLASSES }
    }

    fn is_word(self, class: Class) -> bool {
        class == Class::Letter || (self.marks && class == Class::Mark)
    }

    fn is_other(self, class: Class) -> bool {
        class == Class::Other || (!self.marks && class == Class::Mark)
    }
}

/// Iterator over the pieces of a text.
pub(super) struct Pieces<'a> {
    splitter: Splitter,
    rest: &'a str,
    classes: &'static [Class],
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let first = self.rest.chars().next()?;
        let length = self.first_piece(first);
        let (piece, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(piece)
    }
}

impl Pieces<'_> {
    fn class(&self, letter: char) -> Class {
        self.classes[letter as usize]
    }

    /// Bytes from `from` on whose characters satisfy `test`.
    fn run(&self, from: usize, test: impl Fn(Class) -> bool) -> usize {
        let rest = &self.rest[from..];
        rest.char_indices().find(|(_, letter)| !test(self.class(*letter))).map_or(rest.len(), |(at, _)| at)
    }

    /// Length in bytes of the first piece; the branches are those of the expression, in its order.
    fn first_piece(&self, first: char) -> usize {
        if first == '\''
            && let Some(length) = contraction(self.rest)
        {
            return length;
        }
        let splitter = self.splitter;
        let class = self.class(first);
        let after_first = first.len_utf8();
        let second = self.rest[after_first..].chars().next().map(|letter| self.class(letter));
        // A word, with one character before it that is no letter, number or newline.
        let prefixes = !matches!(class, Class::Letter | Class::Number | Class::Newline);
        if prefixes && second.is_some_and(|second| splitter.is_word(second)) {
            return after_first + self.run(after_first, |class| splitter.is_word(class));
        }
        if splitter.is_word(class) {
            return self.run(0, |class| splitter.is_word(class));
        }
        if class == Class::Number {
            return after_first;
        }
        // Punctuation, with one blank before and newlines after it.
        let start = if first == ' ' { 1 } else { 0 };
        let others = self.run(start, |class| splitter.is_other(class));
        if others > 0 {
            let end = start + others;
            return end + self.run(end, |class| class == Class::Newline);
        }
        // White space: up to its last newline; else all of it at the end of the text; else all but the last blank, which
        // belongs to what follows.
        let blanks = self.run(0, |class| matches!(class, Class::Blank | Class::Newline));
        let space = &self.rest[..blanks];
        if let Some(newline) = space.rfind(['\r', '\n']) {
            return newline + 1;
        }
        let last = space.chars().next_back().map_or(0, char::len_utf8);
        if blanks == self.rest.len() || blanks == last { blanks } else { blanks - last }
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)`; without case, `s` is also the long s.
fn contraction(text: &str) -> Option<usize> {
    let mut letters = text.chars().skip(1);
    let first = letters.next()?;
    let two =
        |second: char| letters.clone().next().is_some_and(|letter| letter.to_ascii_lowercase() == second);
    match first.to_ascii_lowercase() {
        's' | 't' | 'm' | 'd' => Some(2),
        'ſ' => Some(1 + 'ſ'.len_utf8()),
        'r' | 'v' if two('e') => Some(3),
        'l' if two('l') => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    static REGEXES: LazyLock<[(bool, fancy_regex::Regex); 2]> = LazyLock::new(|| {
        [(true, WORDS_WITH_MARKS), (false, WORDS)].map(|(marks, pattern)| (marks, pattern.parse().unwrap()))
    });

    fn by_regex(regex: &fancy_regex::Regex, text: &str) -> Vec<String> {
        regex.find_iter(text).map(|found| found.unwrap().as_str().to_owned()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn pieces_are_those_of_the_expression(text in "([ -~]|[ \t\r\n]|'[sStTmMdDrRvVlL]|\\PC|\\p{M}|\\p{N}|\\p{Z}|[ſ\u{85}\u{1c}\u{200d}]| {1,4}|\r?\n){0,30}") {
            for (marks, regex) in REGEXES.iter() {
                let pieces: Vec<&str> = Splitter { marks: *marks }.pieces(&text).collect();
                prop_assert_eq!(&pieces, &by_regex(regex, &text));
                prop_assert_eq!(pieces.concat(), text.clone());
            }
        }
    }

    #[test]
    fn every_character_has_the_class_that_the_expression_sees() {
        for class in [r"\p{L}", r"\p{M}", r"\p{N}", r"\s", r"[\r\n]"] {
            let regex = fancy_regex::Regex::new(class).unwrap();
            for letter in (0..=0x10_FFFF).filter_map(char::from_u32) {
                let expected = regex.is_match(letter.encode_utf8(&mut [0; 4])).unwrap();
                let ours = match (class, CLASSES[letter as usize]) {
                    (r"\p{L}", class) => class == Class::Letter,
                    (r"\p{M}", class) => class == Class::Mark,
                    (r"\p{N}", class) => class == Class::Number,
                    (r"\s", class) => matches!(class, Class::Blank | Class::Newline),
                    (_, class) => class == Class::Newline,
                };
                assert_eq!(ours, expected, "{class} {letter:?}");
            }
        }
    }

    #[test]
    fn another_expression_is_refused() {
        let json = serde_json::json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"\w+"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
        ]});
        let error = Splitter::new(&json).unwrap_err().to_string();
        assert!(error.contains(r"\\w+") && error.contains("hint:"), "{error}");
        assert!(Splitter::new(&serde_json::Value::Null).is_err());
    }
}
