//! Chooses the next token from logits.

use crate::penalties::Penalties;
use crate::random;
use crate::selection::{self, Candidate};
use crate::{GenerationError, SamplingParams, TokenId, TokenLogprob, TokenMask};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Chooses the tokens of one generation.
///
/// For each token, in this order:
///
/// 1. every logit must be finite, else the generation ends with [`GenerationError::BadLogits`];
/// 2. `logit_bias` is added;
/// 3. the repetition penalty (prompt and answer, last [`SamplingParams::repetition_window`] tokens), then
///    presence and frequency penalty (answer);
/// 4. bans: a bias of -100, ids without a token, a constraint's mask; and if a token with a bias of 100 is left,
///    all others;
/// 5. log-probabilities are those of the softmax here;
/// 6. greedy takes the best (of equal ones the lowest id); else logits are divided by the temperature;
/// 7. top-k; then top-p: the fewest best candidates with this share of what top-k left; then min-p;
/// 8. the draw. The noise of token `id` in the choice of the answer's `step`-th token (from 0), with a seed `s`, is
///
///    ```text
///    key     = (s mod 2^32, s div 2^32)
///    counter = (id div 4, step mod 2^32, step div 2^32, 0)
///    x       = word number (id mod 4) of Philox4x32-10(counter, key)
///    v       = (x + 0.5) / 2^32, rounded to f32, at most 1 - 2^-24
///    noise   = -ln(-ln(1 - v))
///    ```
///
///    and the candidate with the greatest `(logit - best) / temperature + noise` is chosen (of equal ones the lowest
///    id): the Gumbel-max trick, a draw from the softmax of the candidates. A choice is a function of the request
///    and the logits alone: it depends neither on what else is in a batch nor on the order of a sum, and a device
///    kernel can make the same one.
///
/// ```
/// # use lily_engine::{Sampler, SamplingParams, TokenId, TokenMask};
/// let params = SamplingParams { temperature: 1.0, seed: Some(7), ..SamplingParams::default() };
/// let sampler = || Sampler::new(&params, &[TokenId(1)], TokenMask::all(3).into(), None);
/// let (mut one, mut other) = (sampler(), sampler());
/// for _ in 0..10 {
///     let logits = [0.1, 0.2, 0.3];
///     assert_eq!(one.choose(&mut logits.clone(), None)?.id, other.choose(&mut logits.clone(), None)?.id);
/// }
/// # Ok::<(), lily_engine::GenerationError>(())
/// ```
#[derive(Debug)]
pub struct Sampler {
    temperature: f32,
    top_k: usize,
    top_p: f32,
    min_p: f32,
    /// Bias by token, those that ban or force included.
    bias: Vec<(TokenId, f32)>,
    forcing: bool,
    penalties: Penalties,
    /// The rows that have a token.
    tokens: Arc<TokenMask>,
    logprobs: Option<usize>,
    seed: u64,
    prompt_len: usize,
    step: u64,
    /// Reused from step to step.
    candidates: Vec<Candidate>,
}

/// A token that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The token.
    pub id: TokenId,
    /// When asked for.
    pub logprob: Option<TokenLogprob>,
}

/// A bias that bans, and its opposite that forces.
const CERTAIN: f32 = 100.0;

impl Sampler {
    /// A sampler for one generation. `params` must have passed [`SamplingParams::validate`]; `tokens` are the rows of
    /// the logits that have a token; `logprobs` asks for log-probabilities of the chosen and of so many best tokens.
    #[must_use]
    pub fn new(
        params: &SamplingParams,
        prompt: &[TokenId],
        tokens: Arc<TokenMask>,
        logprobs: Option<usize>,
    ) -> Self {
        let mut bias = BTreeMap::new();
        for &(id, value) in &params.logit_bias {
            *bias.entry(id).or_insert(0.0) += value;
        }
        let bias: Vec<(TokenId, f32)> = bias.into_iter().collect();
        Self {
            temperature: params.temperature,
            top_k: params.top_k,
            top_p: params.top_p,
            min_p: params.min_p,
            forcing: bias.iter().any(|&(_, value)| value >= CERTAIN),
            bias,
            penalties: Penalties::new(params, prompt),
            tokens,
            logprobs,
            seed: params.seed.unwrap_or_else(random::fresh_seed),
            prompt_len: prompt.len(),
            step: 0,
            candidates: Vec::new(),
        }
    }

