//! The text of an answer, token by token.

use crate::TokenId;
use crate::stop_matcher::{StopMatch, StopMatcher};
use lily_text::Detokenizer;

/// Turns chosen tokens into text up to a stop string. The concatenation of all text returned is the answer.
#[derive(Debug)]
pub(crate) struct Answer {
    detokenizer: Detokenizer,
    stops: StopMatcher,
}

impl Answer {
    /// An answer that ends before any of `stops`, none of which is empty.
    pub(crate) fn new(detokenizer: Detokenizer, stops: Vec<String>) -> Self {
        Self { detokenizer, stops: StopMatcher::new(stops) }
    }

    /// The text that becomes certain with this token.
    ///
    /// # Errors
    /// A stop string is complete.
    pub(crate) fn push(&mut self, id: TokenId) -> Result<String, StopMatch> {
        let text = self.detokenizer.push(id);
        self.stops.push(&text)
    }

    /// What was held back: no token follows.
    ///
    /// # Errors
    /// A stop string is complete with what the detokenizer had held back.
    pub(crate) fn finish(&mut self) -> Result<String, StopMatch> {
        let text = self.detokenizer.finish();
        let mut passed = self.stops.push(&text)?;
        passed += &self.stops.finish();
        Ok(passed)
    }
}
