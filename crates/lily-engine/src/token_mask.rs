//! A set of tokens, one bit per row of the logits.

use crate::TokenId;

/// Which tokens may be chosen: bit `id % 32` of word `id / 32`, the layout that grammar engines and device kernels use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
    len: usize,
}

impl TokenMask {
    /// A mask over `len` rows that allows nothing.
    #[must_use]
    pub fn none(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(32)], len }
    }

    /// A mask over `len` rows that allows everything.
    #[must_use]
    pub fn all(len: usize) -> Self {
        let mut mask = Self::none(len);
        mask.allow_all();
        mask
    }

    /// Rows covered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it covers no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allows every row.
    pub fn allow_all(&mut self) {
        self.words.fill(u32::MAX);
    }

    /// Allows no row.
    pub fn allow_none(&mut self) {
        self.words.fill(0);
    }

    /// Allows one token; an id past the end is ignored.
    pub fn allow(&mut self, id: TokenId) {
        let index = id.0 as usize;
        if index < self.len {
            self.words[index / 32] |= 1 << (index % 32);
        }
    }

    /// Forbids one token; an id past the end is ignored.
    pub fn forbid(&mut self, id: TokenId) {
        let index = id.0 as usize;
        if index < self.len {
            self.words[index / 32] &= !(1 << (index % 32));
        }
    }

    /// True if the token is allowed; never for an id past the end.
    #[must_use]
    pub fn allows(&self, id: TokenId) -> bool {
        let index = id.0 as usize;
        index < self.len && self.words[index / 32] & (1 << (index % 32)) != 0
    }

    /// The words; bits past [`TokenMask::len`] have no meaning.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The words, to be filled in bulk; bits past [`TokenMask::len`] have no meaning.
    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }

    /// Sets the logits of forbidden tokens to minus infinity, and those of rows that the mask does not cover.
    pub fn apply(&self, logits: &mut [f32]) {
        for (chunk, &word) in logits.chunks_mut(32).zip(self.words.iter().chain(std::iter::repeat(&0))) {
            match word {
                u32::MAX => {}
                0 => chunk.fill(f32::NEG_INFINITY),
                _ => {
                    for (bit, logit) in chunk.iter_mut().enumerate() {
                        if word & (1 << bit) == 0 {
                            *logit = f32::NEG_INFINITY;
                        }
                    }
                }
            }
        }
        if let Some(past) = logits.get_mut(self.len..) {
            past.fill(f32::NEG_INFINITY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_borders() {
        let mut mask = TokenMask::none(40);
        for id in [0, 31, 32, 39, 40, 1000] {
            mask.allow(TokenId(id));
        }
        let allowed: Vec<u32> = (0..64).filter(|&id| mask.allows(TokenId(id))).collect();
        assert_eq!(allowed, [0, 31, 32, 39]);
        mask.forbid(TokenId(31));
        mask.forbid(TokenId(99));
        assert!(!mask.allows(TokenId(31)) && mask.allows(TokenId(32)));
    }

    #[test]
    fn applies_to_logits_shorter_and_longer_than_itself() {
        let mut mask = TokenMask::all(40);
        mask.forbid(TokenId(3));
        for len in [1, 32, 39, 40, 41, 100] {
            let mut logits = vec![1.0; len];
            mask.apply(&mut logits);
            for (id, &logit) in logits.iter().enumerate() {
                let allowed = id != 3 && id < 40;
                assert_eq!(logit == 1.0, allowed, "row {id} of {len}");
                assert_eq!(logit == f32::NEG_INFINITY, !allowed, "row {id} of {len}");
            }
        }
    }
}
