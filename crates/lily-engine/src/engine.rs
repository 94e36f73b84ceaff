//! The engine: one thread that owns a backend and serves generations, several at a time.

use crate::guarded_backend::panic_message;
use crate::queue::Queue;
use crate::reply::Sink;
use crate::scheduler::Scheduler;
use crate::sequence::Vocabulary;
use crate::{
    Backend, CancelToken, Event, GenerationError, GenerationRequest, Metrics, SamplingError, TokenId,
    TokenMask,
};
use lily_text::Tokenizer;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Limits of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Generations that decode together; at least 1.
    pub max_running: usize,
    /// Generations that may wait beyond those.
    pub max_waiting: usize,
    /// Bytes of snapshots kept for prompts that share a prefix; 0 keeps none.
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
        /// Longest context; a prompt must leave room for one token.
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
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<Queue>,
    vocabulary: Arc<Vocabulary>,
    description: String,
    /// `None` if the thread could not be started.
    thread: Option<ThreadId>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close(Instant::now());
    }
}

impl Engine {
    /// Starts the thread.
    pub fn start<B: Backend>(backend: B, tokenizer: Tokenizer, options: EngineOptions) -> Self {
        let rows = backend.vocab_size();
        let mut tokens = TokenMask::none(rows);
        for id in (0..rows.min(tokenizer.size()) as u32).map(TokenId).filter(|&id| tokenizer.has_token(id)) {
            tokens.allow(id);
        }
        let max_context = backend.max_context();
        let vocabulary = Arc::new(Vocabulary { tokenizer, tokens: tokens.into(), max_context });
        let queue = Arc::new(Queue::new(options.max_running, options.max_waiting));
        let description = backend.describe();
        let thread = {
            let (queue, vocabulary) = (queue.clone(), vocabulary.clone());
            std::thread::Builder::new()
                .name("lily-engine".to_owned())
                .spawn(move || serve(backend, &queue, vocabulary, &options))
        };
        let thread = match thread {
            Ok(handle) => Some(handle.thread().id()),
            Err(error) => {
                queue.end(Some(format!("its thread could not be started: {error}")));
                None
            }
        };
        Self { inner: Arc::new(Inner { queue, vocabulary, description, thread }) }
    }

    /// Hands in a request. `sink` is called on the engine's thread, so it must not block; when it answers
    /// `Break`, the generation is cancelled within one token and `sink` is dropped. Otherwise `sink` hears exactly
    /// one [`Event::Finished`] or [`Event::Failed`], and is dropped after it.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn submit(
        &self,
        request: GenerationRequest,
        sink: impl FnMut(Event) -> ControlFlow<()> + Send + 'static,
    ) -> Result<(), SubmitError> {
        self.hand_in(request, Box::new(sink), CancelToken::default())
    }

    /// Hands in a request whose events are read one by one; dropping the [`Generation`] cancels it.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn generate(&self, request: GenerationRequest) -> Result<Generation, SubmitError> {
        let (sender, events) = channel();
        let abandoned = CancelToken::default();
        let sink = move |event| match sender.send(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        self.hand_in(request, Box::new(sink), abandoned.clone())?;
        Ok(Generation { events, abandoned, ended: false })
    }

    fn hand_in(
        &self,
        request: GenerationRequest,
        sink: Sink,
        abandoned: CancelToken,
    ) -> Result<(), SubmitError> {
        self.check(&request)?;
        self.inner.queue.submit(request, sink, abandoned)
    }

    /// Checks everything about a request that does not depend on how busy the engine is.
    ///
    /// # Errors
    /// What [`Engine::submit`] would refuse.
    pub fn check(&self, request: &GenerationRequest) -> Result<(), SubmitError> {
        let limit = self.max_context();
        let prompt = request.prompt.len();
        if prompt == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        if prompt >= limit {
            return Err(SubmitError::PromptTooLong { prompt, limit });
        }
        if let Some(&id) = request.prompt.iter().find(|id| id.0 as usize >= self.vocab_size()) {
            return Err(SubmitError::TokenOutOfRange { id });
        }
        if request.stop.iter().any(String::is_empty) {
            return Err(SubmitError::EmptyStop);
        }
        request.sampling.validate()?;
        request.sampling.validate_ids(|id| self.inner.vocabulary.tokens.allows(id))?;
        Ok(())
    }

    /// The backend's line about itself.
    pub fn describe(&self) -> &str {
        &self.inner.description
    }

    /// The tokenizer that ids are turned into text with.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.inner.vocabulary.tokenizer
    }

    /// The longest context in tokens.
    pub fn max_context(&self) -> usize {
        self.inner.vocabulary.max_context
    }

    /// Rows of the logits (ids from here on are refused in `logit_bias`; ids without a token too).
    pub fn vocab_size(&self) -> usize {
        self.inner.vocabulary.tokens.len()
    }

    /// Generations that it holds at most at the same time, waiting ones included.
    pub fn capacity(&self) -> usize {
        self.inner.queue.capacity()
    }

    /// Counters of this moment; cheap.
    pub fn metrics(&self) -> Metrics {
        self.inner.queue.metrics()
    }

    /// Ends: new requests are refused, and those taken (waiting ones too) get [`GenerationError::ShuttingDown`] unless
    /// they finish within `grace`. Returns when the backend has been dropped; on the engine's own thread (in a
    /// sink) at once.
    pub fn shut_down(&self, grace: Duration) {
        let now = Instant::now();
        self.inner.queue.close(now.checked_add(grace).unwrap_or(now + Duration::from_secs(1 << 30)));
        if self.inner.thread != Some(std::thread::current().id()) {
            self.inner.queue.wait_for_end();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("backend", &self.inner.description).finish_non_exhaustive()
    }
}

/// The engine's thread.
fn serve<B: Backend>(backend: B, queue: &Arc<Queue>, vocabulary: Arc<Vocabulary>, options: &EngineOptions) {
    let served =
        catch_unwind(AssertUnwindSafe(|| Scheduler::new(backend, queue.clone(), vocabulary, options).run()));
    let fault = served.unwrap_or_else(|payload| Some(panic_message(&*payload).to_owned()));
    if let Some(fault) = &fault {
        tracing::error!("the engine has stopped: {fault}");
    }
    queue.end(fault);
}

/// The events of one generation, blocking. The last is [`Event::Finished`] or [`Event::Failed`].
pub struct Generation {
    events: Receiver<Event>,
    abandoned: CancelToken,
    ended: bool,
}

impl Iterator for Generation {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let event = self.events.recv().unwrap_or_else(|_| {
            Event::Failed(GenerationError::Internal("the engine's thread has ended".to_owned()))
        });
        self.ended = matches!(event, Event::Finished { .. } | Event::Failed(_));
        Some(event)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.abandoned.cancel();
    }
}
