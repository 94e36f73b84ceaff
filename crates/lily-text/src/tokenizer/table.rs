//! What each id stands for.

use super::{TokenizerError, byte_level};
use crate::TokenId;

/// Ids beyond this are refused: no vocabulary is that large, and a table of them must not eat the memory.
const MAX_ID: u32 = 1 << 24;

/// The bytes of every token, in one block of memory.
#[derive(Debug)]
pub(super) struct TokenTable {
    bytes: Vec<u8>,
    /// Start and end in `bytes` of each id's token; start > end marks a hole.
    spans: Vec<(u32, u32)>,
    special: Vec<bool>,
}

const HOLE: (u32, u32) = (1, 0);

impl TokenTable {
    pub(super) fn new(
        tokenizer: &tokenizers::Tokenizer,
        added: impl Iterator<Item = (u32, bool)> + Clone,
    ) -> Result<Self, TokenizerError> {
        let vocabulary = tokenizer.get_vocab(true);
        for byte in 0..=255u8 {
            if !vocabulary.contains_key(byte_level::letter_of(byte).encode_utf8(&mut [0; 4]) as &str) {
                return Err(TokenizerError(format!(
                    "the vocabulary has no token for byte {byte:#04x}\nhint: only byte-level BPE tokenizers are supported"
                )));
            }
        }
        let largest = vocabulary.values().chain(added.clone().map(|(id, _)| id).collect::<Vec<_>>().iter()).copied().max();
        let largest = largest.unwrap_or(0);
        if largest > MAX_ID {
            return Err(TokenizerError(format!("token id {largest} is larger than {MAX_ID}")));
        }
        let size = largest as usize + 1;
        let mut table = TokenTable { bytes: Vec::new(), spans: vec![HOLE; size], special: vec![false; size] };
        for (spelling, id) in &vocabulary {
            let start = table.bytes.len();
            byte_level::push_bytes(spelling, &mut table.bytes);
            let span = (u32::try_from(start), u32::try_from(table.bytes.len()));
            let (Ok(start), Ok(end)) = span else {
                return Err(TokenizerError("the spellings of all tokens exceed 4 GiB".to_owned()));
            };
            table.spans[*id as usize] = (start, end);
        }
        for (id, special) in added {
            table.special[id as usize] = special;
        }
        Ok(table)
    }

    pub(super) fn bytes(&self, id: TokenId) -> Option<&[u8]> {
        let (start, end) = *self.spans.get(id.0 as usize)?;
        self.bytes.get(start as usize..end as usize)
    }

    pub(super) fn is_special(&self, id: TokenId) -> bool {
        self.special.get(id.0 as usize).copied().unwrap_or(false)
    }

    pub(super) fn size(&self) -> usize {
        self.spans.len()
    }
}
