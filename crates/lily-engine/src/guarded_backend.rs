//! A backend whose panics are errors.

use crate::{
    Backend, BackendError, ChoicePlan, ChoiceStep, Chosen, DecodeStep, LogitsWanted, SequenceState, TokenId,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// So many panics, with no successful prefill or decode in between, and the backend is given up.
const PANICS_ALLOWED: u32 = 3;

/// Calls a backend; a panic becomes a [`BackendError::Device`], and so does a state whose position is not what the call must have made it.
pub(crate) struct GuardedBackend<B> {
    backend: B,
    panics: u32,
    last_panic: String,
}

impl<B: Backend> GuardedBackend<B> {
    pub(crate) fn new(backend: B) -> Self {
        Self { backend, panics: 0, last_panic: String::new() }
    }

    /// Why the backend must not be used any more, if so.
    pub(crate) fn broken(&self) -> Option<&str> {
        (self.panics >= PANICS_ALLOWED).then_some(self.last_panic.as_str())
    }

    pub(crate) fn prefill_chunk(&self) -> usize {
        self.backend.prefill_chunk().max(1)
    }

    pub(crate) fn snapshot_bytes(&self, snapshot: &B::Snapshot) -> usize {
        self.backend.snapshot_bytes(snapshot)
    }

    pub(crate) fn new_state(&mut self) -> Result<B::State, BackendError> {
        self.call("new_state", B::new_state)
    }

    pub(crate) fn restore(&mut self, snapshot: &B::Snapshot) -> Result<B::State, BackendError> {
        self.call("restore", |backend| backend.restore(snapshot))
    }

    pub(crate) fn snapshot(&mut self, state: &B::State) -> Result<B::Snapshot, BackendError> {
        self.call("snapshot", |backend| backend.snapshot(state))
    }

    pub(crate) fn prefill(
        &mut self,
        state: &mut B::State,
        tokens: &[TokenId],
        logits: LogitsWanted<'_>,
    ) -> Result<(), BackendError> {
        let expected = state.position() + tokens.len();
        self.call("prefill", |backend| backend.prefill(state, tokens, logits))?;
        self.panics = 0;
        check_position("prefill", state, expected)
    }

    pub(crate) fn decode(&mut self, steps: &mut [DecodeStep<'_, B::State>]) -> Result<(), BackendError> {
        let expected: Vec<usize> = steps.iter().map(|step| step.state.position() + 1).collect();
        self.call("decode", |backend| backend.decode(steps))?;
        self.panics = 0;
        steps
            .iter()
            .zip(expected)
            .try_for_each(|(step, expected)| check_position("decode", step.state, expected))
    }

    pub(crate) fn start_choosing(
        &mut self,
        state: &mut B::State,
        plan: &ChoicePlan<'_>,
    ) -> Result<bool, BackendError> {
        let expected = state.position();
        let served = self.call("start_choosing", |backend| backend.start_choosing(state, plan))?;
        check_position("start_choosing", state, expected)?;
        Ok(served)
    }

    /// `consumed`: the tokens that the state has consumed once it has consumed the given one.
    pub(crate) fn choose(
        &mut self,
        step: ChoiceStep<'_, B::State>,
        consumed: usize,
    ) -> Result<Chosen, BackendError> {
        let ChoiceStep { state, token, mask, run_ahead } = step;
        let chosen =
            self.call("choose", |backend| backend.choose(ChoiceStep { state, token, mask, run_ahead }))?;
        self.panics = 0;
        let ahead = run_ahead && state.position() == consumed + 1;
        check_position("choose", state, consumed + usize::from(ahead))?;
        Ok(chosen)
    }

    fn call<T>(
        &mut self,
        name: &str,
        call: impl FnOnce(&mut B) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        match catch_unwind(AssertUnwindSafe(|| call(&mut self.backend))) {
            Ok(result) => result,
            Err(payload) => {
                self.panics += 1;
                self.last_panic = format!("the backend panicked in {name}: {}", panic_message(&*payload));
                tracing::error!("{}", self.last_panic);
                Err(BackendError::Device(self.last_panic.clone()))
            }
        }
    }
}

fn check_position(name: &str, state: &impl SequenceState, expected: usize) -> Result<(), BackendError> {
    let position = state.position();
    if position == expected {
        return Ok(());
    }
    Err(BackendError::Device(format!("{name} left a sequence at position {position} instead of {expected}")))
}

/// What a panic said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
