//! The best few of many logits, and sums over all of them, fast enough for a vocabulary of a quarter of a million.

use crate::TokenId;
use std::cmp::Ordering;

/// A token that may be chosen, with its logit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: TokenId,
    pub(crate) logit: f32,
}

/// Logits are looked at in blocks of this many, which the compiler turns into vector instructions.
const BLOCK: usize = 64;

/// Best first; of equal logits the lower id first.
fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}

/// What is not finite among the logits, if anything: `NaN` or `infinite`.
pub(crate) fn not_finite(logits: &[f32]) -> Option<&'static str> {
    const EXPONENT: u32 = 0x7f80_0000;
    let broken = logits.chunks(BLOCK).find(|block| {
        block.iter().fold(false, |any, logit| any | (logit.to_bits() & EXPONENT == EXPONENT))
    })?;
    Some(if broken.iter().any(|logit| logit.is_nan()) { "NaN" } else { "infinite" })
}

/// The best candidate, the lowest id of equal ones; `None` if every token is banned. NaN must have been excluded.
pub(crate) fn best(logits: &[f32]) -> Option<Candidate> {
    let logit = logits.chunks(BLOCK).fold(f32::NEG_INFINITY, |best, block| {
        let of_block =
            block.iter().fold(f32::NEG_INFINITY, |best, &logit| if logit > best { logit } else { best });
        if of_block > best { of_block } else { best }
    });
    if logit == f32::NEG_INFINITY {
        return None;
    }
    let index = logits.iter().position(|&other| other == logit)?;
    Some(Candidate { id: TokenId(index as u32), logit })
}

/// Fills `found` with the `count` best candidates, best first; banned tokens are never among them.
pub(crate) fn top(logits: &[f32], count: usize, found: &mut Vec<Candidate>) {
    found.clear();
    if count == 0 {
        return;
    }
    // Twice as many as wanted are collected before the worse half is thrown away: constant work for each one kept.
    let room = count.saturating_mul(2).min(logits.len());
    let mut threshold = f32::NEG_INFINITY;
    for (block_index, block) in logits.chunks(BLOCK).enumerate() {
        if !block.iter().fold(false, |any, &logit| any | (logit > threshold)) {
            continue;
        }
        for (offset, &logit) in block.iter().enumerate() {
            // A later id must be strictly better to get in: the lower id wins a tie.
            if logit > threshold {
                found.push(Candidate { id: TokenId((block_index * BLOCK + offset) as u32), logit });
                if found.len() >= room && found.len() > count {
                    found.select_nth_unstable_by(count - 1, rank);
                    found.truncate(count);
                    threshold = found[count - 1].logit;
                }
            }
        }
    }
    if found.len() > count {
        found.select_nth_unstable_by(count - 1, rank);
        found.truncate(count);
    }
    found.sort_unstable_by(rank);
}

/// Fills `found` with every candidate whose logit is at least `least`, in the order of ids.
pub(crate) fn at_least(logits: &[f32], least: f32, found: &mut Vec<Candidate>) {
    found.clear();
    for (block_index, block) in logits.chunks(BLOCK).enumerate() {
        if !block.iter().fold(false, |any, &logit| any | (logit >= least)) {
            continue;
        }
        for (offset, &logit) in block.iter().enumerate() {
            if logit >= least && logit != f32::NEG_INFINITY {
                found.push(Candidate { id: TokenId((block_index * BLOCK + offset) as u32), logit });
            }
        }
    }
}

/// The sum of `exp((logit - best) / temperature)` over all logits; `best` is the largest. Relative error below 1e-6.
pub(crate) fn sum_of_weights(logits: &[f32], best: f32, temperature: f32) -> f64 {
    let mut sum = 0.0;
    for block in logits.chunks(BLOCK) {
        let mut lanes = [0.0f32; 16];
        for part in block.chunks(16) {
            for (lane, &logit) in lanes.iter_mut().zip(part) {
                *lane += exp_of_negative((logit - best) / temperature);
            }
        }
        sum += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
    }
    sum
}

