//! How a [`crate::CpuBackend`] is to run.

use crate::simd::Tier;

/// What the activations are rounded to before they meet the weights of a linear layer. The weights themselves are
/// used as they are packed; sums, the residual stream, the router, norms, the recurrent state and softmax are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// 8-bit integers with one f32 scale per 64 columns, for affine-quantised matrices (the fast route); dense
    /// matrices of raw checkpoints take f32 activations. KV rows are f16.
    #[default]
    Int8,
    /// bfloat16. KV rows are f16.
    Bf16,
    /// f32 throughout, KV rows too.
    F32,
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Int8 => "int8 activations",
            Self::Bf16 => "bf16 activations",
            Self::F32 => "f32 activations",
        })
    }
}

impl std::str::FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "int8" => Ok(Self::Int8),
            "bf16" => Ok(Self::Bf16),
            "f32" => Ok(Self::F32),
            _ => Err(format!("unknown precision \"{name}\"\nhint: one of int8, bf16, f32")),
        }
    }
}

/// Where the weights are while the model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WeightMemory {
    /// Where the checkpoint has them, in a mapped file as a rule: there at once, and shared with other processes.
    #[default]
    Mapped,
    /// Read once into memory of this process, aligned and in large pages: reads are faster, loading takes as long as reading
    /// the files.
    Resident,
}

impl std::fmt::Display for WeightMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Mapped => "mapped",
            Self::Resident => "resident",
        })
    }
}

/// Options of a [`crate::CpuBackend`].
#[derive(Debug, Clone, Default)]
pub struct CpuOptions {
    /// Threads that compute; every core that this process may use when not given.
    pub threads: Option<usize>,
    /// What activations are rounded to.
    pub precision: Precision,
    /// Where the weights are.
    pub weights: WeightMemory,
    /// The instruction set to use; the best that this CPU has when not given.
    pub simd: Option<Tier>,
    /// The longest context in tokens; the checkpoint's own when not given. KV memory grows with use, not with this.
    pub max_context: Option<usize>,
    /// The most tokens in one prefill call (temporaries grow with it, speed too); [`DEFAULT_PREFILL_CHUNK`] when
    /// not given.
    pub prefill_chunk: Option<usize>,
}

/// Tokens per prefill call unless [`CpuOptions::prefill_chunk`] says otherwise.
pub const DEFAULT_PREFILL_CHUNK: usize = 512;
