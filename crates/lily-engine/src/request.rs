//! What a generation is asked for, and what it answers.

use crate::{BackendError, TokenId};
use std::time::Duration;

/// How the next token is chosen. Every value is checked by [`SamplingParams::validate`].
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 is greedy; else logits are divided by it. 0 to 2... finite and not negative.
    pub temperature: f32,
    /// Candidates kept; 0 is off.
    pub top_k: usize,
    /// Nucleus mass in (0, 1]; 1 is off.
    pub top_p: f32,
    /// Smallest kept share of the best candidate's probability, in [0, 1]; 0 is off.
    pub min_p: f32,
    /// Divides (positive) or multiplies (negative) logits of tokens in the window over prompt and answer; 1 is off.
    pub repetition_penalty: f32,
    /// Last tokens that the repetition penalty looks at.
    pub repetition_window: usize,
    /// Subtracted once from each token that was generated (the prompt does not count); in [-2, 2].
    pub presence_penalty: f32,
    /// Subtracted per time a token was generated (the prompt does not count); in [-2, 2].
    pub frequency_penalty: f32,
    /// Added to logits before anything else; -100 bans, 100 forces.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Same seed and request, same text; `None` is fresh randomness.
    pub seed: Option<u64>,
}

/// A sampling parameter out of range; names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SamplingError {
    /// The field's wire name.
    pub field: &'static str,
    /// What is allowed.
    pub reason: String,
}

/// One generation.
#[derive(Debug, Clone)]
pub struct GenerationRequest {
    /// The prompt, at least one token.
    pub prompt: Vec<TokenId>,
    /// Most tokens to generate; `None` is to the end of the context.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// Ids that end the answer (not part of its text).
    pub stop_ids: Vec<TokenId>,
    /// Texts that end the answer (not part of it), also across token borders.
    pub stop: Vec<String>,
    /// Log-probabilities of the chosen token and of this many best ones.
    pub logprobs: Option<usize>,
    /// Do not end at `stop_ids`; for benchmarks.
    pub ignore_eos: bool,
}

/// A token's log-probability under the model's own distribution (before temperature and truncation, after bias and penalties).
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub id: TokenId,
    /// Natural logarithm of its probability; finite, or `f32::NEG_INFINITY` for a banned token.
    pub logprob: f32,
    /// The best candidates, best first.
    pub top: Vec<(TokenId, f32)>,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop id.
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
    /// A token was chosen. `text` is what became certain with it (may be empty; special tokens give none).
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