    /// Chooses the next token and takes note of it. `logits` (`[vocab]`, of any one row) are changed on the way;
    /// `allowed` is a constraint's mask.
    ///
    /// # Errors
    /// [`GenerationError::BadLogits`] or [`GenerationError::NothingToSample`].
    pub fn choose(
        &mut self,
        logits: &mut [f32],
        allowed: Option<&TokenMask>,
    ) -> Result<Choice, GenerationError> {
        if let Some(what) = selection::not_finite(logits) {
            return Err(self.bad_logits(what));
        }
        self.adjust(logits, allowed);
        let best = selection::best(logits).ok_or(GenerationError::NothingToSample)?;
        let id = if self.temperature == 0.0 { best.id } else { self.draw(logits, best) };
        let logprob = self.logprobs.map(|count| self.log_probabilities(logits, best, id, count));
        self.record(id);
        Ok(Choice { id, logprob })
    }

    /// The seed in use: the request's, or one made for it.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Takes note of a token that somebody else chose.
    pub(crate) fn record(&mut self, id: TokenId) {
        self.penalties.record(id);
        self.step += 1;
    }

    /// The error of logits that are not finite.
    pub(crate) fn bad_logits(&self, what: &'static str) -> GenerationError {
        GenerationError::BadLogits { what, position: self.prompt_len + self.step as usize }
    }

