//! Tokens chosen on the device: each is the next step's input, and the host only listens. While it turns one token into
//! text, the step after it runs: the device never waits for the host.

use super::{
    GpuBackend, GpuState, ProgramKey,
    slot::{Choosing, Next},
};
use crate::{
    GpuError, Optimisation, Program, Recorder, Ticket,
    plan::{
        choice::{self, Choice, ChoiceRequest, Chosen as Found},
        decode,
    },
};
use lily_engine::{Choice as Choose, ChoicePlan, ChoiceStep, Chosen, TokenId, TokenLogprob};
use lily_kernels::{sampling, step};

impl GpuBackend {
    /// True if the device chooses tokens: `device-loop` is on and no experts are traced.
    pub fn has_device_loop(&self) -> bool {
        self.model.switches.has(Optimisation::DeviceLoop) && self.trace.is_none()
    }

    /// Takes up a plan, if it is one that the device serves.
    pub(super) fn begin_choosing(
        &self,
        state: &mut GpuState,
        plan: &ChoicePlan<'_>,
    ) -> Result<bool, GpuError> {
        let &ChoicePlan { params, seed, prompt, answer, tokens, logprobs } = plan;
        let report = logprobs.unwrap_or(0);
        if !self.has_device_loop() || report > sampling::MOST_CANDIDATES {
            return Ok(false);
        }
        let device = &*self.model.device;
        let slot = state.slot()?;
        let choice = match &mut slot.choice {
            Some(choice) => choice,
            none => none.insert(Choice::new(device, &self.model.config)?),
        };
        let request = ChoiceRequest { params, seed, prompt, answer, tokens, logprobs: report };
        let history = choice.set(device, &request)?;
        state.choosing = Some(Choosing {
            next: Next::Given { answered: answer.len() as u64, history },
            ahead: None,
            logprobs: logprobs.is_some(),
        });
        Ok(true)
    }

    /// Consumes a token, unless that has begun; begins to consume the one that follows, if that is wanted; answers the
    /// choice. After an error the state chooses no more.
    pub(super) fn choose_next(&self, step: ChoiceStep<'_, GpuState>) -> Result<Chosen, GpuError> {
        let ChoiceStep { state, token, mask, run_ahead } = step;
        let device = &*self.model.device;
        let mut choosing = state.choosing.take().ok_or_else(|| misuse("it was not started"))?;
        let running = match (choosing.next, choosing.ahead.take()) {
            (Next::Chosen(next), _) if next != token => {
                return Err(misuse("another token than the chosen one"));
            }
            (_, Some(_)) if mask.is_some() => return Err(misuse("the step has begun without its mask")),
            (_, Some(ahead)) => ahead,
            (next, None) => {
                self.reserve(state, 1)?;
                if let Next::Given { answered, history } = next {
                    let mut words = step_words(token, state.position);
                    words[step::CHOICE_LOW] = answered as u32;
                    words[step::CHOICE_HIGH] = (answered >> 32) as u32;
                    words[step::HISTORY] = history;
                    self.write_words(state.buffers()?, &words)?;
                }
                if mask.is_some() {
                    state.choice()?.set_mask(device, mask)?;
                }
                self.submit_choosing(state)?
            }
        };
        let position = state.position - 1;
        if run_ahead && mask.is_none() && state.position < self.max_context {
            if state.buffers()?.capacity == state.position {
                // More room is new buffers; the old ones must not be in use.
                device.wait(running)?;
            }
            match self.reserve(state, 1) {
                Ok(()) => choosing.ahead = Some(self.submit_choosing(state)?),
                // The next call tries again, and says so if it must.
                Err(error) => tracing::debug!("no step ahead: {error}"),
            }
        }
        device.wait(running)?;
        let Found { token: id, status, logprob, top } = state.choice()?.report(device, position)?;
        let logprob = choosing.logprobs.then_some(TokenLogprob { id, logprob, top });
        choosing.next = Next::Chosen(id);
        state.choosing = Some(choosing);
        Ok(match status {
            step::STATUS_OK => Chosen::Token(Choose { id, logprob }),
            step::STATUS_NAN => Chosen::NotFinite("NaN"),
            step::STATUS_INFINITE => Chosen::NotFinite("infinite"),
            _ => Chosen::NothingAllowed,
        })
    }

    /// Submits a step that ends in a choice; the token to consume is in the step words.
    fn submit_choosing(&self, state: &mut GpuState) -> Result<Ticket, GpuError> {
        let program = self.choosing_program(state)?;
        let ticket = self.model.device.submit(&program)?;
        state.position += 1;
        Ok(ticket)
    }

    fn choosing_program(&self, state: &mut GpuState) -> Result<Program, GpuError> {
        let (bucket, key) = (decode::bucket(state.position + 1), state.choice()?.key());
        let key = ProgramKey { bucket, choice: Some(key), switches: self.model.switches };
        if let Some(program) = state.slot()?.programs.get(&key) {
            return Ok(program.clone());
        }
        let mut recorder = Recorder::new();
        decode::record_step(&mut recorder, &self.model, state.buffers()?, &self.decode, bucket)?;
        choice::record(&mut recorder, &self.model, state.buffers()?, &self.decode, state.choice()?)?;
        let program = self.model.device.prepare(&recorder.finish()?, self.pass())?;
        state.slot()?.programs.insert(key, program.clone());
        Ok(program)
    }
}

/// The words of a step that consumes `token` at `position`, of an answer that begins.
pub(super) fn step_words(token: TokenId, position: usize) -> [u32; step::WORDS] {
    let mut words = [0; step::WORDS];
    words[step::TOKEN] = token.0;
    words[step::POSITION] = u32::try_from(position).unwrap_or(u32::MAX);
    words
}

fn misuse(what: &str) -> GpuError {
    GpuError::Device { call: "choosing a token".to_owned(), what: what.to_owned() }
}
