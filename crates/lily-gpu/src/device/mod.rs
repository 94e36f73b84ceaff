//! The seam between plans and hardware: trait [`Device`].
//!
//! A device is one in-order queue: uploads, copies, runs and submissions take effect in the order of the calls, whatever
//! runs ahead of the host. Work inside one [`Recording`] is ordered by the recording's dependency levels alone.
//!
//! What each call is on the three platforms:
//!
//! | | CUDA | Metal | emulator |
//! |---|---|---|---|
//! | buffer | `cuMemAlloc` | shared `MTLBuffer`, untracked | host memory |
//! | shared buffer | pinned host memory, mapped | shared `MTLBuffer` | host memory |
//! | kernel | NVRTC, one cubin per specialisation, cached on disk | run-time library, `setBuffer` / `setBytes` by index | C++ compiler |
//! | run | launches on one stream | command buffers of at most 20 ms, one concurrent encoder each, a barrier between levels | in order |
//! | prepare, submit | a graph | encoded anew each time (dispatches are plain data) | as run |
//! | ticket | an event | a shared event's value | a counter |

mod cache;
#[cfg(not(target_os = "macos"))]
pub mod cuda;
mod dry;
#[cfg(feature = "emulator")]
mod emulator;
#[cfg(feature = "emulator")]
mod host_memory;
#[cfg(any(target_os = "macos", test))]
mod metal;
mod pending;
#[cfg(any(target_os = "macos", test))]
mod tensor_probe;

#[cfg(not(target_os = "macos"))]
pub use cuda::{CudaDevice, CudaOptions};
pub use dry::DryDevice;
#[cfg(feature = "emulator")]
pub use emulator::EmulatorDevice;
#[cfg(target_os = "macos")]
pub use metal::{MetalDevice, MetalOptions};

use crate::{Buffer, GpuError, Kernel, Recording, View};
use lily_checkpoint::Bytes;
use lily_kernels::{MetalTier, Platform, Signature, Specialisation};
use std::{any::Any, sync::Arc, time::Duration};

/// What a device can hold and launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that this process may use for buffers, at the moment.
    pub memory: u64,
    /// The largest single buffer.
    pub buffer: u64,
    /// Threadgroup memory of one threadgroup.
    pub threadgroup_memory: u32,
    /// Threads of one threadgroup.
    pub threads: u32,
    /// Multiprocessors (cores): how many threadgroups it takes to fill the device, at least.
    pub cores: u32,
}

/// Stands for everything that was given to a device up to some moment. Later tickets are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// How dispatches may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pass {
    /// Launch early: a dispatch may be launched before the one ahead has ended, and waits for it inside, after it has
    /// asked for its weights (CUDA's programmatic dependent launch). Elsewhere the same as [`Pass::Concurrent`].
    #[default]
    Early,
    /// Dispatches of one level overlap, levels do not.
    Concurrent,
    /// One after the other.
    Serial,
}

/// A recording in the form that a device replays fastest.
#[derive(Clone)]
pub struct Program(Arc<dyn Any + Send + Sync>);

impl Program {
    /// Wraps a device's own form. For implementations of [`Device`].
    pub fn new(raw: impl Any + Send + Sync) -> Self {
        Self(Arc::new(raw))
    }

    /// The device's own form, if it is a `T`.
    pub fn raw<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Program")
    }
}

