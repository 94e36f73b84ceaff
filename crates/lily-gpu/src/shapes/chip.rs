//! What kind of chip a device is, as far as launch shapes care.

use crate::{Device, check::AppleFamily};
use lily_kernels::Platform;
use std::fmt;

/// A kind of chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chip {
    /// An Apple GPU.
    Apple {
        /// Its family.
        family: AppleFamily,
        /// Its cores.
        cores: u32,
    },
    /// H100, H200.
    Hopper,
    /// Another NVIDIA GPU.
    Cuda,
    /// The CPU, for tests.
    Emulator,
}

impl Chip {
    /// Of a device.
    pub fn of(device: &dyn Device) -> Self {
        match device.platform() {
            Platform::Metal => {
                // A device that does not name its family is treated as the oldest.
                let family = device.architecture().parse().unwrap_or(AppleFamily::Apple7);
                Self::Apple { family, cores: device.limits().cores }
            }
            Platform::Cuda if device.architecture() == "sm_90a" => Self::Hopper,
            Platform::Cuda => Self::Cuda,
            Platform::Emulator => Self::Emulator,
        }
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apple { family, cores } => write!(f, "{family}, {cores} cores"),
            Self::Hopper => f.write_str("Hopper"),
            Self::Cuda => f.write_str("CUDA"),
            Self::Emulator => f.write_str("emulator"),
        }
    }
}
