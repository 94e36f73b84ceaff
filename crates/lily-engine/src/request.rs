//! What a generation is asked for.

use crate::{SamplingParams, TokenConstraint, TokenId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// One generation. Fields are added as the engine learns more: start from [`GenerationRequest::new`] and change what
/// differs.
#[derive(Debug, Clone)]
pub struct GenerationRequest {
    /// The prompt, at least one token.
    pub prompt: Vec<TokenId>,
    /// Most tokens to generate; `None` is to the end of the context. 0 reads the prompt (and so warms the prefix
    /// cache) and ends with [`crate::FinishReason::Length`] and no token.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// Ids that end the answer (not part of its text).
    pub stop_ids: Vec<TokenId>,
    /// Texts that end the answer (not part of it), also across token borders. The match that is complete first wins;
    /// of several complete at the same character, the longest.
    pub stop: Vec<String>,
    /// Log-probabilities of the chosen token and of this many best ones.
    pub logprobs: Option<usize>,
    /// Do not end at `stop_ids`; for benchmarks.
    pub ignore_eos: bool,
    /// Lengths of prompt prefixes whose state is worth keeping for later requests (the borders of messages, say), on
    /// top of those that the engine keeps by itself. Others than 1 to `prompt.len() - 1` are ignored.
    pub snapshot_at: Vec<usize>,
    /// Which tokens a grammar allows next.
    pub constraint: Option<Box<dyn TokenConstraint>>,
    /// Ends the generation from outside, also while it waits. Clones of a request share it.
    pub cancel: CancelToken,
    /// When to give up; waiting counts.
    pub deadline: Option<Instant>,
}

impl GenerationRequest {
    /// A greedy generation to the end of the context, without stop ids.
    #[must_use]
    pub fn new(prompt: Vec<TokenId>) -> Self {
        Self {
            prompt,
            max_tokens: None,
            sampling: SamplingParams::default(),
            stop_ids: Vec::new(),
            stop: Vec::new(),
            logprobs: None,
            ignore_eos: false,
            snapshot_at: Vec::new(),
            constraint: None,
            cancel: CancelToken::default(),
            deadline: None,
        }
    }
}

/// A switch that ends a generation; clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Ends the generation within one token (or one prefill chunk). It answers [`crate::GenerationError::Cancelled`].
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True after [`CancelToken::cancel`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
