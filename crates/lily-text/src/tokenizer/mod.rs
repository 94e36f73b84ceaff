//! `tokenizer.json`: text to ids and back.

mod byte_level;
mod detokenizer;
mod file;
mod splitter;
mod table;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::models::bpe::BPE;
use tokenizers::{Model, NormalizedString, Normalizer, NormalizerWrapper};

pub use self::detokenizer::{Detokenizer, Utf8Decoder};
use self::file::{Merge, TokenizerFile};
use self::splitter::Splitter;
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
    normalizer: Option<NormalizerWrapper>,
    splitter: Splitter,
    model: BPE,
    /// Finds the spellings of added tokens; a pattern's index is that of its id in `added_ids`.
    added: AhoCorasick,
    added_ids: Vec<TokenId>,
    added_by_spelling: HashMap<String, TokenId>,
    table: TokenTable,
}

impl Tokenizer {
    /// From the bytes of `tokenizer.json`.
    ///
    /// # Errors
    /// What is wrong with the file, or what it asks for that is not supported.
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let file = TokenizerFile::parse(json)?;
        let splitter = Splitter::new(&file.pre_tokenizer)?;
        let table = TokenTable::new(&file)?;
        let added = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(file.added_tokens.iter().map(|token| token.content.as_str()))
            .map_err(|error| TokenizerError(error.to_string()))?;
        let added_ids = file.added_tokens.iter().map(|token| TokenId(token.id)).collect();
        let added_by_spelling =
            file.added_tokens.into_iter().map(|token| (token.content, TokenId(token.id))).collect();
        let merges = file.model.merges.into_iter().map(|Merge(left, right)| (left, right)).collect();
        let model = BPE::builder()
            .vocab_and_merges(file.model.vocab, merges)
            .ignore_merges(file.model.ignore_merges)
            .build()
            .map_err(|error| TokenizerError(error.to_string()))?;
        let normalizer = file.normalizer;
        Ok(Tokenizer {
            inner: Arc::new(Inner {
                normalizer,
                splitter,
                model,
                added,
                added_ids,
                added_by_spelling,
                table,
            }),
        })
    }

    /// Ids of a text in which every added token's spelling is that token (as Hugging Face encodes).
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        let mut ids = Vec::new();
        self.push_text(text, true, &mut ids);
        ids
    }

    /// Ids of a text in which spellings of tokens with `special: true` are plain text.
    pub fn encode_plain(&self, text: &str) -> Vec<TokenId> {
        let mut ids = Vec::new();
        self.push_text(text, false, &mut ids);
        ids
    }

    /// Ids of a rendered prompt: control tokens are exactly those that the template itself wrote. When no text of the
    /// request spells a special token, these are the ids that [`Tokenizer::encode`] gives for the whole text.
    pub fn encode_prompt(&self, prompt: &Prompt) -> Vec<TokenId> {
        let mut ids = Vec::new();
        let mut from = 0;
        for span in &prompt.control {
            // A spelling that is no special token of this vocabulary is text like any other.
            let id = self.token_id(&prompt.text[span.clone()]).filter(|id| self.is_special(*id));
            if let Some(id) = id {
                self.push_text(&prompt.text[from..span.start], false, &mut ids);
                ids.push(id);
                from = span.end;
            }
        }
        self.push_text(&prompt.text[from..], false, &mut ids);
        ids
    }

    fn push_text(&self, text: &str, special: bool, ids: &mut Vec<TokenId>) {
        let mut from = 0;
        for found in self.inner.added.find_iter(text) {
            let id = self.inner.added_ids[found.pattern()];
            if special || !self.is_special(id) {
                self.push_ordinary(&text[from..found.start()], ids);
                ids.push(id);
                from = found.end();
            }
        }
        self.push_ordinary(&text[from..], ids);
    }

    /// Ids of a text in which nothing is an added token, to the letter: it is not normalised.
    pub(crate) fn encode_exact(&self, text: &str) -> Vec<TokenId> {
        let mut ids = Vec::new();
        self.push_pieces(text, &mut ids);
        ids
    }

    /// The tokens that are not made by merges: control tokens and markup.
    pub(crate) fn added_tokens(&self) -> &[TokenId] {
        &self.inner.added_ids
    }

    /// Ids of a text in which nothing is an added token.
    fn push_ordinary(&self, text: &str, ids: &mut Vec<TokenId>) {
        self.push_pieces(&self.normalize(text), ids);
    }

    fn push_pieces(&self, text: &str, ids: &mut Vec<TokenId>) {
        let mut spelling = String::new();
        for piece in self.inner.splitter.pieces(text) {
            spelling.clear();
            spelling.extend(piece.bytes().map(byte_level::letter_of));
            // Every byte has a token (`TokenTable` checks that), so nothing can be unknown.
            match self.inner.model.tokenize(&spelling) {
                Ok(tokens) => ids.extend(tokens.into_iter().map(|token| TokenId(token.id))),
                Err(error) => tracing::error!(%error, "a text could not be encoded"),
            }
        }
    }

    fn normalize<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.inner.normalizer {
            // The composed form of ASCII is itself.
            Some(NormalizerWrapper::NFC(_)) if text.is_ascii() => Cow::Borrowed(text),
            None => Cow::Borrowed(text),
            Some(normalizer) => {
                let mut normalized = NormalizedString::from(text);
                match normalizer.normalize(&mut normalized) {
                    Ok(()) => Cow::Owned(normalized.get().to_owned()),
                    Err(error) => {
                        tracing::error!(%error, "a text could not be normalised");
                        Cow::Borrowed(text)
                    }
                }
            }
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
        let added = self.inner.added_by_spelling.get(spelling).copied();
        added.or_else(|| self.inner.model.token_to_id(spelling).map(TokenId))
    }

    /// The ids that `tokenizer_config.json` says end a text (`eos_token`), for the union with those of
    /// `generation_config.json` and `config.json`.
    ///
    /// # Errors
    /// The file is not JSON, or names a token that the vocabulary lacks.
    pub fn eos_ids(&self, tokenizer_config_json: Option<&[u8]>) -> Result<Vec<TokenId>, TokenizerError> {
        let broken = |what: String| TokenizerError(format!("(tokenizer_config.json) {what}"));
        let Some(json) = tokenizer_config_json else { return Ok(Vec::new()) };
        let config: serde_json::Value =
            serde_json::from_slice(json).map_err(|error| broken(error.to_string()))?;
        // Older files wrap the spelling: {"content": "<|im_end|>", ...}.
        let spelling = config.get("eos_token").map(|token| token.get("content").unwrap_or(token));
        match spelling {
            None | Some(serde_json::Value::Null) => Ok(Vec::new()),
            Some(serde_json::Value::String(spelling)) => match self.token_id(spelling) {
                Some(id) => Ok(vec![id]),
                None => Err(broken(format!("eos_token {spelling:?} is not in the vocabulary"))),
            },
            Some(_) => Err(broken("eos_token is not a string".to_owned())),
        }
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
