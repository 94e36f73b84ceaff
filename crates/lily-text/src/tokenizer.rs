//! `tokenizer.json`: text to ids and back.

use crate::{Prompt, TokenId};

/// Why a tokenizer was refused.
#[derive(Debug, thiserror::Error)]
#[error("tokenizer.json: {0}")]
pub struct TokenizerError(pub String);

/// A tokenizer; cheap to clone.
#[derive(Debug, Clone)]
pub struct Tokenizer {}

impl Tokenizer {
    /// From the bytes of `tokenizer.json`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let _ = json;
        unreachable!("skeleton")
    }

    /// Ids of a text in which every added token's spelling is that token (as Hugging Face encodes).
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        let _ = text;
        unreachable!("skeleton")
    }

    /// Ids of a text in which spellings of tokens with `special: true` are plain text.
    pub fn encode_plain(&self, text: &str) -> Vec<TokenId> {
        let _ = text;
        unreachable!("skeleton")
    }

    /// Ids of a rendered prompt.
    pub fn encode_prompt(&self, prompt: &Prompt) -> Vec<TokenId> {
        let _ = prompt;
        unreachable!("skeleton")
    }

    /// Text of ids; with `skip_special`, tokens with `special: true` give none. Broken UTF-8 becomes U+FFFD.
    pub fn decode(&self, ids: &[TokenId], skip_special: bool) -> String {
        let _ = (ids, skip_special);
        unreachable!("skeleton")
    }

    /// The bytes that a token stands for; `None` for an id without a token.
    pub fn token_bytes(&self, id: TokenId) -> Option<&[u8]> {
        let _ = id;
        unreachable!("skeleton")
    }

    /// The id of a token by its spelling (`<|im_end|>`).
    pub fn token_id(&self, spelling: &str) -> Option<TokenId> {
        let _ = spelling;
        unreachable!("skeleton")
    }

    /// True for tokens with `special: true`.
    pub fn is_special(&self, id: TokenId) -> bool {
        let _ = id;
        unreachable!("skeleton")
    }

    /// One more than the largest id that has a token.
    pub fn size(&self) -> usize {
        unreachable!("skeleton")
    }

    /// True if `id` has a token (there can be holes, and rows of the embedding past the end).
    pub fn has_token(&self, id: TokenId) -> bool {
        let _ = id;
        unreachable!("skeleton")
    }

    /// A fresh incremental decoder.
    pub fn detokenizer(&self, skip_special: bool) -> Detokenizer {
        let _ = skip_special;
        unreachable!("skeleton")
    }
}

/// Turns a stream of ids into a stream of text. A character split over tokens is held back, nothing else is; the
/// concatenation of everything returned equals decoding all ids at once.
#[derive(Debug, Clone)]
pub struct Detokenizer {}

impl Detokenizer {
    /// The text that becomes certain with this id (may be empty).
    pub fn push(&mut self, id: TokenId) -> String {
        let _ = id;
        unreachable!("skeleton")
    }

    /// What was held back, with broken UTF-8 as U+FFFD.
    pub fn finish(&mut self) -> String {
        unreachable!("skeleton")
    }
}
