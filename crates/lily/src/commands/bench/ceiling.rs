//! What the machine can do at best, measured beside the benchmark.

use super::series;
use lily_gpu::GpuBackend;
use std::fmt;

/// Passes over the memory; their median counts.
const ROUNDS: usize = 5;

/// The machine's ceilings of a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ceilings {
    /// Bytes read per second over all threads, in GB (1e9); on a GPU, bytes moved by a copy.
    pub(super) read_gb_per_s: f64,
}

impl fmt::Display for Ceilings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {:.1} GB/s", self.read_gb_per_s)
    }
}

/// Measures with so many threads (all cores if not given); `None`, with a warning, if the machine does not let us.
pub(super) fn measure(threads: Option<usize>) -> Option<Ceilings> {
    match lily_cpu::read_bandwidth(threads, ROUNDS) {
        Ok(rounds) if !rounds.is_empty() => Some(Ceilings { read_gb_per_s: series::median(&rounds) }),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!("{error}; no floors will be told");
            None
        }
    }
}

/// What a copy inside a GPU's memory moves, read and written counted.
pub(super) fn of_gpu(backend: &GpuBackend) -> Option<Ceilings> {
    match backend.copy_bandwidth(ROUNDS) {
        Ok(rounds) => Some(Ceilings { read_gb_per_s: series::median(&rounds) / 1e9 }),
        Err(error) => {
            tracing::warn!("{error}; no floors will be told");
            None
        }
    }
}
