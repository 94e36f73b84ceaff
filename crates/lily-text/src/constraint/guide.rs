//! A guide: what a generation may say next.

use super::marker::{Marker, Step};
use super::reason::brief;
use crate::{TokenId, Tokenizer};
use llguidance::Matcher;
use std::collections::VecDeque;
use std::sync::Arc;

/// A guide could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GuideError(String);

/// Free text up to a marker.
#[derive(Clone)]
pub(super) struct Free {
    pub(super) marker: Arc<Marker>,
    /// Tokens that it must not hold.
    pub(super) forbidden: Arc<[TokenId]>,
}

/// Free text, and how much of its marker stands at its end.
#[derive(Clone)]
pub(super) struct Phase {
    free: Free,
    matched: usize,
}

impl Phase {
    pub(super) fn free(free: Free) -> Self {
        Self { free, matched: 0 }
    }
}

/// Which tokens may come next; one for each generation. A clone goes its own way from where it was made.
pub struct Guide {
    tokenizer: Tokenizer,
    stop_ids: Arc<[TokenId]>,
    /// What comes before the grammar.
    phases: VecDeque<Phase>,
    matcher: Matcher,
    stopped: bool,
}

impl Clone for Guide {
    fn clone(&self) -> Self {
        Self {
            tokenizer: self.tokenizer.clone(),
            stop_ids: Arc::clone(&self.stop_ids),
            phases: self.phases.clone(),
            matcher: self.matcher.deep_clone(),
            stopped: self.stopped,
        }
    }
}

impl std::fmt::Debug for Guide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guide").field("phases", &self.phases.len()).field("stopped", &self.stopped).finish()
    }
}

impl Guide {
    pub(super) fn new(
        tokenizer: Tokenizer,
        stop_ids: Arc<[TokenId]>,
        phases: impl Iterator<Item = Phase>,
        matcher: Matcher,
    ) -> Self {
        Self { tokenizer, stop_ids, phases: phases.collect(), matcher, stopped: false }
    }

    /// Clears the bits of tokens that may not come next: bit `id % 32` of word `id / 32`. All bits are set before.
    ///
    /// # Errors
    /// The grammar became too complex.
    pub fn mask(&mut self, words: &mut [u32]) -> Result<(), GuideError> {
        if let Some(phase) = self.phases.front() {
            for id in phase.free.forbidden.iter().chain(phase.free.marker.spilling(phase.matched)) {
                if let Some(word) = words.get_mut(id.0 as usize / 32) {
                    *word &= !(1 << (id.0 % 32));
                }
            }
            return Ok(());
        }
        let allowed = self.matcher.compute_mask_or_eos().map_err(fault)?;
        let allowed = allowed.as_slice().iter().copied().chain(std::iter::repeat(0));
        words.iter_mut().zip(allowed).for_each(|(word, allowed)| *word = allowed);
        Ok(())
    }

    /// Takes note of a token.
    ///
    /// # Errors
    /// It is not one that may come next.
    pub fn accept(&mut self, id: TokenId) -> Result<(), GuideError> {
        let Some(phase) = self.phases.front_mut() else {
            self.matcher.consume_token(id.0).map_err(fault)?;
            self.stopped = self.matcher.is_stopped();
            return Ok(());
        };
        if self.stop_ids.contains(&id) {
            self.stopped = true;
            return Ok(());
        }
        // Control tokens have no text.
        let text = match self.tokenizer.is_special(id) {
            true => &[],
            false => self.tokenizer.token_bytes(id).unwrap_or_default(),
        };
        match phase.free.marker.step(phase.matched, text) {
            Step::Matched(matched) => phase.matched = matched,
            Step::Complete => drop(self.phases.pop_front()),
        }
        Ok(())
    }

    /// True when nothing can follow.
    pub fn is_complete(&self) -> bool {
        self.stopped
    }
}

fn fault(error: impl std::fmt::Display) -> GuideError {
    GuideError(brief(&error.to_string()))
}
