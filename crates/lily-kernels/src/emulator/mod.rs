//! Runs kernels on the CPU, checked: the text is compiled by the system's C++ compiler (`CXX`, else `c++`) against the
//! emulator's platform headers, where each thread is a fiber, and loaded. A run reports data races between barriers,
//! accesses out of bounds, reads of memory that nobody wrote, parting threads at barriers and simdgroup operations,
//! misaligned vectors, threadgroup memory past 32 KiB, and arguments past Metal's 31 places.
//!
//! Needs the cargo feature `emulator`. Compiled kernels are kept in `lily-emulator` beside the running executable, or in
//! the folder that `LILY_EMULATOR_CACHE` names.

mod compile;
mod fault;
mod module;

pub use compile::{Checks, EmulatorError};
pub use fault::{Fault, FaultKind, Faults};
pub use module::{Memory, Module};
