//! Which matrix units of an Apple GPU the kernels use: chosen once, at start, from what the machine says of itself.
//!
//! ```
//! # use lily_kernels::metal_tier::{MetalMachine, MetalTier, TensorProbe};
//! let m2 = MetalMachine { apple_family: 8, macos: (26, 3), probe: TensorProbe::NotRun };
//! let choice = m2.choose();
//! assert_eq!(choice.tier, MetalTier::Simdgroup);
//! assert_eq!(choice.to_string(), "simdgroup_matrix (GPU family Apple8 has no neural accelerators; they come with Apple10)");
//! ```

use std::fmt;

/// The first with neural accelerators, the M5's. Below it tensor operations run on the ordinary units, no faster.
const TENSOR_FAMILY: u32 = 10;
/// The first whose tensor operations take bf16 (26.1) and are used for it elsewhere too.
const TENSOR_MACOS: (u32, u32) = (26, 2);

/// A way to multiply matrices, and the kernel files that go it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetalTier {
    /// `simdgroup_matrix`: the portable files.
    Simdgroup,
    /// Metal 4's tensor operations: the files of `kernels/metal` in the place of those that they stand for.
    Tensor,
}

impl MetalTier {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Simdgroup, Self::Tensor];

    /// Its name, as a device gives it for its architecture and [`OVERRIDES`](crate::OVERRIDES) have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simdgroup => "simdgroup_matrix",
            Self::Tensor => "metal4-tensor",
        }
    }
}

impl fmt::Display for MetalTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the test of tensor operations went (`kernels/metal/tensor_probe.k`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorProbe {
    /// It was not run, or not yet.
    NotRun,
    /// The numbers are right.
    Passed,
    /// It did not compile, did not run, or computed something else: what, in words.
    Failed(String),
}

/// What a machine says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetalMachine {
    /// The greatest `n` for which `supportsFamily(AppleN)`; 0 for none. A later family counts as the last one known.
    pub apple_family: u32,
    /// Major and minor version of the system.
    pub macos: (u32, u32),
    /// The test of tensor operations.
    pub probe: TensorProbe,
}

/// The tier, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetalChoice {
    /// The tier.
    pub tier: MetalTier,
    /// Why this one, in words.
    pub reason: String,
}

impl fmt::Display for MetalChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.tier, self.reason)
    }
}

impl MetalMachine {
    /// True where the test of tensor operations decides: run it, then [`MetalMachine::choose`].
    #[must_use]
    pub fn wants_probe(&self) -> bool {
        self.apple_family >= TENSOR_FAMILY && self.macos >= TENSOR_MACOS
    }

    /// The tier for this machine: tensor operations only where they are known to be faster and were seen to be right.
    #[must_use]
    pub fn choose(&self) -> MetalChoice {
        let &Self { apple_family: family, macos, ref probe } = self;
        let simdgroup = |reason: String| MetalChoice { tier: MetalTier::Simdgroup, reason };
        if family < TENSOR_FAMILY {
            simdgroup(format!(
                "GPU family Apple{family} has no neural accelerators; they come with Apple{TENSOR_FAMILY}"
            ))
        } else if macos < TENSOR_MACOS {
            let (major, minor) = TENSOR_MACOS;
            simdgroup(format!(
                "GPU family Apple{family} has neural accelerators, but bf16 on them needs macOS {major}.{minor}, not {}.{}",
                macos.0, macos.1
            ))
        } else {
            match probe {
                TensorProbe::Passed => MetalChoice {
                    tier: MetalTier::Tensor,
                    reason: format!(
                        "GPU family Apple{family}, macOS {}.{}, self-test passed",
                        macos.0, macos.1
                    ),
                },
                TensorProbe::NotRun => {
                    simdgroup("tensor operations are there, but were not tested".to_owned())
                }
                TensorProbe::Failed(why) => {
                    simdgroup(format!("tensor operations failed their self-test: {why}"))
                }
            }
        }
    }
}

