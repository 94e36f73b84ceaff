//! What the kernel tests share: the data of `lily-kernels`' tests, and kernels that run on a device.
#![allow(dead_code, reason = "the data serve the emulator's tests as well")]

#[path = "../../../../lily-kernels/tests/support/data.rs"]
mod data;
mod kernel;

pub(crate) use data::*;
pub(crate) use kernel::Kernel;
