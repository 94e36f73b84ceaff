//! What `tokenizer.json` holds, checked.
//!
//! The `tokenizers` crate could read the file itself, but it takes several times as long, panics on some broken files,
//! and its regular-expression splitter stops in silence when a run of blanks is too long (see [`super::splitter`]).

use std::collections::HashMap;
use std::fmt;

use ahash::AHashMap;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use tokenizers::NormalizerWrapper;

use super::TokenizerError;

/// Ids from here on are refused: no vocabulary is that large, and a table of them must not eat the memory.
const ID_LIMIT: u32 = 1 << 24;

#[derive(Deserialize)]
pub(super) struct TokenizerFile {
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
    #[serde(default)]
    pub(super) normalizer: Option<NormalizerWrapper>,
    #[serde(default)]
    pub(super) pre_tokenizer: serde_json::Value,
    #[serde(default)]
    decoder: serde_json::Value,
    pub(super) model: ModelFile,
}

#[derive(Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) special: bool,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

#[derive(Deserialize)]
pub(super) struct ModelFile {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    dropout: Option<f32>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    pub(super) ignore_merges: bool,
    pub(super) vocab: AHashMap<String, u32>,
    pub(super) merges: Vec<Merge>,
}

/// The two tokens that a merge joins: `["a", "b"]`, or `"a b"` in older files.
pub(super) struct Merge(pub(super) String, pub(super) String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergeVisitor;
        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge: two tokens")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Merge, E> {
                let (left, right) =
                    text.split_once(' ').ok_or_else(|| E::custom("a merge needs two tokens"))?;
                Ok(Merge(left.to_owned(), right.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Merge, A::Error> {
                let mut next =
                    || items.next_element()?.ok_or_else(|| A::Error::custom("a merge needs two tokens"));
                let merge = Merge(next()?, next()?);
                if items.next_element::<String>()?.is_some() {
                    return Err(A::Error::custom("a merge has two tokens"));
                }
                Ok(merge)
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}

impl TokenizerFile {
    pub(super) fn parse(json: &[u8]) -> Result<Self, TokenizerError> {
        let file: TokenizerFile =
            serde_json::from_slice(json).map_err(|error| TokenizerError(error.to_string()))?;
        file.model.check()?;
        if file.decoder.get("type").and_then(serde_json::Value::as_str) != Some("ByteLevel") {
            return Err(unsupported("its decoder is not ByteLevel"));
        }
        file.check_added()?;
        Ok(file)
    }

    fn check_added(&self) -> Result<(), TokenizerError> {
        let mut ids = HashMap::new();
        for token in &self.added_tokens {
            let name = format!("added token {} ({:?})", token.id, token.content);
            if token.single_word || token.lstrip || token.rstrip {
                return Err(unsupported(format!("{name} sets single_word, lstrip or rstrip")));
            }
            if token.content.is_empty() {
                return Err(TokenizerError(format!("{name} is empty")));
            }
            if token.id >= ID_LIMIT {
                return Err(TokenizerError(format!("{name} has an id beyond {ID_LIMIT}")));
            }
            if let Some(known) = self.model.vocab.get(&token.content).filter(|known| **known != token.id) {
                return Err(TokenizerError(format!("{name} is token {known} in the vocabulary")));
            }
            if let Some(other) = ids.insert(token.id, &token.content) {
                return Err(TokenizerError(format!("{name} has the id of {other:?}")));
            }
        }
        for (spelling, id) in &self.model.vocab {
            if ids.get(id).is_some_and(|added| *added != spelling) {
                return Err(TokenizerError(format!("token {id} is both {spelling:?} and an added token")));
            }
        }
        Ok(())
    }
}

impl ModelFile {
    fn check(&self) -> Result<(), TokenizerError> {
        if self.kind.as_deref().is_some_and(|kind| kind != "BPE") {
            return Err(unsupported(format!(
                "its model is {}, not BPE",
                self.kind.as_deref().unwrap_or_default()
            )));
        }
        let given = |affix: &Option<String>| affix.as_deref().is_some_and(|affix| !affix.is_empty());
        if self.byte_fallback || given(&self.continuing_subword_prefix) || given(&self.end_of_word_suffix) {
            return Err(unsupported("it is not byte-level (byte_fallback, prefix or suffix is set)"));
        }
        if self.dropout.is_some_and(|dropout| dropout != 0.0) {
            return Err(unsupported("it sets dropout"));
        }
        if let Some((spelling, id)) = self.vocab.iter().find(|(_, id)| **id >= ID_LIMIT) {
            return Err(TokenizerError(format!("token {spelling:?} has id {id}, beyond {ID_LIMIT}")));
        }
        let mut joined = String::new();
        for (rank, Merge(left, right)) in self.merges.iter().enumerate() {
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            if let Some(missing) =
                [left, right, &joined].into_iter().find(|token| !self.vocab.contains_key(*token))
            {
                return Err(TokenizerError(format!(
                    "merge {rank} ({left:?}, {right:?}): the vocabulary lacks {missing:?}"
                )));
            }
        }
        Ok(())
    }
}

pub(super) fn unsupported(what: impl fmt::Display) -> TokenizerError {
    TokenizerError(format!("{what}\nhint: only byte-level BPE tokenizers such as Qwen's are supported"))
}
