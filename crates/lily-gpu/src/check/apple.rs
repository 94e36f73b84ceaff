//! Apple's GPU families: what a launch may ask of each.

use std::{fmt, str::FromStr};

/// A GPU family of Apple silicon Macs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AppleFamily {
    /// M1.
    Apple7,
    /// M2.
    Apple8,
    /// M3 and M4.
    Apple9,
    /// M5.
    Apple10,
}

/// One of them with what differs from machine to machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppleGpu {
    /// Its family.
    pub family: AppleFamily,
    /// GPU cores.
    pub cores: u32,
    /// Bytes that the system recommends to use at most.
    pub working_set: u64,
    /// The largest buffer.
    pub buffer: u64,
}

/// Limits of Apple's Metal Feature Set Tables (May 2026), table "Metal GPU implementation limits by family", the same for
/// the families 7 to 10.
impl AppleFamily {
    /// Every family that the kernels run on, oldest first.
    pub const ALL: [Self; 4] = [Self::Apple7, Self::Apple8, Self::Apple9, Self::Apple10];

    /// "Maximum threads per threadgroup". A pipeline with many registers may have fewer; only a Mac can tell.
    pub const fn threads(self) -> u32 {
        1024
    }

    /// "Maximum total threadgroup memory allocation", in bytes.
    pub const fn threadgroup_memory(self) -> u32 {
        32 * 1024
    }

    /// "Maximum number of entries in the buffer argument table, per compute function".
    pub const fn arguments(self) -> u32 {
        31
    }

    /// Bytes of one `setBytes` call (its documentation; larger data needs a buffer).
    pub const fn parameters(self) -> usize {
        4096
    }

    /// Most floating-point operations of one launch on so many cores. The system has no documented bound on time, only a
    /// watchdog that ends command buffers which keep a display waiting; a launch cannot be cut once it is encoded. A core
    /// computes at most 128 x 2 operations a cycle in f32, some 3.5e11 a second, and these kernels perhaps a third of that:
    /// 1.6e10 are between 50 and 150 ms. Ten cores may then just take a block of 32 rows of attention over 262,144
    /// positions, 1.4e11.
    pub const fn launch_operations(cores: u32) -> u64 {
        16_000_000_000 * cores as u64
    }

    /// The generation that its number in the language stands for.
    pub const fn number(self) -> u32 {
        match self {
            Self::Apple7 => 7,
            Self::Apple8 => 8,
            Self::Apple9 => 9,
            Self::Apple10 => 10,
        }
    }

    /// Chips of the family.
    pub const fn chips(self) -> &'static str {
        match self {
            Self::Apple7 => "M1",
            Self::Apple8 => "M2",
            Self::Apple9 => "M3, M4",
            Self::Apple10 => "M5",
        }
    }

    /// The family of a number; newer ones count as the newest known.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0..7 => None,
            7 => Some(Self::Apple7),
            8 => Some(Self::Apple8),
            9 => Some(Self::Apple9),
            10.. => Some(Self::Apple10),
        }
    }

    /// The smallest Mac of the family that holds the model at 4 bits: 32 GB, of which the system recommends 24 GiB and
    /// allows 18 GiB in one buffer (reported by an M4 with 32 GB).
    pub const fn smallest(self) -> AppleGpu {
        let cores = match self {
            Self::Apple7 => 24,
            _ => 10,
        };
        AppleGpu { family: self, cores, working_set: 24 << 30, buffer: 18 << 30 }
    }
}

impl fmt::Display for AppleFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "apple{}", self.number())
    }
}

/// From what a device calls its architecture: `apple8`, or as Metal names it, `applegpu_g14s`.
impl FromStr for AppleFamily {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let digits = |text: &str| -> Option<u32> {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            text[..end].parse().ok()
        };
        let family = match name.strip_prefix("applegpu_g") {
            // g13 is the M1's, g14 the M2's, g15 the M3's, g16 the M4's, g17 the M5's.
            Some(generation) => digits(generation).and_then(|generation| match generation {
                0..13 => None,
                13 => Some(Self::Apple7),
                14 => Some(Self::Apple8),
                15 | 16 => Some(Self::Apple9),
                17.. => Some(Self::Apple10),
            }),
            None => {
                let rest = name.strip_prefix("apple").unwrap_or_default();
                digits(rest.trim_start_matches([' ', '-'])).and_then(Self::from_number)
            }
        };
        family.ok_or_else(|| format!("\"{name}\" is no Apple GPU family from apple7 on"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_by_name() {
        for (name, wanted) in [
            ("apple7", Some(AppleFamily::Apple7)),
            ("apple-9", Some(AppleFamily::Apple9)),
            ("apple12", Some(AppleFamily::Apple10)),
            ("applegpu_g13", Some(AppleFamily::Apple7)),
            ("applegpu_g14s", Some(AppleFamily::Apple8)),
            ("applegpu_g16g", Some(AppleFamily::Apple9)),
            ("applegpu_g17s", Some(AppleFamily::Apple10)),
            ("apple6", None),
            ("sm_90a", None),
            ("", None),
        ] {
            assert_eq!(name.parse().ok(), wanted, "{name}");
        }
        for family in AppleFamily::ALL {
            assert_eq!(family.to_string().parse(), Ok(family));
        }
    }
}
