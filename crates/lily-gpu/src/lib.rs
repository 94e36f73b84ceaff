//! The model's forward pass on a GPU.
//!
//! - [`Device`]: buffers, kernels, submissions, on CUDA or (for tests) in an emulator on the CPU.
//! - [`Recorder`]: what to launch in program order; dependency levels from what each launch reads and writes; a
//!   [`PlanReport`] of launches, levels and bytes before anything is run.
//! - [`check`]: what can be known of a plan without a device.

mod backend;
mod buffer;
pub mod check;
pub mod device;
mod error;
mod kernel;
mod memory_plan;
mod model;
pub mod plan;
pub mod recorder;
pub mod shapes;
mod state;
mod switches;
pub mod tune;
pub mod weights;

pub use backend::{DEFAULT_PREFILL_CHUNK, GpuBackend, GpuOptions, GpuState, OpTime};
pub use buffer::{Buffer, View};
pub use device::{Device, Limits, Pass, Program, Ticket};
pub use error::GpuError;
pub use kernel::Kernel;
pub use memory_plan::MemoryPlan;
pub use model::GpuModel;
pub use recorder::{Bound, Command, Dispatch, RecordError, Recorder, Recording, Report as PlanReport};
pub use state::{GdnState, GpuSnapshot, KvState, LayerState, StateBuffers, StateSize};
pub use switches::{Optimisation, Phase, Switches};
