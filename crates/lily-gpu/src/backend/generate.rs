//! The loop that stays on the device: each chosen token is the next step's input, and the host only listens.

use super::{GpuBackend, GpuState, ProgramKey};
use crate::{
    GpuError, Optimisation, Program, Recorder, Ticket,
    plan::{
        choice::{self, ChoiceRequest},
        decode,
    },
};
use lily_engine::{SamplingParams, TokenId, TokenMask};
use std::collections::VecDeque;

/// Steps that may be under way: while the host reads what one has chosen, the next runs.
const SLOTS: usize = 2;

impl GpuBackend {
    /// True if [`GpuBackend::generate`] leaves the host out.
    pub fn has_device_loop(&self) -> bool {
        self.model.switches.has(Optimisation::DeviceLoop) && self.trace.is_none()
    }

    /// How [`GpuBackend::generate`] chooses from now on: the best token until this is called. `tokens` are the ids that
    /// may be chosen.
    ///
    /// # Errors
    /// The device's.
    pub fn choose_by(
        &mut self,
        params: &SamplingParams,
        seed: u64,
        tokens: &TokenMask,
    ) -> Result<(), GpuError> {
        let request = ChoiceRequest { params, seed, prompt: &[], tokens, logprobs: 0 };
        self.choice.set(&*self.model.device, &request).map(drop)
    }

    /// Consumes `first` and then each chosen token in turn, `steps` tokens in all, and answers the tokens chosen. The
    /// device never waits for the host: two steps are under way at any time.
    ///
    /// # Errors
    /// A full context, before anything is changed; the device's; logits that are not finite.
    pub fn generate(
        &mut self,
        state: &mut GpuState,
        first: TokenId,
        steps: usize,
    ) -> Result<Vec<TokenId>, GpuError> {
        let vocab = self.model.config.vocab_size;
        if first.0 as usize >= vocab || state.position + steps > self.max_context {
            return Err(GpuError::Unsupported {
                name: format!("{steps} steps from token {} at position {}", first.0, state.position),
                what: format!("{vocab} tokens, a context of {}", self.max_context),
            });
        }
        self.reserve(state, steps)?;
        let start = state.position;
        self.write_step(state.buffers()?, first, start)?;
        let mut chosen = Vec::with_capacity(steps);
        let mut under_way: VecDeque<Ticket> = VecDeque::new();
        for at in 0..steps {
            let slot = state.slot()?;
            let program = self.choosing_program(slot, start + at + 1)?;
            under_way.push_back(self.model.device.submit(&program)?);
            if under_way.len() == SLOTS {
                self.collect(&mut under_way, start, &mut chosen)?;
            }
        }
        while !under_way.is_empty() {
            self.collect(&mut under_way, start, &mut chosen)?;
        }
        state.position = start + steps;
        Ok(chosen)
    }

    /// Waits for the oldest step and takes its token from the ring.
    fn collect(
        &self,
        under_way: &mut VecDeque<Ticket>,
        start: usize,
        chosen: &mut Vec<TokenId>,
    ) -> Result<(), GpuError> {
        let Some(ticket) = under_way.pop_front() else { return Ok(()) };
        self.model.device.wait(ticket)?;
        let [token, status] = self.choice.chosen(&*self.model.device, start + chosen.len())?;
        if let Some(what) = choice::status_text(status) {
            return Err(GpuError::Device { call: "choosing a token".to_owned(), what: what.to_owned() });
        }
        chosen.push(TokenId(token));
        Ok(())
    }

    fn choosing_program(&self, slot: &mut super::Slot, context: usize) -> Result<Program, GpuError> {
        let switches = self.model.switches;
        let key = ProgramKey { bucket: decode::bucket(context), choice: Some(self.choice.key()), switches };
        if let Some(program) = slot.programs.get(&key) {
            return Ok(program.clone());
        }
        let mut recorder = Recorder::new();
        decode::record_step(&mut recorder, &self.model, &slot.buffers, &self.decode, key.bucket)?;
        choice::record(&mut recorder, &self.model, &slot.buffers, &self.decode, &self.choice)?;
        let program = self.model.device.prepare(&recorder.finish()?, self.pass())?;
        slot.programs.insert(key, program.clone());
        Ok(program)
    }
}
