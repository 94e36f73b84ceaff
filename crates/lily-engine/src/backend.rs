//! What a machine must offer to run the model: [`Backend`].

use crate::{Choice, SamplingParams, TokenId, TokenMask};

/// What went wrong on a backend. The sequence states of the failed call must be dropped: nothing is half-applied
/// elsewhere.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// A token id is not a row of the embedding.
    #[error("token id {id} is outside the vocabulary of {vocab} rows")]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// The context is full.
    #[error("the context is full: {wanted} tokens wanted, {limit} is the limit")]
    ContextFull {
        /// Length after the call.
        wanted: usize,
        /// The longest context.
        limit: usize,
    },
    /// Memory could not be had.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// The device or the model failed.
    #[error("{0}")]
    Device(String),
}

impl BackendError {
    /// An error unless a prefill call of `given` tokens is one that a backend with chunks of `limit` tokens takes.
    ///
    /// # Errors
    /// [`BackendError::Device`], with both numbers.
    pub fn check_prefill_length(given: usize, limit: usize) -> Result<(), Self> {
        if (1..=limit).contains(&given) {
            return Ok(());
        }
        Err(Self::Device(format!("a prefill call takes 1 to {limit} tokens, {given} given")))
    }
}

/// The state of one sequence on a backend: KV rows, recurrent state, convolution windows and position. A value: it can
/// be snapshotted, restored and dropped, and moves between threads.
pub trait SequenceState: Send {
    /// Tokens consumed so far.
    fn position(&self) -> usize;
    /// Bytes held, for budgets.
    fn bytes(&self) -> usize;
}

/// Which logits a prefill should hand out.
pub enum LogitsWanted<'a> {
    /// None: more of the prompt follows.
    None,
    /// Those after the last token, `[vocab]`; the vector is cleared and filled. Every row counts, also those without a
    /// token: one that is not finite is taken for a broken model.
    Last(&'a mut Vec<f32>),
    /// Those after each token in order: `(index into tokens, logits [vocab])`. For evaluation.
    Each(&'a mut dyn FnMut(usize, &[f32])),
}

/// One sequence's part in a batched decode step.
pub struct DecodeStep<'a, S> {
    /// The sequence.
    pub state: &'a mut S,
    /// The token to consume.
    pub token: TokenId,
    /// Receives the logits after it, `[vocab]`; cleared and filled.
    pub logits: &'a mut Vec<f32>,
}

/// How the tokens of a sequence are to be chosen by a backend that chooses them itself.
pub struct ChoicePlan<'a> {
    /// Validated parameters.
    pub params: &'a SamplingParams,
    /// Of the random numbers.
    pub seed: u64,
    /// The prompt.
    pub prompt: &'a [TokenId],
    /// What was chosen already: penalties look at it, and its length is the next choice's step number.
    pub answer: &'a [TokenId],
    /// The rows of the logits that have a token.
    pub tokens: &'a TokenMask,
    /// Log-probabilities are wanted, and those of this many best tokens.
    pub logprobs: Option<usize>,
}

/// One step of a sequence whose tokens the backend chooses.
pub struct ChoiceStep<'a, S> {
    /// The sequence.
    pub state: &'a mut S,
    /// The token to consume: the last one of the answer, the backend's own choice or the first.
    pub token: TokenId,
    /// What a constraint allows.
    pub mask: Option<&'a TokenMask>,
    /// The chosen token will be consumed next, unless it turns out to end the answer: the backend may begin with that
    /// before it answers. Never with a mask.
    pub run_ahead: bool,
}

/// What a backend chose.
#[derive(Debug, Clone, PartialEq)]
pub enum Chosen {
    /// A token, with log-probabilities if they are wanted.
    Token(Choice),
    /// Nothing: a logit is `NaN` or `infinite`.
    NotFinite(&'static str),
    /// Nothing: no token is allowed.
    NothingAllowed,
}

/// The model on a machine.
///
/// Results for a sequence do not depend on what else is in a batch, nor on how a prompt was cut into calls of
/// [`Backend::prefill`], beyond the rounding that the backend's documented precision allows.
pub trait Backend: Send + 'static {
    /// One sequence's state.
    type State: SequenceState + 'static;
    /// A frozen copy of a state, cheap to share.
    type Snapshot: Clone + Send + Sync + 'static;

    /// One line for people: machine, kernels chosen, threads, precision.
    fn describe(&self) -> String;
    /// Rows of the logits.
    fn vocab_size(&self) -> usize;
    /// The longest context in tokens.
    fn max_context(&self) -> usize;
    /// The most tokens that one [`Backend::prefill`] call may take; longer prompts are cut by the caller.
    fn prefill_chunk(&self) -> usize;

    /// An empty sequence.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`].
    fn new_state(&mut self) -> Result<Self::State, BackendError>;

    /// Consumes 1 to [`Backend::prefill_chunk`] tokens.
    ///
    /// # Errors
    /// A token outside the vocabulary or a full context is found before anything is changed; after any other error
    /// the state must be dropped.
    fn prefill(
        &mut self,
        state: &mut Self::State,
        tokens: &[TokenId],
        logits: LogitsWanted<'_>,
    ) -> Result<(), BackendError>;

    /// Consumes one token in each of the given sequences (one is the common case).
    ///
    /// # Errors
    /// As [`Backend::prefill`].
    fn decode(&mut self, steps: &mut [DecodeStep<'_, Self::State>]) -> Result<(), BackendError>;

    /// Asks whether the backend chooses the tokens of this sequence itself from now on ([`Backend::choose`]), in the way
    /// of [`crate::Sampler`] up to the rounding of f32 arithmetic. If it does not, the caller samples from logits.
    /// [`Backend::prefill`] and [`Backend::decode`] of the sequence end it.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`], the device's; the state is as it was.
    fn start_choosing(
        &mut self,
        state: &mut Self::State,
        plan: &ChoicePlan<'_>,
    ) -> Result<bool, BackendError> {
        let _ = (state, plan);
        Ok(false)
    }

    /// Consumes a token and chooses the next. A backend that runs ahead has then begun to consume that one too: the
    /// state's position counts it, and its next call takes no other token.
    ///
    /// # Errors
    /// As [`Backend::decode`].
    fn choose(&mut self, step: ChoiceStep<'_, Self::State>) -> Result<Chosen, BackendError> {
        let _ = step;
        Err(BackendError::Device("this backend does not choose tokens itself".to_owned()))
    }

    /// A frozen copy of a state, with all that it has consumed.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`].
    fn snapshot(&mut self, state: &Self::State) -> Result<Self::Snapshot, BackendError>;

    /// A state that goes on from a snapshot; the snapshot stays valid.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`].
    fn restore(&mut self, snapshot: &Self::Snapshot) -> Result<Self::State, BackendError>;

    /// Bytes that a snapshot holds, for budgets.
    fn snapshot_bytes(&self, snapshot: &Self::Snapshot) -> usize;
}
