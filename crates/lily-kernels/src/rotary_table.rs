//! Rotary frequencies as the kernels read them.

/// The frequency of each rotary pair as a share of a full turn per position, a 64-bit fraction in two words (high, low):
/// `2 * (dim / 2)` words. Pair `i` turns by `theta^(-2i/dim)` radians per position.
///
/// A kernel multiplies the fraction with the position in whole numbers and drops whole turns, so the angle is as exact at
/// position 262,143 as at 1 (`kernels/rotary.h`); an f32 product would be off by up to a hundredth of a radian there.
///
/// ```
/// let table = lily_kernels::rotary_table(64, 1e7);
/// assert_eq!(table.len(), 64);
/// // Pair 0 turns by one radian per position: 1 / (2 pi) of a turn.
/// assert_eq!(table[0], (2f64.powi(32) / std::f64::consts::TAU) as u32);
/// ```
#[must_use]
pub fn rotary_table(dim: usize, theta: f64) -> Vec<u32> {
    (0..dim / 2)
        .flat_map(|i| {
            let turns = theta.powf(-2.0 * i as f64 / dim as f64) / std::f64::consts::TAU;
            let fraction = (turns.fract() * 2f64.powi(64)) as u64;
            [(fraction >> 32) as u32, fraction as u32]
        })
        .collect()
}
