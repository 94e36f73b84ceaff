//! A tokenizer as grammars see it.

use crate::{TokenId, Tokenizer};
use llguidance::toktrie::{INVALID_TOKEN, TokRxInfo, TokTrie, TokenizerEnv};

/// Tokens longer than this cannot be in the tree; no grammar allows them, which only means that their text is written
/// in shorter ones.
const MAX_TOKEN_BYTES: usize = 512;

/// The vocabulary as a prefix tree. Added tokens stand apart from text: they begin with a byte that no text has.
pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    trie: TokTrie,
}

impl Vocabulary {
    /// The tree of a tokenizer; `stop_ids` end an answer.
    pub(super) fn new(tokenizer: &Tokenizer, stop_ids: &[TokenId]) -> Self {
        let mut words: Vec<Vec<u8>> =
            (0..tokenizer.size()).map(|id| word(tokenizer, TokenId(id as u32))).collect();
        for id in tokenizer.added_tokens() {
            words[id.0 as usize].insert(0, TokTrie::SPECIAL_TOKEN_MARKER);
        }
        let stops: Vec<u32> = stop_ids.iter().filter(|id| tokenizer.has_token(**id)).map(|id| id.0).collect();
        let info = TokRxInfo::new(words.len() as u32, INVALID_TOKEN);
        let trie = TokTrie::from(&info, &words);
        let trie = if stops.is_empty() { trie } else { trie.with_eos_tokens(&stops) };
        Self { tokenizer: tokenizer.clone(), trie }
    }
}

/// The bytes of a token in the tree; none for an id without a token.
fn word(tokenizer: &Tokenizer, id: TokenId) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    if bytes.len() > MAX_TOKEN_BYTES { Vec::new() } else { bytes.to_vec() }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        // Forced bytes may end, or begin, within a character.
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            self.tokenizer.encode_exact(text).into_iter().map(|id| id.0).collect()
        })
    }
}
