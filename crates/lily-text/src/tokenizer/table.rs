//! What each id stands for.

use super::file::{TokenizerFile, unsupported};
use super::{TokenizerError, byte_level};
use crate::TokenId;

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
    pub(super) fn new(file: &TokenizerFile) -> Result<Self, TokenizerError> {
        let vocab = &file.model.vocab;
        for byte in 0..=255u8 {
            if !vocab.contains_key(byte_level::letter_of(byte).encode_utf8(&mut [0; 4]) as &str) {
                return Err(unsupported(format!("the vocabulary has no token for byte {byte:#04x}")));
            }
        }
        let added = file.added_tokens.iter().map(|token| (&token.content, &token.id));
        let largest = vocab.values().copied().chain(added.clone().map(|(_, id)| *id)).max().unwrap_or(0);
        let size = largest as usize + 1;
        let mut table = TokenTable { bytes: Vec::new(), spans: vec![HOLE; size], special: vec![false; size] };
        for (spelling, id) in vocab.iter().chain(added) {
            let start = table.bytes.len();
            byte_level::push_bytes(spelling, &mut table.bytes);
            let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(table.bytes.len())) else {
                return Err(TokenizerError("the spellings of all tokens exceed 4 GiB".to_owned()));
            };
            table.spans[*id as usize] = (start, end);
        }
        for token in file.added_tokens.iter().filter(|token| token.special) {
            table.special[token.id as usize] = true;
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
