//! The engine: one thread that owns a backend and serves generations, several at a time.

use crate::{Backend, Event, GenerationRequest, Metrics, SamplingError, TokenId};
use lily_text::Tokenizer;
use std::ops::ControlFlow;

/// Limits of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Generations that decode together.
    pub max_running: usize,
    /// Generations that may wait beyond those.
    pub max_waiting: usize,
    /// Bytes of snapshots kept for prompts that share a prefix.
    pub snapshot_budget: usize,
    /// A snapshot is kept every this many tokens of a long prompt; 0 is off.
    pub snapshot_interval: usize,
}

impl Default for EngineOptions {
    /// 8 running, 64 waiting, 1 GiB of snapshots, one every 4096 tokens.
    fn default() -> Self {
        Self { max_running: 8, max_waiting: 64, snapshot_budget: 1 << 30, snapshot_interval: 4096 }
    }
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A sampling parameter is out of range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A stop string is empty.
    #[error("stop: a stop string must not be empty")]
    EmptyStop,
    /// A token of the prompt is not one of the model's.
    #[error("prompt: there is no token with id {}", id.0)]
    TokenOutOfRange {
        /// The id.
        id: TokenId,
    },
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt alone fills the context.
    #[error("the prompt has {prompt} tokens; the context holds {limit}")]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Longest context.
        limit: usize,
    },
    /// Too many requests wait already.
    #[error("{waiting} requests are waiting already; try again later")]
    Busy {
        /// Requests in the queue.
        waiting: usize,
    },
    /// The engine was shut down.
    #[error("the engine is shutting down")]
    ShuttingDown,
    /// The engine broke and takes no more requests.
    #[error("the engine has stopped: {reason}")]
    Dead {
        /// What broke it.
        reason: String,
    },
}

/// A handle on the engine's thread; cheap to clone. When the last handle is dropped, running generations are ended.
#[derive(Clone)]
pub struct Engine {}

impl Engine {
    /// Starts the thread.
    pub fn start<B: Backend>(backend: B, tokenizer: Tokenizer, options: EngineOptions) -> Self {
        let _ = (backend, tokenizer, options);
        unreachable!("skeleton")
    }

    /// Hands in a request. `sink` is called on the engine's thread, so it must not block; when it answers
    /// `Break`, the generation is cancelled within one token and `sink` is dropped.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn submit(
        &self,
        request: GenerationRequest,
        sink: impl FnMut(Event) -> ControlFlow<()> + Send + 'static,
    ) -> Result<(), SubmitError> {
        let _ = (request, sink);
        unreachable!("skeleton")
    }

    /// Hands in a request whose events are read one by one; dropping the [`Generation`] cancels it.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn generate(&self, request: GenerationRequest) -> Result<Generation, SubmitError> {
        let _ = request;
        unreachable!("skeleton")
    }

    /// The backend's line about itself.
    pub fn describe(&self) -> &str {
        unreachable!("skeleton")
    }

    /// The longest context in tokens.
    pub fn max_context(&self) -> usize {
        unreachable!("skeleton")
    }

    /// Rows of the logits (ids from here on are refused in `logit_bias`; ids without a token too).
    pub fn vocab_size(&self) -> usize {
        unreachable!("skeleton")
    }

    /// Counters of this moment; cheap.
    pub fn metrics(&self) -> Metrics {
        unreachable!("skeleton")
    }

    /// Ends: new requests are refused, running ones get [`crate::GenerationError::ShuttingDown`] unless they finish
    /// within `grace`. Returns when the thread has ended.
    pub fn shut_down(&self, grace: std::time::Duration) {
        let _ = grace;
        unreachable!("skeleton")
    }
}

/// The events of one generation, blocking.
pub struct Generation {
    events: std::sync::mpsc::Receiver<Event>,
}

impl Iterator for Generation {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.events.recv().ok()
    }
}
