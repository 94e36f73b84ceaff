//! The model's forward pass on the CPU, straight from packed weights, with SIMD kernels chosen at run time.

mod activations;
mod attention;
mod backend;
mod bandwidth;
mod buffers;
mod error;
mod forward;
mod gdn;
mod input;
mod kv;
mod linear;
mod machine;
mod model;
mod moe;
mod options;
mod pool;
mod profile;
mod project;
mod reference;
mod resident;
mod rotary;
mod router;
mod scratch;
mod simd;
mod state;

pub use backend::CpuBackend;
pub use bandwidth::read_bandwidth;
pub use error::CpuError;
pub use options::{CpuOptions, DEFAULT_PREFILL_CHUNK, Precision, WeightMemory};
pub use profile::{Op, OpStats, Profile};
pub use reference::{MatrixRows, ReferenceBackend, ReferenceState, reference_model};
pub use simd::Tier;
pub use state::{CpuSnapshot, CpuState};
