//! Why a CPU backend could not be made.

use crate::simd::Tier;

/// Why a [`crate::CpuBackend`] could not be made from a checkpoint.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// A weight does not fit the model's dimensions.
    #[error("{name}: {what}")]
    Weights {
        /// Which weight.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// The instruction set asked for is not there.
    #[error("this CPU has no {tier} kernels\nhint: it has {available}")]
    NoSuchTier {
        /// What was asked for.
        tier: Tier,
        /// What there is.
        available: String,
    },
    /// The weights could not be read into memory.
    #[error("{0}")]
    Memory(String),
    /// The dimensions are outside what the kernels serve.
    #[error("{0}")]
    Dimensions(String),
}
