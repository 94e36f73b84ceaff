//! The kernels of the model, written once in a small C++ dialect that Metal, CUDA and an emulator compile
//! (`kernels/README.md` explains it), their descriptions for host code, and the plain f32 reference that each of them, on
//! every backend, is checked against: [`reference`](mod@reference).
//!
//! A kernel file ([`catalog`]) with values for its constants is a [`Specialisation`]. It gives the text for a compiler and
//! the [`Signature`] of each entry point, which is read from that text: bindings cannot drift between host and kernel.
//!
//! ```
//! # use lily_kernels::{Access, Platform, Specialisation};
//! let gemv = Specialisation::named("gemv", &[("K", 2048)])?;
//! let signature = gemv.signature("gemv")?;
//! assert_eq!(signature.binding("x").map(|x| x.access), Some(Access::Read));
//! assert!(gemv.source(Platform::Cuda).contains("#define K 2048"));
//! # Ok::<(), lily_kernels::KernelError>(())
//! ```

mod catalog;
mod error;
pub mod metal_tier;
mod overrides;
pub mod reference;
mod rotary_table;
pub mod sampling;
mod signature;
mod source;
mod specialisation;
pub mod step;

#[cfg(feature = "emulator")]
pub mod emulator;

pub use catalog::{Constant, KernelFile, catalog, find};
pub use error::KernelError;
pub use metal_tier::MetalTier;
pub use overrides::{OVERRIDES, Override};
pub use rotary_table::rotary_table;
pub use signature::{Access, Binding, Extent, Grid, Launch, Params, Reach, ScalarType, Signature, entries};
pub use source::Platform;
pub use specialisation::Specialisation;
