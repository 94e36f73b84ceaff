//! Metal's numbers: which of its options, modes and sizes are used. The calls only pass them on; where the bindings have names
//! for them, `api` compares the two when it is compiled.

use super::facts::Language;
use crate::device::Pass;

/// Of every buffer (`MTLResourceOptions`): shared between CPU and GPU (0 in bits 4 to 7; 2 would be the GPU's alone), its
/// hazards not tracked (1 in bits 8 and 9), because encoders order what touches it.
pub(super) const BUFFER: usize = 1 << 8;
/// What a barrier covers (`MTLBarrierScope`): buffers. Textures would be 2.
pub(super) const BARRIER: usize = 1;
/// Of a pipeline whose machine code must be in the archive (`MTLPipelineOption`).
pub(super) const ARCHIVED: usize = 1 << 2;
/// Of a pipeline that is compiled (`MTLPipelineOption`).
pub(super) const COMPILED: usize = 0;
/// Of a command buffer that ended well (`MTLCommandBufferStatus`); 5 is one that failed.
pub(super) const COMPLETED: usize = 4;
/// No reassociation, infinities and NaN are honoured (`MTLMathMode`).
pub(super) const SAFE: isize = 0;
/// Functions of single precision are precise (`MTLMathFloatingPointFunctions`); 0 would be fast.
pub(super) const PRECISE: isize = 1;
/// `MTLGPUFamily` of Metal 3.
pub(super) const METAL_3: isize = 5001;
/// `MTLGPUFamily` of Metal 4.
pub(super) const METAL_4: isize = 5002;
/// The newest Apple family that is asked for. An Apple 11 has no name in the bindings: its number follows the others.
const NEWEST: u32 = 11;

/// `MTLGPUFamily` of an Apple family.
pub(super) const fn family(number: u32) -> isize {
    1000 + number as isize
}

/// The newest Apple family of which the device says that it is; 0 for none.
pub(super) fn newest_family(supports: impl Fn(isize) -> bool) -> u32 {
    (1..=NEWEST).rev().find(|&number| supports(family(number))).unwrap_or(0)
}

/// `MTLLanguageVersion`: the major version in the upper half.
pub(super) const fn language(language: Language) -> usize {
    match language {
        Language::V3_1 => (3 << 16) + 1,
        Language::V4_0 => 4 << 16,
    }
}

/// `MTLDispatchType` of a compute encoder: in a serial one (0) each dispatch waits for the one ahead, in a concurrent one (1)
/// barriers alone order them.
pub(super) const fn dispatch_type(pass: Pass) -> usize {
    match pass {
        Pass::Serial => 0,
        Pass::Concurrent | Pass::Early => 1,
    }
}

/// Width, height and depth of a threadgroup: kernels number their threads along the width alone.
pub(super) const fn threadgroup(threads: u32) -> [usize; 3] {
    [threads as usize, 1, 1]
}

/// Width, height and depth of a grid of threadgroups.
pub(super) const fn grid(groups: [u32; 3]) -> [usize; 3] {
    [groups[0] as usize, groups[1] as usize, groups[2] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_shared_and_untracked() {
        let (storage, tracking) = (BUFFER >> 4 & 15, BUFFER >> 8 & 3);
        assert_eq!((storage, tracking, BUFFER & 15), (0, 1, 0), "shared, untracked, the default cache mode");
    }

    #[test]
    fn a_concurrent_encoder_unless_everything_is_to_be_ordered() {
        assert_eq!([Pass::Serial, Pass::Concurrent, Pass::Early].map(dispatch_type), [0, 1, 1]);
    }

    #[test]
    fn a_barrier_is_for_buffers() {
        assert_eq!((BARRIER, ARCHIVED, COMPILED, COMPLETED), (1, 4, 0, 4));
        assert_eq!((SAFE, PRECISE), (0, 1));
    }

    #[test]
    fn languages_and_families_have_the_numbers_of_the_documentation() {
        assert_eq!((language(Language::V3_1), language(Language::V4_0)), (0x3_0001, 0x4_0000));
        assert_eq!((family(7), family(10), METAL_3, METAL_4), (1007, 1010, 5001, 5002));
        assert_eq!(newest_family(|raw| (1001..=1009).contains(&raw)), 9);
        assert_eq!(newest_family(|raw| raw > 1000 && raw < 1020), 11, "families to come");
        assert_eq!(newest_family(|_| false), 0);
    }

    #[test]
    fn threads_are_counted_along_the_width() {
        assert_eq!((threadgroup(256), grid([3, 4, 5])), ([256, 1, 1], [3, 4, 5]));
    }
}
