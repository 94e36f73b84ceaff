//! The metrics: one [`Comparison`] takes positions one at a time and ends in an [`Evaluation`].

use crate::TokenId;
use std::fmt;

/// A reference's margin (nats between its best and second token) above which another top-1 is a disagreement and not
/// a near tie.
pub const CLEAR_MARGIN: f32 = 0.5;

/// What the reference says about one position.
#[derive(Debug, Clone, Copy)]
pub enum Distribution<'a> {
    /// The best tokens only, best first, with their natural log-probabilities; what they leave is one lump.
    Top {
        /// Token ids.
        ids: &'a [TokenId],
        /// Natural log-probabilities, as many as `ids`.
        logprobs: &'a [f32],
    },
    /// Logits of the whole vocabulary.
    Full(&'a [f32]),
}

/// Counts of a yes-or-no question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Agreement {
    /// Positions where both agree.
    pub equal: usize,
    /// Positions asked.
    pub of: usize,
}

impl Agreement {
    /// Share of equal positions; 1 when nothing was asked.
    pub fn share(self) -> f64 {
        if self.of == 0 { 1.0 } else { self.equal as f64 / self.of as f64 }
    }

    fn push(&mut self, equal: bool) {
        self.of += 1;
        self.equal += usize::from(equal);
    }
}

/// The outcome over many positions. Logarithms are natural: nats.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Evaluation {
    /// Positions compared.
    pub positions: usize,
    /// Mean KL(reference ‖ path), nats. From top tokens only it is a lower bound: what lies outside them is one lump.
    pub mean_kl: f64,
    /// The worst position's.
    pub max_kl: f64,
    /// Largest difference of a log-probability over all tokens that the reference names.
    pub max_logprob_difference: f64,
    /// The same best token.
    pub top1: Agreement,
    /// The same, where the reference's margin exceeds [`CLEAR_MARGIN`].
    pub top1_clear: Agreement,
    /// Positions whose next token is known, so that a perplexity exists.
    pub targets: usize,
    /// Mean negative log-likelihood of the next token, nats.
    pub mean_nll: f64,
    /// Its standard error.
    pub nll_standard_error: f64,
    /// The reference's mean negative log-likelihood.
    pub reference_mean_nll: f64,
    /// Its standard error.
    pub reference_nll_standard_error: f64,
    /// Mean of the difference, path minus reference, position by position.
    pub mean_nll_difference: f64,
    /// The standard error of that mean.
    pub nll_difference_standard_error: f64,
}

impl Evaluation {
    /// `exp` of the mean negative log-likelihood.
    pub fn perplexity(&self) -> f64 {
        self.mean_nll.exp()
    }

    /// First-order standard error of the perplexity.
    pub fn perplexity_standard_error(&self) -> f64 {
        self.perplexity() * self.nll_standard_error
    }

    /// The reference's perplexity.
    pub fn reference_perplexity(&self) -> f64 {
        self.reference_mean_nll.exp()
    }

    /// First-order standard error of the reference's perplexity.
    pub fn reference_perplexity_standard_error(&self) -> f64 {
        self.reference_perplexity() * self.reference_nll_standard_error
    }
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "positions            {}", self.positions)?;
        writeln!(
            f,
            "perplexity           {:.4} ± {:.4} (reference {:.4} ± {:.4}, {} targets)",
            self.perplexity(),
            self.perplexity_standard_error(),
            self.reference_perplexity(),
            self.reference_perplexity_standard_error(),
            self.targets,
        )?;
        writeln!(
            f,
            "mean nll difference  {:+.2e} ± {:.1e} nats",
            self.mean_nll_difference, self.nll_difference_standard_error
        )?;
        writeln!(f, "KL(reference ‖ path) {:.2e} nats mean, {:.2e} worst", self.mean_kl, self.max_kl)?;
        writeln!(f, "log-probabilities    differ by at most {:.2e} nats", self.max_logprob_difference)?;
        write!(
            f,
            "top-1 agreement      {:.2} % of {}; {:.2} % of the {} whose reference margin exceeds {CLEAR_MARGIN} nats",
            100.0 * self.top1.share(),
            self.top1.of,
            100.0 * self.top1_clear.share(),
            self.top1_clear.of,
        )
    }
}

/// Mean and variance as they come in (Welford).
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn push(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    fn standard_error(&self) -> f64 {
        if self.count < 2.0 { 0.0 } else { (self.squares / (self.count - 1.0) / self.count).sqrt() }
    }
}

/// How far apart two predictions at one position are.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    kl: f64,
    logprob_difference: f64,
    equal: bool,
    clear: bool,
    /// Negative log-likelihoods of the next token: the path's, the reference's.
    nll: Option<(f64, f64)>,
}

