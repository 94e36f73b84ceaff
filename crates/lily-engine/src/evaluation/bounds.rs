//! How far a path may be from the reference: the numbers of `docs/precision.md`.

use super::{Evaluation, EvaluationReport};

/// What a path must keep, over at least [`Bounds::MIN_POSITIONS`] positions of which at least a third are chats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Largest mean KL(reference ‖ path), nats.
    pub mean_kl: f64,
    /// Smallest share of equal top-1 tokens where the reference's margin is clear.
    pub top1_clear: f64,
    /// How many standard errors the perplexity may be off.
    pub standard_errors: f64,
}

impl Bounds {
    /// Positions below which the figures say too little.
    pub const MIN_POSITIONS: usize = 2_000;

    /// bf16 activations, f32 residual stream.
    pub const BF16: Self = Self::with_mean_kl(2e-3);
    /// bf16 activations and residual stream.
    pub const BF16_RESIDUAL: Self = Self::with_mean_kl(1e-2);
    /// int8 activations.
    pub const INT8: Self = Self::with_mean_kl(2e-2);
    /// f32 activations, sums in another order.
    pub const F32: Self = Self::with_mean_kl(1e-6);

    const fn with_mean_kl(mean_kl: f64) -> Self {
        Self { mean_kl, top1_clear: 0.99, standard_errors: 3.0 }
    }

    /// Checks everything together, and the text and the chats each by itself.
    ///
    /// The perplexity is held to twice: its distance to the reference's against the standard error of the reference's
    /// perplexity, and, more sharply, the mean paired difference against its own standard error, beyond the shift that
    /// the allowed KL itself may bring.
    ///
    /// # Errors
    /// Every bound that is broken, one a line.
    pub fn check(&self, report: &EvaluationReport) -> Result<(), String> {
        let mut broken = Vec::new();
        if report.all.positions < Self::MIN_POSITIONS {
            broken.push(format!(
                "{} positions; at least {} are needed",
                report.all.positions,
                Self::MIN_POSITIONS
            ));
        }
        if report.chat.positions * 3 < report.all.positions
            || report.text.positions * 3 < report.all.positions
        {
            broken
                .push(format!("{} chat and {} text positions", report.chat.positions, report.text.positions));
        }
        for (name, part) in [("all", &report.all), ("text", &report.text), ("chat", &report.chat)] {
            self.check_part(name, part, &mut broken);
        }
        if broken.is_empty() { Ok(()) } else { Err(broken.join("\n")) }
    }

    fn check_part(&self, name: &str, part: &Evaluation, broken: &mut Vec<String>) {
        // Each comparison is written so that a NaN breaks it.
        let mut hold = |what: &str, value: f64, limit: f64| {
            if value.is_nan() || value > limit {
                broken.push(format!("{name}: {what} is {value:.3e}, at most {limit:.3e} is allowed"));
            }
        };
        hold("mean KL", part.mean_kl, self.mean_kl);
        hold("share of clear top-1 disagreements", 1.0 - part.top1_clear.share(), 1.0 - self.top1_clear);
        hold(
            "distance of the perplexities",
            (part.perplexity() - part.reference_perplexity()).abs(),
            self.standard_errors * part.reference_perplexity_standard_error(),
        );
        hold(
            "mean difference of the negative log-likelihood",
            part.mean_nll_difference.abs(),
            self.mean_kl + self.standard_errors * part.nll_difference_standard_error,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::Agreement;

    fn good() -> EvaluationReport {
        let part = |positions| Evaluation {
            positions,
            mean_kl: 1e-3,
            top1: Agreement { equal: positions, of: positions },
            top1_clear: Agreement { equal: positions / 2, of: positions / 2 },
            targets: positions,
            mean_nll: 2.001,
            nll_standard_error: 0.05,
            reference_mean_nll: 2.0,
            reference_nll_standard_error: 0.05,
            mean_nll_difference: 0.001,
            nll_difference_standard_error: 1e-3,
            ..Evaluation::default()
        };
        EvaluationReport { all: part(2000), text: part(1000), chat: part(1000) }
    }

    #[test]
    fn each_bound_can_break() {
        assert_eq!(Bounds::BF16.check(&good()), Ok(()));
        type Spoil = fn(&mut EvaluationReport);
        let breaks: [(&str, Spoil); 7] = [
            ("1999 positions", |r| r.all.positions = 1999),
            ("chat and 1000 text positions", |r| r.chat.positions = 500),
            ("chat: mean KL", |r| r.chat.mean_kl = 3e-3),
            ("all: mean KL", |r| r.all.mean_kl = f64::NAN),
            ("text: share of clear", |r| r.text.top1_clear.equal -= 11),
            ("all: distance of the perplexities", |r| r.all.mean_nll = 2.2),
            ("all: mean difference", |r| r.all.mean_nll_difference = -6e-3),
        ];
        for (wanted, spoil) in breaks {
            let mut report = good();
            spoil(&mut report);
            let error = Bounds::BF16.check(&report).expect_err(wanted);
            assert!(error.contains(wanted), "{error:?} does not say {wanted:?}");
        }
    }
}
