//! The random numbers of sampling: counter-based, so that any device can make the same ones without shared state.
//!
//! The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
//! How it is keyed and used is written at [`crate::Sampler`].

use std::hash::{BuildHasher, RandomState};

/// The largest [`gumbel`] noise: that of the word 0.
pub(crate) const MAX_GUMBEL: f64 = 22.88;

/// Ten rounds of Philox on four 32-bit words.
pub(crate) fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let product = [
            u64::from(counter[0]) * u64::from(MULTIPLIERS[0]),
            u64::from(counter[2]) * u64::from(MULTIPLIERS[1]),
        ];
        counter = [
            (product[1] >> 32) as u32 ^ counter[1] ^ key[0],
            product[1] as u32,
            (product[0] >> 32) as u32 ^ counter[3] ^ key[1],
            product[0] as u32,
        ];
    }
    counter
}

/// The words of tokens `4 * block` to `4 * block + 3` at a step.
pub(crate) fn words(seed: u64, step: u64, block: u32) -> [u32; 4] {
    philox4x32_10([block, step as u32, (step >> 32) as u32, 0], [seed as u32, (seed >> 32) as u32])
}

/// The word of one token at a step.
pub(crate) fn word(seed: u64, step: u64, id: u32) -> u32 {
    words(seed, step, id / 4)[(id % 4) as usize]
}

/// A standard Gumbel variable from a word. Small words give the large values, where f32 is finest.
pub(crate) fn gumbel(word: u32) -> f64 {
    const LARGEST: f32 = 1.0 - f32::EPSILON / 2.0;
    let v = ((f64::from(word) + 0.5) / 4_294_967_296.0) as f32;
    -(-(f64::from(-v.min(LARGEST)).ln_1p())).ln()
}

/// At least [`gumbel`] of the same word, found without a logarithm: `v >= 2^-(zeros + 1)` gives
/// `-ln(-ln(1 - v)) <= -ln(v) <= (zeros + 1) ln 2`.
pub(crate) fn gumbel_bound(word: u32) -> f64 {
    f64::from(word.leading_zeros() + 1) * std::f64::consts::LN_2
}

/// A seed that nobody chose.
pub(crate) fn fresh_seed() -> u64 {
    // The keys of `RandomState` come from the operating system's randomness and differ at each call.
    RandomState::new().hash_one(std::time::SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the authors' Random123 library.
    #[test]
    fn philox_known_answers() {
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32_10(counter, key), expected);
        }
    }

    #[test]
    fn the_documented_keying() {
        let expected = philox4x32_10([25, 2, 1, 0], [7, 9])[3];
        assert_eq!(word((9 << 32) | 7, (1 << 32) | 2, 103), expected);
    }

    #[test]
    fn gumbel_is_finite_ordered_and_bounded() {
        let mut last = f64::INFINITY;
        for word in (0..32).map(|bit| (1u32 << bit) - 1).chain([u32::MAX - 1, u32::MAX]) {
            let noise = gumbel(word);
            assert!(noise.is_finite() && noise <= last, "{word}: {noise}");
            assert!(noise <= gumbel_bound(word) && noise <= MAX_GUMBEL, "{word}: {noise}");
            last = noise;
        }
    }

    /// Mean (Euler's constant) and variance (pi squared over 6) of the standard Gumbel distribution.
    #[test]
    fn gumbel_moments() {
        let count = 200_000;
        let values: Vec<f64> = (0..count).map(|id| gumbel(word(1, 0, id))).collect();
        let mean = values.iter().sum::<f64>() / f64::from(count);
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(count);
        assert!((mean - 0.577_216).abs() < 0.012, "{mean}");
        assert!((variance - 1.644_934).abs() < 0.04, "{variance}");
    }

    #[test]
    fn fresh_seeds_differ() {
        let seeds: std::collections::HashSet<u64> = (0..100).map(|_| fresh_seed()).collect();
        assert_eq!(seeds.len(), 100);
    }
}