/// Rows of the probe's left operand.
const PROBE_ROWS: usize = 32;
/// Columns of both operands and rows of the right one.
const PROBE_COLS: usize = 64;
/// Floats of the probe's result.
pub const PROBE_RESULTS: usize = 2 * PROBE_ROWS * PROBE_COLS;

/// The operands of the probe: whole numbers from -4 to 4 as bf16, so that every sum is exact.
#[must_use]
pub fn probe_operands() -> (Vec<u8>, Vec<u8>) {
    let bytes = |count: usize, seed: usize| {
        let words = (0..count).map(move |at| (value(at, seed).to_bits() >> 16) as u16);
        words.flat_map(u16::to_le_bytes).collect()
    };
    (bytes(PROBE_ROWS * PROBE_COLS, 1), bytes(PROBE_COLS * PROBE_COLS, 2))
}

/// An element of an operand.
fn value(at: usize, seed: usize) -> f32 {
    (at.wrapping_mul(7919 * seed) / 13 % 9) as f32 - 4.0
}

/// What the probe's result is worth: [`PROBE_RESULTS`] floats.
#[must_use]
pub fn probe_verdict(found: &[f32]) -> TensorProbe {
    if found.len() != PROBE_RESULTS {
        return TensorProbe::Failed(format!("{} results, not {PROBE_RESULTS}", found.len()));
    }
    let left = |row: usize, k: usize| value(row * PROBE_COLS + k, 1);
    let right = |row: usize, col: usize| value(row * PROBE_COLS + col, 2);
    for (at, &found) in found.iter().enumerate() {
        let (turned, row, col) = (at < PROBE_RESULTS / 2, at / PROBE_COLS % PROBE_ROWS, at % PROBE_COLS);
        let term = |k| left(row, k) * if turned { right(col, k) } else { right(k, col) };
        let wanted: f32 = (0..PROBE_COLS).map(term).sum::<f32>() * 2.0;
        if found != wanted {
            let product = if turned { "a b^T" } else { "a b" };
            return TensorProbe::Failed(format!(
                "element ({row}, {col}) of {product} is {found}, not {wanted}"
            ));
        }
    }
    TensorProbe::Passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_its_tier() {
        use MetalTier::{Simdgroup, Tensor};
        use TensorProbe::{Failed, NotRun, Passed};
        for (family, macos, probe, tier, reason) in [
            (7, (14, 0), NotRun, Simdgroup, "Apple7 has no neural accelerators"),
            (9, (26, 4), Passed, Simdgroup, "Apple9 has no neural accelerators"),
            (10, (15, 6), NotRun, Simdgroup, "needs macOS 26.2, not 15.6"),
            (10, (26, 1), Passed, Simdgroup, "needs macOS 26.2, not 26.1"),
            (10, (26, 2), NotRun, Simdgroup, "were not tested"),
            (10, (26, 2), Failed("it is wrong".to_owned()), Simdgroup, "self-test: it is wrong"),
            (10, (26, 2), Passed, Tensor, "Apple10, macOS 26.2, self-test passed"),
            (11, (27, 0), Passed, Tensor, "Apple11"),
        ] {
            let machine = MetalMachine { apple_family: family, macos, probe };
            let choice = machine.choose();
            assert_eq!(choice.tier, tier, "{machine:?}");
            assert!(choice.to_string().contains(reason), "{choice}");
            assert!(machine.wants_probe() || tier == Simdgroup);
        }
    }

    #[test]
    fn the_probe_tells_right_from_wrong() {
        let (a, b) = probe_operands();
        assert_eq!((a.len(), b.len()), (2 * PROBE_ROWS * PROBE_COLS, 2 * PROBE_COLS * PROBE_COLS));
        assert!(matches!(probe_verdict(&[0.0; 3]), TensorProbe::Failed(_)));
        let TensorProbe::Failed(why) = probe_verdict(&[0.0; PROBE_RESULTS]) else {
            panic!("zeros are wrong")
        };
        assert!(why.contains("of a b^T is 0, not "), "{why}");
        // Turned and straight products differ, so that one cannot pass for the other.
        assert_ne!(value(1, 2), value(PROBE_COLS, 2));
    }
}
