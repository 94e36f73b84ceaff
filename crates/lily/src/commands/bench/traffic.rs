//! The bytes that a token needs: what no implementation can avoid moving.

use crate::{cli::PrecisionChoice, memory};
use lily_checkpoint::{Checkpoint, Part};

/// Bytes per decoded token, by what they depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Weights: mixers, routers, the experts that one token takes, the head, one row of the embedding.
    pub(super) weights: u64,
    /// Recurrent state, read and written.
    pub(super) state: u64,
    /// KV rows, per token of context.
    pub(super) kv_per_token: u64,
    /// Every weight but the embedding once: the least that a prefill of many tokens reads.
    pub(super) all_weights: u64,
}

impl Traffic {
    pub(super) fn of(checkpoint: &Checkpoint, precision: Option<PrecisionChoice>) -> Self {
        let (config, summary) = (&checkpoint.config, checkpoint.summary());
        let total = summary.total();
        let embedding =
            summary.parts.iter().find(|(part, _)| *part == Part::Embedding).map_or(0, |(_, size)| size.bytes);
        // A tied head is the embedding.
        let not_read = if config.tie_word_embeddings { 0 } else { embedding };
        Self {
            weights: total.active_bytes,
            state: 2 * memory::recurrent_bytes(config),
            kv_per_token: memory::kv_bytes_per_token(config, precision),
            all_weights: total.bytes - not_read,
        }
    }

    /// Bytes for one decoded token after a context.
    pub(super) fn decode(&self, context: usize) -> u64 {
        self.weights + self.state + self.kv_per_token * context as u64
    }
}
