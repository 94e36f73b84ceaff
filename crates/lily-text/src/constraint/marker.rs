//! A text that ends a stretch of free text, however it is cut into tokens.

use crate::{TokenId, Tokenizer};

/// A marker (`</think>`), and how each token moves on the way to it.
pub(super) struct Marker {
    bytes: Vec<u8>,
    /// For each number of the marker's bytes matched at the end of a text: the tokens that would complete it and go on.
    /// They are forbidden there, so that what follows the marker begins with a token.
    spilling: Vec<Vec<TokenId>>,
}

/// What a token does to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The text's end matches this many bytes of the marker.
    Matched(usize),
    /// The text ends with the marker.
    Complete,
}

impl Marker {
    pub(super) fn new(text: &str, tokenizer: &Tokenizer) -> Self {
        let bytes = text.as_bytes().to_vec();
        let mut marker = Self { spilling: vec![Vec::new(); bytes.len()], bytes };
        let Some(&last) = marker.bytes.last() else { return marker };
        for id in (0..tokenizer.size()).map(|id| TokenId(id as u32)) {
            let token = tokenizer.token_bytes(id).unwrap_or_default();
            if tokenizer.is_special(id) || !token.contains(&last) {
                continue;
            }
            for matched in 0..marker.bytes.len() {
                if marker.completed_at(matched, token).is_some_and(|end| end < token.len()) {
                    marker.spilling[matched].push(id);
                }
            }
        }
        marker
    }

    /// Tokens that would go on behind the marker.
    pub(super) fn spilling(&self, matched: usize) -> &[TokenId] {
        self.spilling.get(matched).map_or(&[], Vec::as_slice)
    }

    /// What more text does to a text whose end matches `matched` bytes.
    pub(super) fn step(&self, mut matched: usize, text: &[u8]) -> Step {
        for byte in text {
            matched = self.next(matched, *byte);
            if matched == self.bytes.len() {
                return Step::Complete;
            }
        }
        Step::Matched(matched)
    }

    /// The byte of `text` behind which the marker is complete.
    fn completed_at(&self, mut matched: usize, text: &[u8]) -> Option<usize> {
        for (at, byte) in text.iter().enumerate() {
            matched = self.next(matched, *byte);
            if matched == self.bytes.len() {
                return Some(at + 1);
            }
        }
        None
    }

    /// The longest beginning of the marker that ends the text.
    fn next(&self, matched: usize, byte: u8) -> usize {
        let text = [&self.bytes[..matched], &[byte]].concat();
        (0..=text.len())
            .rev()
            .find(|length| self.bytes.starts_with(&text[text.len() - length..]))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(text: &str) -> Marker {
        Marker { bytes: text.as_bytes().to_vec(), spilling: Vec::new() }
    }

    #[test]
    fn markers_are_found_across_pieces() {
        let marker = marker("</think>");
        assert_eq!(marker.step(0, b"a </thi"), Step::Matched(5));
        assert_eq!(marker.step(5, b"nk>"), Step::Complete);
        assert_eq!(marker.step(5, b"s is <"), Step::Matched(1));
        assert_eq!(marker.step(2, b"/</think"), Step::Matched(7));
        assert_eq!(marker.completed_at(7, b">\n\n"), Some(1));
    }

    #[test]
    fn a_beginning_within_a_beginning_counts() {
        let marker = marker("aab");
        assert_eq!(marker.step(0, b"aaa"), Step::Matched(2));
        assert_eq!(marker.step(2, b"b"), Step::Complete);
    }
}
