//! What every step of the forward pass works with: threads, kernels, precision, profile.

use crate::{
    Op, Precision, Profile,
    pool::{Pool, WorkerLocal},
    scratch::Scratch,
    simd::Kernels,
};
use std::time::Instant;

/// The machine as the model sees it.
pub(crate) struct Machine {
    /// Threads.
    pub pool: Pool,
    /// One set of small buffers per thread.
    pub scratch: WorkerLocal<Scratch>,
    /// Kernels of the chosen instruction set.
    pub kernels: &'static Kernels,
    /// What activations are rounded to.
    pub precision: Precision,
    /// Collected while it is there.
    pub profile: Option<Box<Profile>>,
}

impl Machine {
    /// The start of an operation; free when no profile is collected.
    pub(crate) fn start(&self) -> Option<Instant> {
        self.profile.is_some().then(Instant::now)
    }

    /// The end of an operation that moved `bytes` and did `operations`.
    pub(crate) fn stop(&mut self, start: Option<Instant>, op: Op, bytes: usize, operations: usize) {
        if let (Some(start), Some(profile)) = (start, &mut self.profile) {
            profile.add(op, start, bytes, operations);
        }
    }

    /// Parts of a region over `bytes` of work in `units` equal units: units per task, so that a task is neither so
    /// small that taking it costs, nor so large that threads wait for the last one.
    pub(crate) fn units_per_task(&self, units: usize, bytes: usize) -> usize {
        const TASK: usize = 256 << 10;
        let by_size = (units * TASK).checked_div(bytes).unwrap_or(units).max(1);
        let by_threads = units.div_ceil(self.pool.threads() * 4).max(1);
        by_size.min(by_threads)
    }
}