/// A machine that runs kernels. See the [module](self) for the order of things.
pub trait Device: Send + Sync + 'static {
    /// Which text of a kernel it takes.
    fn platform(&self) -> Platform;

    /// One line for people: name, driver, compiler.
    fn describe(&self) -> String;

    /// The instruction set where kernels exist for a particular one, such as `sm_90a`; empty otherwise.
    fn architecture(&self) -> &str {
        ""
    }

    /// Which matrix units kernels for Metal use; elsewhere the portable files are meant.
    fn metal_tier(&self) -> MetalTier {
        MetalTier::Simdgroup
    }

    /// What it can hold.
    fn limits(&self) -> Limits;

    /// Most floating-point operations that one launch should have, where the system ends what takes long or a display waits
    /// for it; `None` where a launch may take its time.
    fn launch_operations(&self) -> Option<u64> {
        None
    }

    /// Memory of the device, contents unspecified.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    fn allocate(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError>;

    /// Memory that the device writes and the host reads while the device runs ([`Device::peek`]), zeroed. For the few
    /// words per token that the host waits for.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    fn allocate_shared(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError>;

    /// A read-only buffer over memory that is there already, without a copy; `None` where the device, or this run of
    /// bytes (its alignment), does not allow that.
    ///
    /// # Errors
    /// The device's.
    fn wrap(&self, bytes: &Bytes, label: &str) -> Result<Option<Buffer>, GpuError> {
        let _ = (bytes, label);
        Ok(None)
    }

    /// Writes host bytes to the front of `to`. May wait for what was submitted before.
    ///
    /// # Errors
    /// The device's.
    fn upload(&self, to: &View, bytes: &[u8]) -> Result<(), GpuError>;

    /// The same for a run of a checkpoint's bytes, which a device may read from the file straight to their place.
    ///
    /// # Errors
    /// The device's, and the file's.
    fn load(&self, to: &View, bytes: &Bytes) -> Result<(), GpuError> {
        self.upload(to, bytes)
    }

    /// Reads `out.len()` bytes from the front of `from`, after everything that was submitted before.
    ///
    /// # Errors
    /// The device's.
    fn download(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError>;

    /// Reads a shared buffer as it is now, without waiting.
    ///
    /// # Errors
    /// `from` is not of [`Device::allocate_shared`].
    fn peek(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError>;

    /// Copies the shorter of the two lengths. Does not wait.
    ///
    /// # Errors
    /// The device's.
    fn copy(&self, from: &View, to: &View) -> Result<(), GpuError>;

    /// Fills with zero bytes. Does not wait.
    ///
    /// # Errors
    /// The device's.
    fn zero(&self, view: &View) -> Result<(), GpuError>;

    /// Compiles an entry point. May be called from several threads at once.
    ///
    /// # Errors
    /// [`GpuError::Kernel`] with the compiler's text.
    fn compile(&self, specialisation: &Specialisation, entry: &str) -> Result<Kernel, GpuError>;

    /// Waits until a kernel of [`Device::compile`] is ready to run, where it is compiled in the background.
    ///
    /// # Errors
    /// [`GpuError::Kernel`] with the compiler's text.
    fn ready(&self, kernel: &Kernel) -> Result<(), GpuError> {
        let _ = kernel;
        Ok(())
    }

    /// Runs a recording once. Does not wait.
    ///
    /// # Errors
    /// The device's.
    fn run(&self, recording: &Recording, pass: Pass) -> Result<Ticket, GpuError>;

    /// Makes a recording ready to be replayed often.
    ///
    /// # Errors
    /// The device's.
    fn prepare(&self, recording: &Recording, pass: Pass) -> Result<Program, GpuError>;

    /// Runs a prepared recording. Does not wait, unless so much is under way that the device's queue is full.
    ///
    /// # Errors
    /// The device's.
    fn submit(&self, program: &Program) -> Result<Ticket, GpuError>;

    /// Waits until everything up to the ticket is done.
    ///
    /// # Errors
    /// The first error of anything that was submitted.
    fn wait(&self, ticket: Ticket) -> Result<(), GpuError>;

    /// True once everything up to the ticket is done.
    ///
    /// # Errors
    /// As [`Device::wait`].
    fn is_done(&self, ticket: Ticket) -> Result<bool, GpuError>;

    /// Time that the device has worked since it was opened, by its own clock; `None` where it cannot tell.
    fn busy(&self) -> Option<Duration> {
        None
    }

    /// Runs a recording one dispatch at a time and answers the time of each, in the order of
    /// [`Recording::dispatches`]; `None` where the device cannot tell.
    ///
    /// # Errors
    /// As [`Device::run`].
    fn profile(&self, recording: &Recording) -> Result<Option<Vec<Duration>>, GpuError> {
        let _ = recording;
        Ok(None)
    }
}

/// The signature of an entry point, as every device needs it.
fn signature(specialisation: &Specialisation, entry: &str) -> Result<Signature, GpuError> {
    specialisation
        .signature(entry)
        .map_err(|error| GpuError::Kernel { kernel: entry.to_owned(), what: error.to_string() })
}
