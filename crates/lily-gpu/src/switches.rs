//! The optimisations by name, each with its switch (`lily bench --without NAME`).

use std::{fmt, str::FromStr};

/// An optimisation of the GPU path. Each is on by default, and the model computes the same without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Optimisation {
    /// Prefill: weights dequantised a tile at a time inside the matrix products; without it, whole matrices to memory
    /// before them (and products on portable tiles, as without `register-operands`).
    FusedDequant,
    /// Prefill: weights dequantised into the register operands of Hopper's matrix products, where the device has them;
    /// without it, into the threadgroup memory of portable tiles.
    RegisterOperands,
    /// Prefill: routing on the device.
    GpuRouting,
    /// Prefill: tiles chosen from the rows per expert.
    AdaptiveTiles,
    /// Prefill: GDN state in registers, or the chunked matrix form.
    RegisterScan,
    /// Prefill: chunks of bounded size; without it a prompt is one chunk, and its temporaries grow with it.
    ChunkedPrefill,
    /// Decode: one simdgroup per few output rows.
    RowGemv,
    /// Decode: the sampled token feeds the next step on the device.
    DeviceLoop,
    /// Decode: independent launches overlap.
    ConcurrentPass,
    /// Decode: both input projections of the experts and their activation in one launch.
    FuseExpertIn,
    /// Decode: output projections, routing weights and shared expert in one launch.
    FuseExpertOut,
    /// Decode: q/k norm, rotary and KV write in one launch.
    FuseQk,
    /// Decode: convolution, gates, recurrence and gated norm in one launch.
    FuseGdn,
    /// Decode: adjacent lanes read adjacent bytes of KV rows.
    CoalescedKv,
    /// Decode: query heads share each KV row that is read.
    GqaPack,
    /// Decode: equal context blocks for long contexts.
    FixedBlocks,
    /// Decode: wide products with one row on tensor cores, where the device has them.
    TensorRows,
    /// Decode: the weights of launches to come are brought into the cache while launches run that wait for little else.
    PrefetchWeights,
}

/// The two phases of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Many tokens at once.
    Prefill,
    /// One token after the other.
    Decode,
}

impl Optimisation {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::FusedDequant,
        Self::RegisterOperands,
        Self::GpuRouting,
        Self::AdaptiveTiles,
        Self::RegisterScan,
        Self::ChunkedPrefill,
        Self::RowGemv,
        Self::DeviceLoop,
        Self::ConcurrentPass,
        Self::FuseExpertIn,
        Self::FuseExpertOut,
        Self::FuseQk,
        Self::FuseGdn,
        Self::CoalescedKv,
        Self::GqaPack,
        Self::FixedBlocks,
        Self::TensorRows,
        Self::PrefetchWeights,
    ];

    /// When it matters.
    pub const fn phase(self) -> Phase {
        match self {
            Self::FusedDequant
            | Self::RegisterOperands
            | Self::GpuRouting
            | Self::AdaptiveTiles
            | Self::RegisterScan
            | Self::ChunkedPrefill => Phase::Prefill,
            _ => Phase::Decode,
        }
    }

    /// True if it shows in what is recorded; false for those that concern how recordings are run.
    pub const fn is_recorded(self) -> bool {
        !matches!(self, Self::GpuRouting | Self::ChunkedPrefill | Self::DeviceLoop | Self::ConcurrentPass)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FusedDequant => "fused-dequant",
            Self::RegisterOperands => "register-operands",
            Self::GpuRouting => "gpu-routing",
            Self::AdaptiveTiles => "adaptive-tiles",
            Self::RegisterScan => "register-scan",
            Self::ChunkedPrefill => "chunked-prefill",
            Self::RowGemv => "row-gemv",
            Self::DeviceLoop => "device-loop",
            Self::ConcurrentPass => "concurrent-pass",
            Self::FuseExpertIn => "fuse-expert-in",
            Self::FuseExpertOut => "fuse-expert-out",
            Self::FuseQk => "fuse-qk",
            Self::FuseGdn => "fuse-gdn",
            Self::CoalescedKv => "coalesced-kv",
            Self::GqaPack => "gqa-pack",
            Self::FixedBlocks => "fixed-blocks",
            Self::TensorRows => "tensor-rows",
            Self::PrefetchWeights => "prefetch-weights",
        }
    }
}

impl fmt::Display for Optimisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Optimisation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|one| one.name()).collect();
            format!("there is no optimisation \"{name}\"\nhint: one of {}", names.join(", "))
        })
    }
}

/// Which optimisations are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switches {
    off: u32,
}

/// All but those that cost more than they bring where they were measured: `prefetch-weights` takes 2 % of the tokens per
/// second on an H200.
impl Default for Switches {
    fn default() -> Self {
        Self::all().and_without(&[Optimisation::PrefetchWeights])
    }
}

impl Switches {
    /// Every one.
    pub fn all() -> Self {
        Self { off: 0 }
    }

    /// The default without these.
    pub fn without(off: &[Optimisation]) -> Self {
        Self::default().and_without(off)
    }

    fn and_without(self, off: &[Optimisation]) -> Self {
        Self { off: off.iter().fold(self.off, |bits, &one| bits | 1 << one as u32) }
    }

    /// The same with one more on.
    #[must_use]
    pub fn and_with(self, one: Optimisation) -> Self {
        Self { off: self.off & !(1 << one as u32) }
    }

    /// The same with one of them the other way round.
    pub(crate) fn toggled(self, one: Optimisation) -> Self {
        Self { off: self.off ^ 1 << one as u32 }
    }

    /// True unless it was switched off.
    pub fn has(self, one: Optimisation) -> bool {
        self.off & 1 << one as u32 == 0
    }

    /// Those that are off.
    pub fn off(self) -> impl Iterator<Item = Optimisation> {
        Optimisation::ALL.into_iter().filter(move |&one| !self.has(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_switch() {
        for one in Optimisation::ALL {
            assert_eq!(one.name().parse(), Ok(one));
            assert!(Switches::all().has(one) && !Switches::without(&[one]).has(one));
        }
        assert!("fuse".parse::<Optimisation>().unwrap_err().contains("gqa-pack"));
        assert_eq!(Switches::default().off().collect::<Vec<_>>(), [Optimisation::PrefetchWeights]);
        assert_eq!(Switches::all().off().count(), 0);
    }
}
