//! Which instruction set to use.

/// An instruction set that the kernels are compiled for, from plain to fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// No vector intrinsics: any machine.
    Scalar,
    /// x86-64 with AVX2, FMA, F16C and BMI2 (Haswell, Zen and later).
    Avx2,
    /// AVX2 with 256-bit VNNI (Alder Lake and later without AVX-512).
    AvxVnni,
    /// AVX-512 with VNNI and VBMI (Ice Lake, Zen 4 and later). Older AVX-512 machines use AVX2.
    Avx512,
    /// AVX-512 with AMX tiles of 8-bit integers (Sapphire Rapids and later) for products of many rows.
    Amx,
    /// AArch64 NEON.
    Neon,
    /// NEON with the 8-bit dot product (Apple M1, Neoverse N1 and later).
    NeonDotprod,
    /// NEON with products of 8-bit matrices (Apple M2, Neoverse V1 and later).
    NeonI8mm,
}

impl Tier {
    /// All tiers of this architecture that this machine has, plain to fast.
    pub fn available() -> Vec<Self> {
        let mut tiers = vec![Self::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi2");
            if avx2 {
                tiers.push(Self::Avx2);
                if is_x86_feature_detected!("avxvnni") {
                    tiers.push(Self::AvxVnni);
                }
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
                    && is_x86_feature_detected!("avx512vbmi")
                {
                    tiers.push(Self::Avx512);
                    if super::amx::available() {
                        tiers.push(Self::Amx);
                    }
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            tiers.push(Self::Neon);
            if std::arch::is_aarch64_feature_detected!("dotprod") {
                tiers.push(Self::NeonDotprod);
                if std::arch::is_aarch64_feature_detected!("i8mm") {
                    tiers.push(Self::NeonI8mm);
                }
            }
        }
        tiers
    }

    /// The fastest tier of this machine.
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or(Self::Scalar)
    }

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avx-vnni",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
            Self::Neon => "neon",
            Self::NeonDotprod => "neon-dotprod",
            Self::NeonI8mm => "neon-i8mm",
        }
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Tier {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [
            Self::Scalar,
            Self::Avx2,
            Self::AvxVnni,
            Self::Avx512,
            Self::Amx,
            Self::Neon,
            Self::NeonDotprod,
            Self::NeonI8mm,
        ];
        all.into_iter().find(|tier| tier.name() == name).ok_or_else(|| {
            format!("unknown instruction set \"{name}\"\nhint: one of {}", all.map(Self::name).join(", "))
        })
    }
}