impl Position {
    /// Compares `logits` (the path's, over the whole vocabulary) with the reference. `target` is the token that follows
    /// and the reference's log-probability of it, where both are known.
    ///
    /// A path that answers NaN makes every figure NaN or wrong: it is never taken for agreement.
    ///
    /// # Panics
    /// If the reference names a token beyond `logits`, has no two tokens, or differs in length: the reader of the
    /// reference checks this.
    pub fn measure(reference: Distribution<'_>, logits: &[f32], target: Option<(TokenId, f32)>) -> Self {
        let normaliser = log_sum_exp(logits);
        let logprob = |id: usize| f64::from(logits[id]) - normaliser;
        let (kl, logprob_difference, best, margin) = match reference {
            Distribution::Top { ids, logprobs } => {
                assert!(
                    ids.len() >= 2 && ids.len() == logprobs.len(),
                    "a reference row names at least two tokens"
                );
                let (mut kl, mut difference, mut rest) = (0.0_f64, 0.0_f64, 1.0_f64);
                let mut outside = logits.to_vec();
                for (id, &p) in ids.iter().zip(logprobs) {
                    let (id, p) = (id.0 as usize, f64::from(p));
                    let q = logprob(id);
                    kl += p.exp() * (p - q);
                    rest -= p.exp();
                    difference = max_or_nan(difference, (p - q).abs());
                    outside[id] = f32::NEG_INFINITY;
                }
                // What is left of the reference's mass, against what the path leaves outside the same tokens. Below
                // the rounding of the stored values it says nothing.
                if rest > 1e-6 {
                    kl += rest * (rest.ln() - (log_sum_exp(&outside) - normaliser));
                }
                (kl, difference, ids[0].0 as usize, logprobs[0] - logprobs[1])
            }
            Distribution::Full(reference) => {
                assert_eq!(reference.len(), logits.len(), "logits of two vocabularies");
                let reference_normaliser = log_sum_exp(reference);
                let (mut kl, mut difference) = (0.0_f64, 0.0_f64);
                for (&p, &q) in reference.iter().zip(logits) {
                    let (p, q) = (f64::from(p) - reference_normaliser, f64::from(q) - normaliser);
                    kl += p.exp() * (p - q);
                    difference = max_or_nan(difference, (p - q).abs());
                }
                let (best, margin) = best_and_margin(reference);
                (kl, difference, best, margin)
            }
        };
        Self {
            kl,
            logprob_difference,
            equal: best_and_margin(logits).0 == best && normaliser.is_finite(),
            clear: margin > CLEAR_MARGIN,
            nll: target.map(|(id, reference)| (-logprob(id.0 as usize), -f64::from(reference))),
        }
    }
}

/// Collects positions.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    kl: Moments,
    max_kl: f64,
    max_logprob_difference: f64,
    top1: Agreement,
    top1_clear: Agreement,
    nll: Moments,
    reference_nll: Moments,
    difference: Moments,
}

impl Comparison {
    /// Nothing collected yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one position.
    pub fn push(&mut self, position: &Position) {
        self.kl.push(position.kl);
        self.max_kl = max_or_nan(self.max_kl, position.kl);
        self.max_logprob_difference = max_or_nan(self.max_logprob_difference, position.logprob_difference);
        self.top1.push(position.equal);
        if position.clear {
            self.top1_clear.push(position.equal);
        }
        if let Some((nll, reference_nll)) = position.nll {
            self.nll.push(nll);
            self.reference_nll.push(reference_nll);
            self.difference.push(nll - reference_nll);
        }
    }

    /// The figures so far.
    pub fn evaluation(&self) -> Evaluation {
        Evaluation {
            positions: self.top1.of,
            mean_kl: self.kl.mean,
            max_kl: self.max_kl,
            max_logprob_difference: self.max_logprob_difference,
            top1: self.top1,
            top1_clear: self.top1_clear,
            targets: self.nll.count as usize,
            mean_nll: self.nll.mean,
            nll_standard_error: self.nll.standard_error(),
            reference_mean_nll: self.reference_nll.mean,
            reference_nll_standard_error: self.reference_nll.standard_error(),
            mean_nll_difference: self.difference.mean,
            nll_difference_standard_error: self.difference.standard_error(),
        }
    }
}

/// `ln Σ exp(x)`, in f64.
pub fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    if !max.is_finite() {
        return max;
    }
    max + logits.iter().map(|&x| (f64::from(x) - max).exp()).sum::<f64>().ln()
}

