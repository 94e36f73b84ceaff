//! What a generation answers.

use crate::{BackendError, ConstraintError, TokenId};
use std::time::Duration;

/// A token's log-probability under the model's own distribution: before temperature and truncation, after bias,
/// penalties and bans (a grammar's mask is a ban).
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub id: TokenId,
    /// Natural logarithm of its probability; finite, or `f32::NEG_INFINITY` for a banned token.
    pub logprob: f32,
    /// The best candidates, best first (the lower id of equal ones); banned tokens are not among them.
    pub top: Vec<(TokenId, f32)>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop id, or a constraint that is complete.
    EndOfText,
    /// A stop string.
    StopString,
    /// `max_tokens`, or the context is full.
    Length,
}

/// What a generation cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them that came from a snapshot.
    pub cached_tokens: usize,
    /// Tokens generated (a final stop id counts).
    pub completion_tokens: usize,
    /// Waiting for a place.
    pub queue: Duration,
    /// Prefill of the prompt.
    pub prefill: Duration,
    /// From the first to the last generated token.
    pub decode: Duration,
}

/// Why a generation failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GenerationError {
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A logit is NaN or infinite: the model's numbers are broken, no token is invented.
    #[error("the model produced {what} logits at position {position}; the answer was ended")]
    BadLogits {
        /// `NaN` or `infinite`.
        what: &'static str,
        /// Position of the token that was to be chosen.
        position: usize,
    },
    /// Bias and penalties left nothing to choose from.
    #[error("no token can be chosen: every candidate is banned")]
    NothingToSample,
    /// The constraint (a grammar) failed.
    #[error("the constraint failed: {0}")]
    Constraint(#[from] ConstraintError),
    /// [`crate::CancelToken::cancel`] was called.
    #[error("the generation was cancelled")]
    Cancelled,
    /// The request's deadline has passed.
    #[error("the deadline has passed")]
    DeadlinePassed,
    /// A fault inside the engine.
    #[error("the engine failed: {0}")]
    Internal(String),
    /// The engine was shut down.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

/// What happens during a generation, in order; the last is `Finished` or `Failed`.
#[derive(Debug, Clone)]
pub enum Event {
    /// Prompt tokens consumed so far (cached ones included).
    Prefill {
        /// Consumed.
        done: usize,
        /// All of the prompt.
        total: usize,
    },
    /// A token was chosen. `text` is what became certain with it (may be empty; special tokens give none). A final stop
    /// id comes too, without text: there are as many of these events as [`Usage::completion_tokens`].
    Token {
        /// The token.
        id: TokenId,
        /// New text.
        text: String,
        /// When asked for.
        logprob: Option<TokenLogprob>,
    },
    /// The end. `text` is what had been held back.
    Finished {
        /// Last text.
        text: String,
        /// Why.
        reason: FinishReason,
        /// The stop string that ended it.
        stop: Option<String>,
        /// What it cost.
        usage: Usage,
    },
    /// The end, by a fault.
    Failed(GenerationError),
}
