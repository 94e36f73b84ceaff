//! What a machine says about itself, and what follows from it.

use crate::{GpuError, device::Limits};
use lily_kernels::metal_tier::{MetalMachine, TensorProbe};
use std::fmt;

/// Left alone of what the system recommends: other programs, the display, pipelines and command buffers.
const RESERVE: u64 = 2 << 30;
/// The oldest system: MSL 3.1, for `bfloat`.
const OLDEST: Os = Os { major: 14, minor: 0 };
/// The oldest family: simdgroup matrices and reductions.
const OLDEST_FAMILY: u32 = 7;

/// The line with which a kernel asks for the headers of tensor operations.
const TENSOR_SWITCH: &str = "#define KD_TENSOR 1";

/// A version of macOS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Os {
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl Os {
    /// As the system answers. To programs made with an older SDK, macOS 26 calls itself 16.
    pub(super) fn new(major: isize, minor: isize) -> Self {
        let number = |value: isize| u32::try_from(value).unwrap_or(0);
        let major = number(major);
        Self { major: if (16..26).contains(&major) { major + 10 } else { major }, minor: number(minor) }
    }
}

impl fmt::Display for Os {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A version of Metal's language. It is named in every compilation: the default depends on the SDK that the executable
/// records, not on the system that it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Language {
    /// 3.1: what every kernel without tensor operations is written in.
    V3_1,
    /// 4.0, macOS 26: tensor operations.
    V4_0,
}

impl Language {
    /// What a text is written in: it switches tensor operations on in its first lines, or has none.
    pub(super) fn of(source: &str) -> Self {
        if source.lines().any(|line| line == TENSOR_SWITCH) { Self::V4_0 } else { Self::V3_1 }
    }

    /// As it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V3_1 => "3.1",
            Self::V4_0 => "4.0",
        }
    }

    /// The first system that has it.
    pub(super) fn since(self) -> Os {
        match self {
            Self::V3_1 => OLDEST,
            Self::V4_0 => Os { major: 26, minor: 0 },
        }
    }
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// As `Apple M2 Max`.
    pub(super) name: String,
    /// As `applegpu_g14s`.
    pub(super) architecture: String,
    /// The newest Apple family that is supported, as 8; 0 for none.
    pub(super) family: u32,
    /// `MTLGPUFamilyMetal3`.
    pub(super) metal3: bool,
    /// `MTLGPUFamilyMetal4`.
    pub(super) metal4: bool,
    pub(super) os: Os,
    /// With the build, as people know it.
    pub(super) os_text: String,
    /// CPU and GPU share their memory.
    pub(super) unified: bool,
    /// Bytes that the system recommends to use at most.
    pub(super) working_set: u64,
    /// Bytes that this process uses already.
    pub(super) allocated: u64,
    /// Of one buffer.
    pub(super) max_buffer: u64,
    /// Of one threadgroup.
    pub(super) threadgroup_memory: u32,
    /// Of one threadgroup.
    pub(super) threads: u32,
}

impl Facts {
    /// Refuses what cannot work, by name.
    pub(super) fn check(&self) -> Result<(), GpuError> {
        let unavailable =
            |what: String, hint: &str| Err(GpuError::Unavailable { what, hint: hint.to_owned() });
        if self.os < OLDEST {
            return unavailable(
                format!("macOS {} is too old for the Metal backend", self.os),
                "it needs macOS 14 or later; --backend cpu runs everywhere",
            );
        }
        if !self.unified {
            return unavailable(
                format!("{} does not share its memory with the CPU", self.name),
                "the Metal backend runs on Apple silicon only; use --backend cpu",
            );
        }
        if self.family < OLDEST_FAMILY && !self.is_virtual() {
            return unavailable(
                format!("{} is of GPU family Apple {}", self.name, self.family),
                "the kernels need Apple 7 (M1) or newer; use --backend cpu",
            );
        }
        Ok(())
    }

    /// What decides which matrix units kernels use.
    pub(super) fn machine(&self) -> MetalMachine {
        MetalMachine {
            apple_family: self.family,
            macos: (self.os.major, self.os.minor),
            probe: TensorProbe::NotRun,
        }
    }

    /// A virtual machine's device: kernels compile and small ones run; it promises nothing by family.
    pub(super) fn is_virtual(&self) -> bool {
        self.name.contains("Paravirtual")
    }

    /// True if buffers over mapped files show what is in the file: those of macOS 14's virtual machines went stale.
    pub(super) fn may_wrap(&self) -> bool {
        !(self.is_virtual() && self.os.major < 15)
    }

