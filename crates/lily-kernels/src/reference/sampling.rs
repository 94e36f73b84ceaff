//! The next token from logits, as written at `lily_engine::Sampler`, with nothing left out and nothing clever.

/// How a token is chosen; the fields of `lily_engine::SamplingParams` that matter for one choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Candidates; 0 is off.
    pub top_k: usize,
    /// Share of what top-k left; 1 is off.
    pub top_p: f32,
    /// Least share of the best candidate's probability; 0 is off.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens in the window.
    pub repetition: f32,
    /// Subtracted from each token that was generated.
    pub presence: f32,
    /// Subtracted for each time.
    pub frequency: f32,
    /// Of the random numbers.
    pub seed: u64,
}

/// Adds a bias to each logit, applies the penalties (`in_window` and `generated` count each token) and bans what is not
/// allowed.
pub fn adjust_logits(
    logits: &mut [f32],
    sampling: &Sampling,
    bias: &[f32],
    (in_window, generated): (&[u32], &[u32]),
    allowed: &[bool],
) {
    for (id, logit) in logits.iter_mut().enumerate() {
        *logit += bias[id];
        if in_window[id] > 0 {
            let r = sampling.repetition;
            *logit = if *logit > 0.0 { *logit / r } else { *logit * r }.clamp(-1e30, 1e30);
        }
        if generated[id] > 0 {
            *logit -= sampling.presence + sampling.frequency * generated[id] as f32;
        }
        if !allowed[id] {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// The choice of the answer's `step`-th token from adjusted logits; `None` if all are banned.
pub fn choose(logits: &[f32], sampling: &Sampling, step: u64) -> Option<usize> {
    let mut candidates: Vec<usize> = (0..logits.len()).filter(|&id| logits[id] > f32::NEG_INFINITY).collect();
    candidates.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    let best = *candidates.first()?;
    if sampling.temperature == 0.0 {
        return Some(best);
    }
    if sampling.top_k > 0 {
        candidates.truncate(sampling.top_k);
    }
    let scaled =
        |id: usize| (f64::from(logits[id]) - f64::from(logits[best])) / f64::from(sampling.temperature);
    if sampling.top_p < 1.0 {
        let share = f64::from(sampling.top_p) * candidates.iter().map(|&id| scaled(id).exp()).sum::<f64>();
        let mut mass = 0.0;
        let kept = candidates.iter().position(|&id| {
            mass += scaled(id).exp();
            mass >= share
        });
        candidates.truncate(kept.map_or(usize::MAX, |kept| kept + 1));
    }
    candidates.retain(|&id| scaled(id).exp() >= f64::from(sampling.min_p));
    candidates.sort_unstable();
    let score = |id: usize| scaled(id) + gumbel(word(sampling.seed, step, id as u32));
    candidates.into_iter().reduce(|winner, id| if score(id) > score(winner) { id } else { winner })
}

/// `-ln(-ln(1 - v))` with `v = (word + 0.5) / 2^32` in f32, at most `1 - 2^-24`.
pub fn gumbel(word: u32) -> f64 {
    let v = ((f64::from(word) + 0.5) / 4_294_967_296.0) as f32;
    -(-(f64::from(-v.min(1.0 - f32::EPSILON / 2.0)).ln_1p())).ln()
}

/// The random word of a token in a choice: word `id % 4` of Philox4x32-10 with counter `(id / 4, step, 0)` and the seed as
/// key.
pub fn word(seed: u64, step: u64, id: u32) -> u32 {
    let (mut c, mut k) = ([id / 4, step as u32, (step >> 32) as u32, 0], [seed as u32, (seed >> 32) as u32]);
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c[(id % 4) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of Philox4x32-10 from its authors' test vectors, at the counters that the keying can reach.
    #[test]
    fn philox() {
        let words = |seed, step, block: u32| [0, 1, 2, 3].map(|i| word(seed, step, 4 * block + i));
        assert_eq!(words(0, 0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }

    #[test]
    fn bounds_narrow_the_choice() {
        let logits = [1.0, 3.0, f32::NEG_INFINITY, 3.0, 2.0];
        let mut sampling = Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition: 1.0,
            presence: 0.0,
            frequency: 0.0,
            seed: 3,
        };
        assert_eq!(choose(&logits, &sampling, 0), Some(1), "of equal ones the lowest id");
        sampling.temperature = 1.0;
        let seen = |sampling: &Sampling| -> Vec<usize> {
            let mut seen: Vec<usize> = (0..400).filter_map(|step| choose(&logits, sampling, step)).collect();
            seen.sort_unstable();
            seen.dedup();
            seen
        };
        assert_eq!(seen(&sampling), [0, 1, 3, 4]);
        assert_eq!(seen(&Sampling { top_k: 2, ..sampling.clone() }), [1, 3]);
        // The best has e^0 of 1 + 1 + e^-1 + e^-2: 39.95 %.
        assert_eq!(seen(&Sampling { top_p: 0.399, ..sampling.clone() }), [1]);
        assert_eq!(seen(&Sampling { top_p: 0.4, ..sampling.clone() }), [1, 3]);
        assert_eq!(seen(&Sampling { min_p: 0.3, ..sampling.clone() }), [1, 3, 4]);
        assert_eq!(choose(&[f32::NEG_INFINITY; 3], &sampling, 0), None);
    }
}
