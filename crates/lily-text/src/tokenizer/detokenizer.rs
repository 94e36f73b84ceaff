//! A stream of ids to a stream of text.

use super::Tokenizer;
use crate::TokenId;

/// Turns a stream of ids into a stream of text. A character split over tokens is held back, nothing else is; the
/// concatenation of everything returned equals decoding all ids at once.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    skip_special: bool,
    decoder: Utf8Decoder,
}

impl Detokenizer {
    pub(super) fn new(tokenizer: Tokenizer, skip_special: bool) -> Self {
        Detokenizer { tokenizer, skip_special, decoder: Utf8Decoder::default() }
    }

    /// The text that becomes certain with this id (may be empty).
    pub fn push(&mut self, id: TokenId) -> String {
        if self.skip_special && self.tokenizer.is_special(id) {
            return String::new();
        }
        self.decoder.push(self.tokenizer.token_bytes(id).unwrap_or_default())
    }

    /// What was held back, with broken UTF-8 as U+FFFD.
    pub fn finish(&mut self) -> String {
        self.decoder.finish()
    }
}

/// Decodes UTF-8 that arrives in pieces, exactly as `String::from_utf8_lossy` decodes the whole: each maximal broken
/// part becomes one U+FFFD, at once when it is known to be broken.
#[derive(Debug, Clone, Default)]
pub struct Utf8Decoder {
    /// The beginning of a character, at most three bytes.
    held: Vec<u8>,
}

impl Utf8Decoder {
    /// The text that becomes certain with these bytes.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let mut pending = std::mem::take(&mut self.held);
        pending.extend_from_slice(bytes);
        let mut out = String::new();
        let mut rest = pending.as_slice();
        while !rest.is_empty() {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    break;
                }
                Err(error) => error,
            };
            let (valid, broken) = rest.split_at(error.valid_up_to());
            out.push_str(&String::from_utf8_lossy(valid));
            let Some(length) = error.error_len() else {
                self.held = broken.to_vec();
                break;
            };
            out.push(char::REPLACEMENT_CHARACTER);
            rest = &broken[length..];
        }
        out
    }

    /// What was held back, as U+FFFD.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}