    /// A text in a language that the system does not have is an error before its compiler is asked.
    pub(super) fn check_language(&self, language: Language) -> Result<(), String> {
        if self.os < language.since() {
            return Err(format!(
                "it is written in Metal {}, which macOS {} has and {} has not",
                language.name(),
                language.since(),
                self.os
            ));
        }
        Ok(())
    }

    /// What can be held and launched.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            memory: self.working_set.saturating_sub(self.allocated).saturating_sub(RESERVE),
            buffer: self.max_buffer,
            threadgroup_memory: self.threadgroup_memory,
            threads: self.threads,
            cores: cores(&self.name),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, Apple {}", self.name, self.architecture, self.family)?;
        for (has, name) in [(self.metal3, "Metal 3"), (self.metal4, "Metal 4")] {
            if has {
                write!(f, ", {name}")?;
            }
        }
        write!(f, "), macOS {}", self.os_text)
    }
}

/// Most GPU cores that a chip of this name has: Metal does not tell. Too many only means that some launches are cut finer
/// than they need to be.
fn cores(name: &str) -> u32 {
    let has = |suffix: &str| name.split_whitespace().any(|word| word == suffix);
    if has("Ultra") {
        80
    } else if has("Max") {
        40
    } else if has("Pro") {
        20
    } else {
        10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m2_max() -> Facts {
        Facts {
            name: "Apple M2 Max".to_owned(),
            architecture: "applegpu_g14s".to_owned(),
            family: 8,
            metal3: true,
            metal4: false,
            os: Os::new(14, 5),
            os_text: "Version 14.5 (Build 23F79)".to_owned(),
            unified: true,
            working_set: 24 << 30,
            allocated: 1 << 30,
            max_buffer: 18 << 30,
            threadgroup_memory: 32 << 10,
            threads: 1024,
        }
    }

    #[test]
    fn an_m5_is_tested_and_an_m2_is_not() {
        let m5 = Facts { family: 10, os: Os::new(26, 2), ..m2_max() }.machine();
        assert!(m5.wants_probe() && !m2_max().machine().wants_probe());
        assert_eq!((m5.apple_family, m5.macos), (10, (26, 2)));
    }

    #[test]
    fn what_is_left_of_the_working_set() {
        let limits = m2_max().limits();
        assert_eq!((limits.memory, limits.buffer, limits.cores), (21 << 30, 18 << 30, 40));
        assert_eq!(Facts { working_set: 1 << 30, ..m2_max() }.limits().memory, 0);
        assert_eq!(
            m2_max().to_string(),
            "Apple M2 Max (applegpu_g14s, Apple 8, Metal 3), macOS Version 14.5 (Build 23F79)"
        );
    }

    #[test]
    fn machines_that_cannot_serve_are_refused_by_name() {
        assert!(m2_max().check().is_ok());
        let words = |facts: Facts| facts.check().unwrap_err().to_string();
        assert!(words(Facts { os: Os::new(13, 6), ..m2_max() }).starts_with("macOS 13.6 is too old"));
        let radeon = Facts { name: "AMD Radeon".to_owned(), unified: false, family: 0, ..m2_max() };
        assert!(words(radeon).starts_with("AMD Radeon does not share"));
        assert!(words(Facts { family: 6, ..m2_max() }).contains("family Apple 6"));
        let hosted = Facts { name: "Apple Paravirtual device".to_owned(), family: 5, ..m2_max() };
        assert!(hosted.check().is_ok() && hosted.is_virtual() && !hosted.may_wrap());
        assert!(Facts { os: Os::new(15, 0), ..hosted }.may_wrap());
    }

    #[test]
    fn macos_16_is_26() {
        assert_eq!(Os::new(16, 1), Os { major: 26, minor: 1 });
        assert_eq!(Os::new(15, 7), Os { major: 15, minor: 7 });
        assert_eq!(Os::new(27, 0), Os { major: 27, minor: 0 });
    }

    #[test]
    fn the_language_follows_the_text() {
        let plain = "#ifdef KD_TENSOR\n#include <metal_tensor>\n#endif\n";
        assert_eq!(Language::of(plain), Language::V3_1);
        let tensors = Language::of(&format!("#define KD_TENSOR 1\n{plain}"));
        assert_eq!(tensors, Language::V4_0);
        assert!(Facts { os: Os::new(26, 0), ..m2_max() }.check_language(tensors).is_ok());
        let words = m2_max().check_language(tensors).unwrap_err();
        assert_eq!(words, "it is written in Metal 4.0, which macOS 26.0 has and 14.5 has not");
    }
}
