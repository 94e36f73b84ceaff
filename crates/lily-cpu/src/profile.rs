//! Time and bytes per operation, for `lily bench --ops`.

use std::time::{Duration, Instant};

/// The operations that a profile tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Op {
    /// Embedding rows.
    Embed,
    /// RMSNorms of the residual stream and quantisation of activations.
    Norm,
    /// Input projections of Gated DeltaNet.
    GdnIn,
    /// Convolution, gated delta rule and gated norm.
    GdnScan,
    /// Output projection of Gated DeltaNet.
    GdnOut,
    /// Query, gate, key and value projections.
    AttentionIn,
    /// Head norms, rotary embedding, KV write and attention itself.
    Attend,
    /// Output projection of attention.
    AttentionOut,
    /// Router, top-k and grouping.
    Router,
    /// Gate and up projections of the routed and the shared experts.
    ExpertIn,
    /// Down projections of the experts, weighted and added up.
    ExpertOut,
    /// The vocabulary.
    Head,
}

impl Op {
    /// All operations in the order of the model.
    pub const ALL: [Self; 12] = [
        Self::Embed,
        Self::Norm,
        Self::GdnIn,
        Self::GdnScan,
        Self::GdnOut,
        Self::AttentionIn,
        Self::Attend,
        Self::AttentionOut,
        Self::Router,
        Self::ExpertIn,
        Self::ExpertOut,
        Self::Head,
    ];

    /// A short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::Norm => "norm",
            Self::GdnIn => "gdn-in",
            Self::GdnScan => "gdn-scan",
            Self::GdnOut => "gdn-out",
            Self::AttentionIn => "attention-in",
            Self::Attend => "attend",
            Self::AttentionOut => "attention-out",
            Self::Router => "router",
            Self::ExpertIn => "expert-in",
            Self::ExpertOut => "expert-out",
            Self::Head => "head",
        }
    }
}

/// What one operation took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpStats {
    /// Calls.
    pub calls: u64,
    /// Wall time.
    pub time: Duration,
    /// Bytes of weights and state that had to be moved from memory at least once.
    pub bytes: u64,
    /// Multiply-adds times two.
    pub operations: u64,
}

/// Totals per operation since the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    stats: [OpStats; Op::ALL.len()],
}

impl Profile {
    /// What `op` took.
    pub fn of(&self, op: Op) -> OpStats {
        self.stats[op as usize]
    }

    /// Every operation that was called, in the order of the model.
    pub fn iter(&self) -> impl Iterator<Item = (Op, OpStats)> + '_ {
        Op::ALL.into_iter().map(|op| (op, self.of(op))).filter(|(_, stats)| stats.calls > 0)
    }

    /// Counts one call begun at `start`.
    pub(crate) fn add(&mut self, op: Op, start: Instant, bytes: usize, operations: usize) {
        let stats = &mut self.stats[op as usize];
        stats.calls += 1;
        stats.time += start.elapsed();
        stats.bytes += bytes as u64;
        stats.operations += operations as u64;
    }
}