    /// Bias, penalties and bans.
    fn adjust(&self, logits: &mut [f32], allowed: Option<&TokenMask>) {
        for &(id, bias) in &self.bias {
            if let Some(logit) = logits.get_mut(id.0 as usize) {
                *logit += bias;
            }
        }
        self.penalties.apply(logits);
        for &(id, _) in self.bias.iter().filter(|&&(_, bias)| bias <= -CERTAIN) {
            if let Some(logit) = logits.get_mut(id.0 as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
        self.tokens.apply(logits);
        if let Some(allowed) = allowed {
            allowed.apply(logits);
        }
        if self.forcing {
            self.force(logits);
        }
    }

    /// Bans all but the forced tokens, if one of those can be chosen.
    fn force(&self, logits: &mut [f32]) {
        let forced: Vec<(usize, f32)> = self
            .bias
            .iter()
            .filter(|&&(_, bias)| bias >= CERTAIN)
            .filter_map(|&(id, _)| Some((id.0 as usize, *logits.get(id.0 as usize)?)))
            .filter(|&(_, logit)| logit != f32::NEG_INFINITY)
            .collect();
        if !forced.is_empty() {
            logits.fill(f32::NEG_INFINITY);
            for (index, logit) in forced {
                logits[index] = logit;
            }
        }
    }

    /// Draws among the candidates that top-k, top-p and min-p leave.
    fn draw(&mut self, logits: &[f32], best: Candidate) -> TokenId {
        if self.top_k == 1 {
            return best.id;
        }
        let ranked = (self.top_k > 0 && self.top_k < logits.len()) || self.top_p < 1.0;
        if !ranked && self.min_p == 0.0 {
            return self.draw_of_all(logits, best);
        }
        if ranked {
            self.rank(logits, best);
        } else {
            // A little less than the border, which the weights below decide exactly.
            let least = best.logit + self.temperature * self.min_p.ln() * 1.00001 - 1e-4;
            selection::at_least(logits, least, &mut self.candidates);
        }
        let least_weight = f64::from(self.min_p);
        let mut winner = (f64::NEG_INFINITY, best.id);
        for candidate in &self.candidates {
            if weight(candidate.logit, best.logit, self.temperature) < least_weight {
                continue;
            }
            let noise = random::gumbel(random::word(self.seed, self.step, candidate.id.0));
            let score = scaled(candidate.logit, best.logit, self.temperature) + noise;
            if score > winner.0 || (score == winner.0 && candidate.id < winner.1) {
                winner = (score, candidate.id);
            }
        }
        winner.1
    }

    /// Leaves in `self.candidates` those of top-k and top-p, best first.
    fn rank(&mut self, logits: &[f32], best: Candidate) {
        /// Candidates looked at first when only top-p bounds them; a nucleus is seldom larger.
        const FIRST_LOOK: usize = 256;
        let weight = |candidate: &Candidate| weight(candidate.logit, best.logit, self.temperature);
        let bounded = self.top_k > 0 && self.top_k < logits.len();
        let mut count = if bounded { self.top_k } else { FIRST_LOOK };
        selection::top(logits, count, &mut self.candidates);
        if self.top_p >= 1.0 {
            return;
        }
        let total = if bounded {
            self.candidates.iter().map(weight).sum()
        } else {
            selection::sum_of_weights(logits, best.logit, self.temperature)
        };
        let share = f64::from(self.top_p) * total;
        loop {
            let mut mass = 0.0;
            for (index, candidate) in self.candidates.iter().enumerate() {
                mass += weight(candidate);
                if mass >= share {
                    self.candidates.truncate(index + 1);
                    return;
                }
            }
            if bounded || self.candidates.len() < count || count >= logits.len() {
                return;
            }
            count = count.saturating_mul(8);
            selection::top(logits, count, &mut self.candidates);
        }
    }

    /// Draws among all tokens. Most are passed over by a bound, before a logarithm or even a random number is made.
    fn draw_of_all(&self, logits: &[f32], best: Candidate) -> TokenId {
        let noise = random::gumbel(random::word(self.seed, self.step, best.id.0));
        let mut winner = (noise, best.id);
        for (block, four) in (0u32..).zip(logits.chunks(4)) {
            let block_best = four.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
            if scaled(block_best, best.logit, self.temperature) + random::MAX_GUMBEL < winner.0 {
                continue;
            }
            let words = random::words(self.seed, self.step, block);
            for ((id, &logit), word) in (4 * block..).zip(four).zip(words) {
                let score = scaled(logit, best.logit, self.temperature);
                if score + random::gumbel_bound(word) < winner.0 {
                    continue;
                }
                let score = score + random::gumbel(word);
                if score > winner.0 || (score == winner.0 && id < winner.1.0) {
                    winner = (score, TokenId(id));
                }
            }
        }
        winner.1
    }

    /// Log-probabilities of the chosen token and of the `count` best.
    fn log_probabilities(
        &mut self,
        logits: &[f32],
        best: Candidate,
        id: TokenId,
        count: usize,
    ) -> TokenLogprob {
        let log_sum = selection::sum_of_weights(logits, best.logit, 1.0).ln();
        let of = |logit: f32| (f64::from(logit) - f64::from(best.logit) - log_sum).min(0.0) as f32;
        selection::top(logits, count, &mut self.candidates);
        TokenLogprob {
            id,
            logprob: of(logits[id.0 as usize]),
            top: self.candidates.iter().map(|candidate| (candidate.id, of(candidate.logit))).collect(),
        }
    }
}

/// A logit after temperature, relative to the best: 0 or less, never NaN however small the temperature.
fn scaled(logit: f32, best: f32, temperature: f32) -> f64 {
    (f64::from(logit) - f64::from(best)) / f64::from(temperature)
}

/// A candidate's probability relative to the best one's, in [0, 1].
fn weight(logit: f32, best: f32, temperature: f32) -> f64 {
    scaled(logit, best, temperature).exp()
}
