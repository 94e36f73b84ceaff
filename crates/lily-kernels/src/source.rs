//! Targets, and the text that each puts around a kernel.

/// What a kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Apple GPUs: the system's compiler at run time, MSL 3.1 and later.
    Metal,
    /// NVIDIA GPUs: NVRTC at run time.
    Cuda,
    /// The emulator: a C++17 compiler, for tests.
    Emulator,
}

/// A file that goes in front of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// `kernels/NAME` as a [`Part`].
macro_rules! part {
    ($name:literal) => {
        Part { name: $name, text: include_str!(concat!("../kernels/", $name)) }
    };
}

const METAL: &[Part] = &[part!("platform/metal.h"), part!("platform/metal_codes.h")];
const CUDA: &[Part] = &[part!("platform/cuda.h")];
const EMULATOR: &[Part] = &[
    part!("platform/host_machine.h"),
    part!("platform/host.h"),
    part!("platform/host_simdgroup.h"),
    part!("platform/metal_codes.h"),
];
const EMULATED_CUDA: Part = part!("platform/host_cuda.h");
pub(crate) const COMMON: Part = part!("common.h");

/// Headers that kernels ask for with a `// needs:` line.
const SHARED: &[Part] = &[
    part!("quant.h"),
    part!("quant_tiles.h"),
    part!("rows.h"),
    part!("wgmma_rows.h"),
    part!("gemv.h"),
    part!("gate_up.h"),
    part!("head_norm.h"),
    part!("rotary.h"),
    part!("top_experts.h"),
    part!("random.h"),
    part!("sampling.h"),
];

const METAL_TILES: Part = part!("platform/metal_tiles.h");
const CUDA_TILES: Part = part!("platform/cuda_tiles.h");
const EMULATED_CUDA_TILES: Part = part!("platform/host_tiles.h");
const CUDA_WGMMA: Part = part!("platform/cuda_wgmma.h");
const EMULATOR_WGMMA: Part = part!("platform/host_wgmma.h");
const METAL_TENSOR: Part = part!("platform/metal_tensor.h");
const EMULATOR_TENSOR: Part = part!("platform/host_tensor.h");

impl Platform {
    /// The headers that make the dialect this platform's language. `cuda_only`: of a kernel written for CUDA alone, which
    /// the emulator runs by emulating the warp instructions that it uses.
    pub(crate) fn headers(self, cuda_only: bool) -> Vec<Part> {
        let mut parts = match self {
            Self::Metal => METAL.to_vec(),
            Self::Cuda => CUDA.to_vec(),
            Self::Emulator => EMULATOR.to_vec(),
        };
        if cuda_only && self == Self::Emulator {
            parts.push(EMULATED_CUDA);
        }
        parts
    }

    /// A shared header by the name that a `// needs:` line gives it. `tiles` are each platform's own, and the emulator runs
    /// those of the platform that the kernel is for: Metal's text itself, or an emulation of CUDA's. `wgmma` is CUDA's and
    /// `tensor` Metal's, both emulated too.
    pub(crate) fn shared(self, name: &str, cuda_only: bool) -> Option<Part> {
        Some(match (name, self) {
            ("tiles", Self::Cuda) => CUDA_TILES,
            ("tiles", Self::Emulator) if cuda_only => EMULATED_CUDA_TILES,
            ("tiles", _) => METAL_TILES,
            ("wgmma", Self::Emulator) => EMULATOR_WGMMA,
            ("wgmma", _) => CUDA_WGMMA,
            ("tensor", Self::Emulator) => EMULATOR_TENSOR,
            ("tensor", _) => METAL_TENSOR,
            _ => return SHARED.iter().copied().find(|part| part.name == name),
        })
    }

    /// Its name in keys and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Metal => "metal",
            Self::Cuda => "cuda",
            Self::Emulator => "emulator",
        }
    }
}