/// The larger value; a NaN on either side wins (`f64::max` would drop it).
fn max_or_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Index of the largest logit (the lowest one on a tie) and its distance to the second.
fn best_and_margin(logits: &[f32]) -> (usize, f32) {
    let (mut best, mut first, mut second) = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (id, &x) in logits.iter().enumerate() {
        if x > first {
            (best, second, first) = (id, first, x);
        } else if x > second {
            second = x;
        }
    }
    (best, first - second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logprobs(logits: &[f32]) -> Vec<f32> {
        let normaliser = log_sum_exp(logits);
        logits.iter().map(|&x| (f64::from(x) - normaliser) as f32).collect()
    }

    #[test]
    fn kl_of_two_coins() {
        // Reference (1/4, 3/4), path (1/2, 1/2): KL = 1/4 ln(1/2) + 3/4 ln(3/2).
        let reference = [0.25_f32.ln(), 0.75_f32.ln()];
        let mut comparison = Comparison::new();
        comparison.push(&Position::measure(
            Distribution::Full(&reference),
            &[0.0, 0.0],
            Some((TokenId(1), 0.75_f32.ln())),
        ));
        let e = comparison.evaluation();
        let kl = 0.25 * 0.5_f64.ln() + 0.75 * 1.5_f64.ln();
        assert!((e.mean_kl - kl).abs() < 1e-7, "{} against {kl}", e.mean_kl);
        assert!((e.max_logprob_difference - 2.0_f64.ln()).abs() < 1e-7);
        assert!((e.perplexity() - 2.0).abs() < 1e-7);
        assert!((e.reference_perplexity() - 4.0 / 3.0).abs() < 1e-6);
        assert_eq!(e.top1, Agreement { equal: 0, of: 1 });
        assert_eq!(e.top1_clear, Agreement { equal: 0, of: 1 });
    }

    #[test]
    fn top_tokens_bound_the_full_divergence_from_below() {
        let reference = [2.0_f32, 1.0, 0.3, -0.5, -1.0, 0.1];
        let path = [1.8_f32, 1.1, 0.0, -0.1, -1.3, 0.4];
        let lp = logprobs(&reference);
        let kl = |d| {
            let mut c = Comparison::new();
            c.push(&Position::measure(d, &path, None));
            c.evaluation().mean_kl
        };
        let full = kl(Distribution::Full(&reference));
        let all: Vec<TokenId> = [0, 1, 2, 5, 3, 4].map(TokenId).to_vec();
        let sorted: Vec<f32> = all.iter().map(|id| lp[id.0 as usize]).collect();
        let mut last = 0.0;
        for k in 2..=6 {
            let part = kl(Distribution::Top { ids: &all[..k], logprobs: &sorted[..k] });
            assert!(part >= last - 1e-9 && part <= full + 1e-6, "{k} tokens: {part}, full {full}");
            last = part;
        }
        assert!((last - full).abs() < 1e-6);
    }

    #[test]
    fn standard_errors_are_those_of_the_mean() {
        // Four positions with negative log-likelihoods ln 2 and ln 4, twice each: mean 1.5 ln 2, sd ln 2 / sqrt 3.
        let mut c = Comparison::new();
        for logits in [[0.0, 0.0], [0.0, 3.0_f32.ln()], [0.0, 0.0], [0.0, 3.0_f32.ln()]] {
            c.push(&Position::measure(Distribution::Full(&[1.0, 0.0]), &logits, Some((TokenId(0), -1.0))));
        }
        let e = c.evaluation();
        let ln2 = 2.0_f64.ln();
        assert!((e.mean_nll - 1.5 * ln2).abs() < 1e-7);
        assert!((e.nll_standard_error - ln2 / 3.0_f64.sqrt() / 2.0).abs() < 1e-7);
        assert_eq!(e.reference_nll_standard_error, 0.0);
        assert!((e.nll_difference_standard_error - e.nll_standard_error).abs() < 1e-12);
    }

    #[test]
    fn nan_is_never_agreement() {
        let mut c = Comparison::new();
        c.push(&Position::measure(
            Distribution::Full(&[1.0, 0.0]),
            &[f32::NAN, f32::NAN],
            Some((TokenId(0), -0.3)),
        ));
        c.push(&Position::measure(Distribution::Full(&[1.0, 0.0]), &[1.0, 0.0], Some((TokenId(0), -0.3))));
        let e = c.evaluation();
        assert!(
            e.mean_kl.is_nan()
                && e.max_kl.is_nan()
                && e.mean_nll.is_nan()
                && e.max_logprob_difference.is_nan()
        );
        assert_eq!(e.top1.equal, 1);
    }

    #[test]
    fn near_ties_do_not_count_as_clear() {
        let mut c = Comparison::new();
        c.push(&Position::measure(Distribution::Full(&[1.0, 0.9]), &[0.0, 1.0], None));
        c.push(&Position::measure(Distribution::Full(&[1.0, 0.0]), &[1.0, 0.0], None));
        let e = c.evaluation();
        assert_eq!(e.top1, Agreement { equal: 1, of: 2 });
        assert_eq!(e.top1_clear, Agreement { equal: 1, of: 1 });
    }
}
