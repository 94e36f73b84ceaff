//! `tokenizer.json`: text to ids and back.

mod byte_level;
mod detokenizer;
mod table;

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::DecoderWrapper;

pub use self::detokenizer::{Detokenizer, Utf8Decoder};
use self::table::TokenTable;
use crate::{Prompt, TokenId};

/// Why a tokenizer was refused.
#[derive(Debug, thiserror::Error)]
#[error("tokenizer.json: {0}")]
pub struct TokenizerError(pub String);

/// A tokenizer; cheap to clone.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Reads every spelling of a token with `special: true` as plain text; those of other added tokens are tokens.
    plain: tokenizers::Tokenizer,
    /// Finds the spellings of added tokens; a pattern's index is that of its id in `added_ids`.
    added: AhoCorasick,
    added_ids: Vec<TokenId>,
    table: TokenTable,
}

impl Tokenizer {
    /// From the bytes of `tokenizer.json`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let mut plain = tokenizers::Tokenizer::from_bytes(json).map_err(|error| TokenizerError(error.to_string()))?;
        if !matches!(plain.get_decoder(), Some(DecoderWrapper::ByteLevel(_))) {
            return Err(TokenizerError(
                "its decoder is not ByteLevel\nhint: only byte-level BPE tokenizers, such as Qwen's, are supported"
                    .to_owned(),
            ));
        }
        plain.set_encode_special_tokens(true);
        // Padding and truncation are a caller's choice, never the file's.
        plain.with_padding(None);
        plain.with_truncation(None).map_err(|error| TokenizerError(error.to_string()))?;

        let mut added: Vec<_> = plain.get_added_tokens_decoder().into_iter().collect();
        added.sort_by_key(|(id, _)| *id);
        for (id, token) in &added {
            if token.special && (token.single_word || token.lstrip || token.rstrip) {
                return Err(TokenizerError(format!(
                    "special token {id} ({:?}) sets single_word, lstrip or rstrip, which Lily does not support",
                    token.content
                )));
            }
            if token.content.is_empty() {
                return Err(TokenizerError(format!("added token {id} is empty")));
            }
        }
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(added.iter().map(|(_, token)| token.content.as_str()))
            .map_err(|error| TokenizerError(error.to_string()))?;
        let table = TokenTable::new(&plain, added.iter().map(|(id, token)| (*id, token.special)))?;
        let added_ids = added.iter().map(|(id, _)| TokenId(*id)).collect();
        Ok(Tokenizer { inner: Arc::new(Inner { plain, added: matcher, added_ids, table }) })
    }

    /// Ids of a text in which every added token's spelling is that token (as Hugging Face encodes).
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        let mut ids = Vec::new();
        let mut plain_from = 0;
        for found in self.inner.added.find_iter(text) {
            let id = self.inner.added_ids[found.pattern()];
            if self.is_special(id) {
                self.push_plain(&text[plain_from..found.start()], &mut ids);
                ids.push(id);
                plain_from = found.end();
            }
        }
        self.push_plain(&text[plain_from..], &mut ids);
        ids
    }

    /// Ids of a text in which spellings of tokens with `special: true` are plain text.
    pub fn encode_plain(&self, text: &str) -> Vec<TokenId> {
        let mut ids = Vec::new();
        self.push_plain(text, &mut ids);
        ids
    }

    /// Ids of a rendered prompt: control tokens are exactly those that the template itself wrote. When no text of the
    /// request spells a special token, these are the ids that [`Tokenizer::encode`] gives for the whole text.
    pub fn encode_prompt(&self, prompt: &Prompt) -> Vec<TokenId> {
        let mut ids = Vec::new();
        let mut plain_from = 0;
        for span in &prompt.control {
            let spelling = &prompt.text[span.clone()];
            // A spelling that is no special token of this vocabulary is text like any other.
            if let Some(id) = self.token_id(spelling).filter(|id| self.is_special(*id)) {
                self.push_plain(&prompt.text[plain_from..span.start], &mut ids);
                ids.push(id);
                plain_from = span.end;
            }
        }
        self.push_plain(&prompt.text[plain_from..], &mut ids);
        ids
    }

    fn push_plain(&self, text: &str, ids: &mut Vec<TokenId>) {
        if text.is_empty() {
            return;
        }
        // Byte-level BPE has a token for every byte, so encoding cannot fail; `from_json` has checked that.
        match self.inner.plain.encode_fast(text, false) {
            Ok(encoding) => ids.extend(encoding.get_ids().iter().map(|id| TokenId(*id))),
            Err(error) => tracing::error!(%error, "a text could not be encoded"),
        }
    }

    /// Text of ids; with `skip_special`, tokens with `special: true` give none. Broken UTF-8 becomes U+FFFD, and ids
    /// without a token give nothing.
    pub fn decode(&self, ids: &[TokenId], skip_special: bool) -> String {
        let mut bytes = Vec::new();
        for id in ids {
            if !(skip_special && self.is_special(*id)) {
                bytes.extend_from_slice(self.token_bytes(*id).unwrap_or_default());
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes that a token stands for; `None` for an id without a token.
    pub fn token_bytes(&self, id: TokenId) -> Option<&[u8]> {
        self.inner.table.bytes(id)
    }

    /// The id of a token by its spelling (`<|im_end|>`).
    pub fn token_id(&self, spelling: &str) -> Option<TokenId> {
        self.inner.plain.token_to_id(spelling).map(TokenId)
    }

    /// True for tokens with `special: true`.
    pub fn is_special(&self, id: TokenId) -> bool {
        self.inner.table.is_special(id)
    }

    /// One more than the largest id that has a token.
    pub fn size(&self) -> usize {
        self.inner.table.size()
    }

    /// True if `id` has a token (there can be holes, and rows of the embedding past the end).
    pub fn has_token(&self, id: TokenId) -> bool {
        self.inner.table.bytes(id).is_some()
    }

    /// A fresh incremental decoder.
    pub fn detokenizer(&self, skip_special: bool) -> Detokenizer {
        Detokenizer::new(self.clone(), skip_special)
    }
}