/// `exp(x)` for `x <= 0` (minus infinity included) with a relative error below 3e-7; 0 below -87. Without branches, so that it
/// vectorises: `exp(x) = 2^n exp(r)` with `|r| <= ln(2) / 2` and a polynomial for `exp(r)`.
#[inline]
fn exp_of_negative(x: f32) -> f32 {
    /// Adding it rounds a small f32 to an integer in its low mantissa bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts, the first exact in few bits.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = if x > -87.0 { x } else { -87.0 };
    let rounded = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = clamped - n * LN2_HIGH - n * LN2_LOW;
    let tail =
        1.666_666_5e-1 + r * (4.166_579_6e-2 + r * (8.333_452e-3 + r * (1.398_2e-3 + r * 1.987_569e-4)));
    let exp_r = 1.0 + r + r * r * (0.5 + r * tail);
    let scale = f32::from_bits(rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if x > -87.0 { exp_r * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(logits: &[f32]) -> Vec<Candidate> {
        let mut all: Vec<Candidate> = (0..)
            .zip(logits)
            .filter(|(_, logit)| **logit != f32::NEG_INFINITY)
            .map(|(id, &logit)| Candidate { id: TokenId(id), logit })
            .collect();
        // A stable sort by logit alone leaves equal ones in the order of ids.
        all.sort_by(|a, b| b.logit.total_cmp(&a.logit));
        all
    }

    fn logits() -> impl Strategy<Value = Vec<f32>> {
        // Few distinct values, so that ties are common; some banned.
        let value = prop_oneof![
            4 => (-8i8..8).prop_map(f32::from),
            4 => -30f32..30.0,
            1 => Just(f32::NEG_INFINITY),
        ];
        proptest::collection::vec(value, 1..500)
    }

    proptest! {
        #[test]
        fn top_is_the_head_of_a_sorted_list(logits in logits(), count in 0usize..600) {
            let mut found = Vec::new();
            top(&logits, count, &mut found);
            let mut expected = sorted(&logits);
            expected.truncate(count);
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn best_is_the_first_of_a_sorted_list(logits in logits()) {
            prop_assert_eq!(best(&logits), sorted(&logits).first().copied());
        }

        #[test]
        fn at_least_keeps_the_border(logits in logits(), least in -8i8..8) {
            let mut found = Vec::new();
            at_least(&logits, f32::from(least), &mut found);
            let mut expected = sorted(&logits);
            expected.retain(|candidate| candidate.logit >= f32::from(least));
            expected.sort_by_key(|candidate| candidate.id);
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn the_sum_is_that_of_f64(logits in logits(), temperature in 0.01f32..3.0) {
            prop_assume!(best(&logits).is_some());
            let best = sorted(&logits)[0].logit;
            let exact: f64 = logits.iter().map(|&l| (f64::from(l - best) / f64::from(temperature)).exp()).sum();
            let sum = sum_of_weights(&logits, best, temperature);
            prop_assert!((sum / exact - 1.0).abs() < 1e-5, "{} {}", sum, exact);
        }

        #[test]
        fn one_bad_logit_is_seen_wherever_it_is(
            mut logits in proptest::collection::vec(-30f32..30.0, 1..300),
            place in any::<proptest::sample::Index>(),
        ) {
            prop_assert_eq!(not_finite(&logits), None);
            let place = place.index(logits.len());
            for (bad, what) in [(f32::NAN, "NaN"), (f32::INFINITY, "infinite"), (f32::NEG_INFINITY, "infinite")] {
                logits[place] = bad;
                prop_assert_eq!(not_finite(&logits), Some(what));
            }
        }
    }

    #[test]
    fn exp_is_accurate_and_total() {
        for step in 0..870_000 {
            let x = -(step as f32) * 1e-4;
            let exact = f64::from(x).exp();
            let relative = (f64::from(exp_of_negative(x)) / exact - 1.0).abs();
            assert!(relative < 3e-7, "exp({x}): {relative}");
        }
        for x in [-87.0, -1e3, -1e30, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp_of_negative(x), 0.0, "exp({x})");
        }
        assert_eq!(exp_of_negative(0.0), 1.0);
    }
}
