//! What the emulator tests share: test data, and kernels that run in the emulator.
#![allow(dead_code, reason = "each test binary uses its own part")]

mod data;
mod kernel;
mod mutation;

pub(crate) use data::*;
pub(crate) use kernel::Kernel;
