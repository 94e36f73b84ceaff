//! [`Vector`] on NEON.

use super::vector::Vector;
use core::arch::aarch64::*;

/// Four lanes.
#[derive(Clone, Copy)]
pub(crate) struct F32x4(pub(crate) float32x4_t);

impl Vector for F32x4 {
    const LANES: usize = 4;
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vdupq_n_f32(x) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: NEON and 4 elements by contract.
        Self(unsafe { vld1q_f32(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: as `load`.
        unsafe { vst1q_f32(p, self.0) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: 4 elements by contract. The conversion instruction is in every AArch64, its intrinsic is not stable.
        unsafe {
            let halves: uint16x4_t = vld1_u16(p);
            let wide: float32x4_t;
            core::arch::asm!("fcvtl {wide:v}.4s, {halves:v}.4h", wide = out(vreg) wide, halves = in(vreg) halves,
                options(pure, nomem, nostack, preserves_flags));
            Self(wide)
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: as `load`.
        Self(unsafe { vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p))) })
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> Self {
        // SAFETY: 4 bytes by contract.
        Self(unsafe {
            let bytes = vreinterpret_u8_u32(vdup_n_u32(p.cast::<u32>().read_unaligned()));
            vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))))
        })
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vaddq_f32(self.0, b.0) })
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vsubq_f32(self.0, b.0) })
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vmulq_f32(self.0, b.0) })
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vdivq_f32(self.0, b.0) })
    }
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vmaxq_f32(self.0, b.0) })
    }
    #[inline(always)]
    unsafe fn min(self, b: Self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vminq_f32(self.0, b.0) })
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vfmaq_f32(c.0, self.0, b.0) })
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vrndnq_f32(self.0) })
    }
    #[inline(always)]
    unsafe fn ldexp(self, n: Self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe {
            let power = vshlq_n_s32::<23>(vaddq_s32(vcvtnq_s32_f32(n.0), vdupq_n_s32(127)));
            vmulq_f32(self.0, vreinterpretq_f32_s32(power))
        })
    }
    #[inline(always)]
    unsafe fn abs(self) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vabsq_f32(self.0) })
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: NEON by contract.
        unsafe { vaddvq_f32(self.0) }
    }
    #[inline(always)]
    unsafe fn max_lane(self) -> f32 {
        // SAFETY: NEON by contract.
        unsafe { vmaxvq_f32(self.0) }
    }
    #[inline(always)]
    unsafe fn store_i8(self, p: *mut i8) {
        // SAFETY: NEON and 4 bytes by contract.
        unsafe {
            let words = vqmovn_s32(vcvtnq_s32_f32(self.0));
            let bytes = vqmovn_s16(vcombine_s16(words, words));
            p.cast::<u32>().write_unaligned(vget_lane_u32::<0>(vreinterpret_u32_s8(bytes)));
        }
    }
}
