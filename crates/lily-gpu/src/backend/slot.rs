//! State buffers with the programs that are bound to them, kept when a sequence ends.

use crate::{
    Device, GpuError, GpuModel, Program, StateBuffers, Switches, Ticket,
    plan::choice::{Choice, ChoiceKey},
};
use lily_engine::{SequenceState, TokenId};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Slots that are kept for the next sequence: their buffers are allocated, their programs prepared.
const KEPT: usize = 2;

/// What a program was recorded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ProgramKey {
    /// Positions that it can look at.
    pub(super) bucket: usize,
    /// It ends in the choice of the next token, made in this way.
    pub(super) choice: Option<ChoiceKey>,
    pub(super) switches: Switches,
}

/// One sequence's buffers.
pub(super) struct Slot {
    pub(super) buffers: StateBuffers,
    /// How tokens are chosen, once that was asked for.
    pub(super) choice: Option<Choice>,
    /// Bound to the buffers.
    pub(super) programs: HashMap<ProgramKey, Program>,
}

/// Where a sequence is whose tokens the device chooses.
pub(super) struct Choosing {
    pub(super) next: Next,
    /// The step that consumes the next token, if that has begun.
    pub(super) ahead: Option<Ticket>,
    /// Log-probabilities are wanted.
    pub(super) logprobs: bool,
}

/// What the next step consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A token that the host names. The step words must start with these: the tokens of the answer that have been chosen,
    /// and how many have entered the repetition window.
    Given { answered: u64, history: u32 },
    /// The device's own choice, which the step words name already.
    Chosen(TokenId),
}

/// Slots of sequences that have ended.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Slot>>,
}

impl Pool {
    /// A slot with room for `capacity` positions; its contents are whatever they were.
    pub(super) fn take(&self, model: &GpuModel, capacity: usize) -> Result<Slot, GpuError> {
        let device: &dyn Device = &*model.device;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = idle.iter().position(|slot| slot.buffers.capacity >= capacity) {
            return Ok(idle.swap_remove(at));
        }
        let new = || StateBuffers::new(device, &model.config, capacity);
        let buffers = match new() {
            // What is idle may be all that is in the way.
            Err(GpuError::OutOfMemory { .. }) if !idle.is_empty() => {
                idle.clear();
                new()?
            }
            result => result?,
        };
        Ok(Slot { buffers, choice: None, programs: HashMap::new() })
    }

    fn give_back(&self, slot: Slot) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(slot);
        }
    }
}

/// A sequence on a [`crate::GpuBackend`].
pub struct GpuState {
    /// Gone only while the state is dropped.
    slot: Option<Slot>,
    pub(super) position: usize,
    /// Set while the device chooses the tokens.
    pub(super) choosing: Option<Choosing>,
    pool: Arc<Pool>,
    /// Bytes of a sequence of `n` tokens: fixed and per token.
    size: crate::StateSize,
}

impl GpuState {
    pub(super) fn new(slot: Slot, position: usize, pool: Arc<Pool>, size: crate::StateSize) -> Self {
        Self { slot: Some(slot), position, choosing: None, pool, size }
    }

    /// The buffers and programs.
    pub(super) fn slot(&mut self) -> Result<&mut Slot, GpuError> {
        self.slot.as_mut().ok_or_else(gone)
    }

    /// How its tokens are chosen.
    pub(super) fn choice(&self) -> Result<&Choice, GpuError> {
        self.slot.as_ref().and_then(|slot| slot.choice.as_ref()).ok_or_else(gone)
    }

    /// The buffers.
    pub(super) fn buffers(&self) -> Result<&StateBuffers, GpuError> {
        self.slot.as_ref().map(|slot| &slot.buffers).ok_or_else(gone)
    }
}

fn gone() -> GpuError {
    GpuError::Device { call: "a sequence's state".to_owned(), what: "it was dropped".to_owned() }
}

impl SequenceState for GpuState {
    fn position(&self) -> usize {
        self.position
    }

    fn bytes(&self) -> usize {
        self.size.bytes(self.slot.as_ref().map_or(0, |slot| slot.buffers.capacity))
    }
}

impl Drop for GpuState {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.pool.give_back(slot);
        }
    }
}
