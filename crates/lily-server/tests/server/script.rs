//! A backend that writes what it is told to, with the faults and delays that a test asks for.

use lily_engine::{Backend, BackendError, DecodeStep, LogitsWanted, SequenceState, TokenId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Answers to a prompt.
pub(crate) type Answers = Arc<dyn Fn(&[TokenId]) -> Vec<TokenId> + Send + Sync>;

/// What the backend does.
#[derive(Clone)]
pub(crate) struct Script {
    /// The answer to a prompt; its end is followed by `end` for ever.
    pub(crate) answers: Answers,
    /// Ends an answer.
    pub(crate) end: TokenId,
    pub(crate) vocab: usize,
    pub(crate) context: usize,
    pub(crate) chunk: usize,
    /// Logits are NaN after this many tokens of an answer.
    pub(crate) nan_after: Option<usize>,
    /// The device fails after this many tokens of an answer.
    pub(crate) fail_after: Option<usize>,
    /// Time that a prefill call takes.
    pub(crate) prefill_time: Duration,
    /// Time that a decode call takes.
    pub(crate) decode_time: Duration,
    /// The logit of the scripted token; the others have 0.
    pub(crate) confidence: f32,
    pub(crate) seen: Arc<Seen>,
}

/// What the backend was asked for so far.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) prefilled: AtomicUsize,
    pub(crate) decoded: AtomicUsize,
}

#[derive(Clone)]
pub(crate) struct State {
    tokens: Vec<TokenId>,
    /// Length of the prompt: what prefill has consumed.
    prompt: usize,
}

impl SequenceState for State {
    fn position(&self) -> usize {
        self.tokens.len()
    }

    fn bytes(&self) -> usize {
        self.tokens.len() * size_of::<TokenId>()
    }
}

impl Script {
    fn logits(&self, state: &State, logits: &mut Vec<f32>) -> Result<(), BackendError> {
        let (prompt, answer) = state.tokens.split_at(state.prompt);
        if self.fail_after.is_some_and(|after| answer.len() >= after) {
            return Err(BackendError::Device("the device fell off".to_owned()));
        }
        let script = (self.answers)(prompt);
        let next = script.get(answer.len()).copied().unwrap_or(self.end);
        logits.clear();
        logits.resize(self.vocab, 0.0);
        logits[next.0 as usize] = self.confidence;
        if self.nan_after.is_some_and(|after| answer.len() >= after) {
            logits[7] = f32::NAN;
        }
        Ok(())
    }
}

impl Backend for Script {
    type State = State;
    type Snapshot = State;

    fn describe(&self) -> String {
        "scripted".to_owned()
    }

    fn vocab_size(&self) -> usize {
        self.vocab
    }

    fn max_context(&self) -> usize {
        self.context
    }

    fn prefill_chunk(&self) -> usize {
        self.chunk
    }

    fn new_state(&mut self) -> Result<State, BackendError> {
        Ok(State { tokens: Vec::new(), prompt: 0 })
    }

    fn prefill(
        &mut self,
        state: &mut State,
        tokens: &[TokenId],
        logits: LogitsWanted<'_>,
    ) -> Result<(), BackendError> {
        std::thread::sleep(self.prefill_time);
        self.seen.prefilled.fetch_add(tokens.len(), Ordering::Relaxed);
        state.tokens.extend_from_slice(tokens);
        state.prompt = state.tokens.len();
        match logits {
            LogitsWanted::None => Ok(()),
            LogitsWanted::Last(logits) => self.logits(state, logits),
            LogitsWanted::Each(_) => Err(BackendError::Device("a script has no evaluation".to_owned())),
        }
    }

    fn decode(&mut self, steps: &mut [DecodeStep<'_, State>]) -> Result<(), BackendError> {
        std::thread::sleep(self.decode_time);
        self.seen.decoded.fetch_add(steps.len(), Ordering::Relaxed);
        for step in steps {
            step.state.tokens.push(step.token);
            self.logits(step.state, step.logits)?;
        }
        Ok(())
    }

    fn snapshot(&mut self, state: &State) -> Result<State, BackendError> {
        Ok(state.clone())
    }

    fn restore(&mut self, snapshot: &State) -> Result<State, BackendError> {
        Ok(snapshot.clone())
    }

    fn snapshot_bytes(&self, snapshot: &State) -> usize {
        snapshot.bytes()
    }
}
