//! What an engine has done so far, in numbers.

use std::time::Duration;

/// A snapshot of an engine's counters. Gauges are of this moment, the rest counts from the start.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Generations that hold a state now (gauge).
    pub running: usize,
    /// Generations that wait for a place now (gauge).
    pub waiting: usize,
    /// False once the engine takes no more requests (gauge).
    pub accepting: bool,
    /// Requests taken.
    pub accepted: u64,
    /// Requests refused because too many were waiting.
    pub refused_busy: u64,
    /// Generations that finished.
    pub finished: u64,
    /// Generations that failed.
    pub failed: u64,
    /// Generations that were cancelled or ran past their deadline.
    pub cancelled: u64,
    /// Prompt tokens of the generations that were started.
    pub prompt_tokens: u64,
    /// Those of them that came from a snapshot.
    pub cached_tokens: u64,
    /// Tokens that the backend consumed in prefill.
    pub prefilled_tokens: u64,
    /// Tokens chosen.
    pub generated_tokens: u64,
    /// Those of them that the backend chose itself; the engine chose the others from logits.
    pub backend_tokens: u64,
    /// Batched decode steps.
    pub decode_steps: u64,
    /// Sequences in all decode steps together; over `decode_steps` it is the mean batch.
    pub decoded_sequences: u64,
    /// Started generations that found a snapshot.
    pub cache_hits: u64,
    /// Started generations that found none.
    pub cache_misses: u64,
    /// Snapshots held (gauge).
    pub snapshots: usize,
    /// Bytes of snapshots held (gauge).
    pub snapshot_bytes: usize,
    /// Time in the backend's prefill.
    pub prefill_time: Duration,
    /// Time in the backend's decode, its own choices included.
    pub decode_time: Duration,
    /// Time choosing tokens.
    pub sampling_time: Duration,
    /// The longest round in which a stream waited for its next token, and what it was spent on.
    pub longest_round: Round,
}

/// One round of the engine: at most one chunk of prompts is read, and every sequence that has been read gets a token. So
/// it is how long a stream waits between two of its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Round {
    /// All of it.
    pub total: Duration,
    /// In the backend's prefill.
    pub prefill: Duration,
    /// In the backend's decode.
    pub decode: Duration,
    /// Choosing tokens.
    pub sampling: Duration,
}

impl Metrics {
    /// Takes note of a round that began when these counters were `before`, and took `total`.
    pub(crate) fn end_round(&mut self, before: &RoundStart, total: Duration) {
        if total > self.longest_round.total {
            self.longest_round = Round {
                total,
                prefill: self.prefill_time.saturating_sub(before.prefill),
                decode: self.decode_time.saturating_sub(before.decode),
                sampling: self.sampling_time.saturating_sub(before.sampling),
            };
        }
    }

    /// The counters that a round adds to.
    pub(crate) fn start_round(&self) -> RoundStart {
        RoundStart { prefill: self.prefill_time, decode: self.decode_time, sampling: self.sampling_time }
    }
}

/// Counters at the start of a round.
pub(crate) struct RoundStart {
    prefill: Duration,
    decode: Duration,
    sampling: Duration,
}
