//! The rounds of one shape.

use lily_cpu::Profile;
use lily_gpu::{Optimisation, Switches};
use std::time::Duration;

/// What a series measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A prompt of so many tokens, from an empty state.
    Prefill { tokens: usize },
    /// So many steps after a context.
    Decode { context: usize, steps: usize },
}

impl Shape {
    /// As in the table.
    pub(super) fn name(self) -> String {
        match self {
            Self::Prefill { tokens } => format!("prefill {tokens}"),
            Self::Decode { context, .. } => format!("decode @{context}"),
        }
    }

    /// Tokens per round.
    pub(super) fn tokens(self) -> usize {
        match self {
            Self::Prefill { tokens } => tokens,
            Self::Decode { steps, .. } => steps,
        }
    }
}

/// Times of the measured rounds, at least one.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) shape: Shape,
    /// The one optimisation that was switched, if this is a row of an ablation.
    pub(super) without: Option<Optimisation>,
    /// Decoded with the checkpoint's own sampling, not greedily.
    pub(super) sampled: bool,
    pub(super) rounds: Vec<Duration>,
    /// Of one more round.
    pub(super) profile: Option<Profile>,
    /// Distinct ids among the decoded tokens of the last round.
    pub(super) distinct: Option<usize>,
}

impl Series {
    /// As in the table.
    pub(super) fn name(&self) -> String {
        let sampled = if self.sampled { " sampled" } else { "" };
        let switched = |one: Optimisation| {
            // What is off by default was switched on.
            let how = if Switches::default().has(one) { "without" } else { "with" };
            format!(" {how} {one}")
        };
        let without = self.without.map(switched).unwrap_or_default();
        format!("{}{sampled}{without}", self.shape.name())
    }

    /// Tokens per second of each round, in order.
    pub(super) fn rates(&self) -> Vec<f64> {
        let tokens = self.shape.tokens() as f64;
        self.rounds.iter().map(|time| tokens / time.as_secs_f64().max(1e-9)).collect()
    }

    /// The middle rate (the mean of the middle two of an even count).
    pub(super) fn median(&self) -> f64 {
        median(&self.rates())
    }

    /// Slowest and fastest round.
    pub(super) fn range(&self) -> (f64, f64) {
        let rates = self.rates();
        (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max))
    }

    /// The range as a share of the median.
    pub(super) fn spread(&self) -> f64 {
        let (slowest, fastest) = self.range();
        (fastest - slowest) / self.median()
    }

    /// True if the model keeps repeating itself: on random weights, at least 60 of 64 greedy tokens must differ, or it
    /// is not the model that runs.
    pub(super) fn repeats_itself(&self) -> bool {
        self.distinct.is_some_and(|distinct| distinct * 64 < self.shape.tokens() * 60)
    }
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_range_and_spread() {
        let rounds = [100, 50, 200].map(Duration::from_millis).to_vec();
        let series = Series {
            shape: Shape::Prefill { tokens: 10 },
            rounds,
            profile: None,
            distinct: None,
            without: None,
            sampled: false,
        };
        assert_eq!(series.rates(), [100.0, 200.0, 50.0]);
        assert_eq!((series.median(), series.range(), series.spread()), (100.0, (50.0, 200.0), 1.5));
        assert_eq!(median(&[4.0, 1.0]), 2.5);
    }

    #[test]
    fn sixty_of_sixty_four_must_differ() {
        let series = |distinct| Series {
            shape: Shape::Decode { context: 1, steps: 64 },
            rounds: vec![Duration::from_secs(1)],
            profile: None,
            distinct: Some(distinct),
            without: None,
            sampled: false,
        };
        assert!(series(59).repeats_itself());
        assert!(!series(60).repeats_itself());
    }
}
