//! Which optimisations a plan on this device has at all: a switch that would change nothing is said to, not measured.

use super::{Chunk, GpuBackend};
use crate::{GpuError, Optimisation, Phase, Recording, StateBuffers};

impl GpuBackend {
    /// The optimisations of decoding whose switch changes nothing about a step in a context of `context` tokens here: the
    /// same launches with it and without it.
    ///
    /// # Errors
    /// The device's.
    pub fn idle_in_decode(&mut self, context: usize) -> Result<Vec<Optimisation>, GpuError> {
        let state = self.state(context + 1)?;
        self.idle(Phase::Decode, |backend| backend.step_recording(state.buffers()?, context + 1))
    }

    /// The same for prefill: a chunk of `rows` tokens after `position` others.
    ///
    /// # Errors
    /// The device's.
    pub fn idle_in_prefill(&mut self, rows: usize, position: usize) -> Result<Vec<Optimisation>, GpuError> {
        let state = self.state(position + rows)?;
        let chunk = Chunk { rows, position };
        let buffers: &StateBuffers = state.buffers()?;
        let mut idle = self.idle(Phase::Prefill, |backend| backend.chunk_recording(buffers, chunk, true))?;
        // A prompt of one chunk is read the same way.
        if position == 0 {
            idle.push(Optimisation::ChunkedPrefill);
        }
        Ok(idle)
    }

    fn idle(
        &mut self,
        phase: Phase,
        record: impl Fn(&Self) -> Result<Recording, GpuError>,
    ) -> Result<Vec<Optimisation>, GpuError> {
        let switches = self.model.switches;
        let mut recorded = |one: Option<Optimisation>| {
            self.model.switches = one.map_or(switches, |one| switches.toggled(one));
            let recording = record(self);
            self.model.switches = switches;
            recording
        };
        let own = recorded(None)?;
        let mut idle = Vec::new();
        for one in Optimisation::ALL.into_iter().filter(|one| one.phase() == phase && one.is_recorded()) {
            if same(&own, &recorded(Some(one))?) {
                idle.push(one);
            }
        }
        Ok(idle)
    }
}

/// True if both launch the same kernels in the same shapes and order.
fn same(one: &Recording, other: &Recording) -> bool {
    let (one, other) = (one.dispatches(), other.dispatches());
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.kernel.key() == other.kernel.key()
                && one.kernel.entry() == other.kernel.entry()
                && (one.groups, &one.params) == (other.groups, &other.params)
        })
}
