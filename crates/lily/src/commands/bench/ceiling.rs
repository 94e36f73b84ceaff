//! What the machine can do at best, measured beside the benchmark.

use std::{fmt, hint::black_box, thread, time::Instant};

/// The machine's ceilings of a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ceilings {
    /// Bytes read per second over all threads, in GB (1e9).
    pub(super) read_gb_per_s: f64,
}

impl fmt::Display for Ceilings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {:.1} GB/s", self.read_gb_per_s)
    }
}

/// Bytes that all threads read together: far more than any cache holds.
const BYTES: usize = 512 << 20;
const ROUNDS: usize = 7;

/// Measures with so many threads (all cores if not given): the median of several passes over a large buffer.
pub(super) fn measure(threads: Option<usize>) -> Ceilings {
    let threads = threads.or_else(|| thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let buffer = vec![1_u64; BYTES / size_of::<u64>()];
    let share = buffer.len().div_ceil(threads).max(1);
    let pass = || {
        let start = Instant::now();
        thread::scope(|scope| {
            for part in buffer.chunks(share) {
                scope.spawn(move || black_box(sum(part)));
            }
        });
        BYTES as f64 / 1e9 / start.elapsed().as_secs_f64()
    };
    let rates: Vec<f64> = (0..ROUNDS).map(|_| pass()).collect();
    Ceilings { read_gb_per_s: super::series::median(&rates) }
}

/// Independent lanes, so that the loop waits for memory and not for its own additions.
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0_u64; 32];
    for chunk in words.chunks_exact(lanes.len()) {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}
