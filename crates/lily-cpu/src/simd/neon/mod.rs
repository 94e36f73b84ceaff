//! NEON, with and without the 8-bit dot products and matrix products.

mod gemm;

use super::{Simd, f32x4_neon::F32x4, int_vector::IntVector, unpack};
use crate::{
    activations::{Order, QuantMatrix, QuantRow},
    linear::AffineView,
};
use core::arch::aarch64::*;
use std::{marker::PhantomData, ops::Range};

/// NEON with a way to multiply bytes.
pub(crate) struct Neon<D>(PhantomData<D>);

/// Four sums, each of four neighbouring products of codes by signed bytes above -128.
pub(crate) trait ByteDot {
    /// There is `USMMLA`, for products of many rows.
    const MATRIX: bool = false;

    /// `SMALL` promises codes below 128.
    ///
    /// # Safety
    /// The instruction set.
    unsafe fn dot<const SMALL: bool>(sums: int32x4_t, codes: uint8x16_t, x: int8x16_t) -> int32x4_t;
}

/// Widening multiplies, on any AArch64.
pub(crate) struct Widening;

impl ByteDot for Widening {
    #[inline(always)]
    unsafe fn dot<const SMALL: bool>(sums: int32x4_t, codes: uint8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: NEON by contract. Codes reach 255, so they are widened as unsigned; a product is at most 255 * 127 and
        // fits in 16 bits.
        unsafe {
            let low_codes = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(codes)));
            let high_codes = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(codes)));
            let low = vmulq_s16(low_codes, vmovl_s8(vget_low_s8(x)));
            let high = vmulq_s16(high_codes, vmovl_s8(vget_high_s8(x)));
            vaddq_s32(sums, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)))
        }
    }
}

/// `SDOT`: signed by signed bytes, so codes above 127 are met in two halves.
pub(crate) struct Dotprod;

impl ByteDot for Dotprod {
    #[inline(always)]
    unsafe fn dot<const SMALL: bool>(sums: int32x4_t, codes: uint8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: NEON with the dot product by contract. `code = (code & 127) + (code & 128)`, and the second term,
        // 0 or 128, is -128 as a signed byte.
        unsafe {
            if SMALL {
                return sdot(sums, vreinterpretq_s8_u8(codes), x);
            }
            let small = vreinterpretq_s8_u8(vandq_u8(codes, vdupq_n_u8(127)));
            let large = vreinterpretq_s8_u8(vandq_u8(codes, vdupq_n_u8(128)));
            vsubq_s32(sdot(sums, small, x), sdot(vdupq_n_s32(0), large, x))
        }
    }
}

/// The signed dot product; its intrinsic is not stable.
///
/// # Safety
/// The instruction set.
#[inline(always)]
unsafe fn sdot(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction set by contract; it touches registers only.
    unsafe {
        core::arch::asm!("sdot {s:v}.4s, {a:v}.16b, {b:v}.16b", s = inout(vreg) sums, a = in(vreg) a,
            b = in(vreg) b, options(pure, nomem, nostack, preserves_flags));
    }
    sums
}

/// `USDOT` and `USMMLA`: unsigned by signed bytes.
pub(crate) struct I8mm;

impl ByteDot for I8mm {
    const MATRIX: bool = true;

    #[inline(always)]
    unsafe fn dot<const SMALL: bool>(mut sums: int32x4_t, codes: uint8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: NEON with `i8mm` by contract; the instruction's intrinsic is not stable. It touches registers only.
        unsafe {
            core::arch::asm!("usdot {s:v}.4s, {a:v}.16b, {b:v}.16b", s = inout(vreg) sums, a = in(vreg) codes,
                b = in(vreg) x, options(pure, nomem, nostack, preserves_flags));
        }
        sums
    }
}

/// Four sums of byte products.
pub(crate) struct I32x4<D>(int32x4_t, PhantomData<D>);

impl<D> Clone for I32x4<D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for I32x4<D> {}

impl<D: ByteDot> IntVector for I32x4<D> {
    type F = F32x4;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vdupq_n_s32(0) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: NEON and 16 bytes by contract.
        Self(unsafe { vreinterpretq_s32_u8(vld1q_u8(p)) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn splat(four: i32) -> Self {
        // SAFETY: NEON by contract.
        Self(unsafe { vdupq_n_s32(four) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn dot<const SMALL: bool>(self, codes: Self, x: Self) -> Self {
        // SAFETY: the same contract.
        let sums =
            unsafe { D::dot::<SMALL>(self.0, vreinterpretq_u8_s32(codes.0), vreinterpretq_s8_s32(x.0)) };
        Self(sums, PhantomData)
    }
    #[inline(always)]
    unsafe fn to_f32(self) -> F32x4 {
        // SAFETY: NEON by contract.
        F32x4(unsafe { vcvtq_f32_s32(self.0) })
    }
}

impl<D: ByteDot> Simd for Neon<D> {
    type F = F32x4;
    type I = I32x4<D>;

    #[inline(always)]
    unsafe fn unpack(bits: usize, codes: *const u8, n: usize, out: *mut u8) {
        // SAFETY: the same contract; `n` is a multiple of 32.
        unsafe {
            match bits {
                8 => std::ptr::copy_nonoverlapping(codes, out, n),
                4 => {
                    for i in (0..n).step_by(32) {
                        let packed = vld1q_u8(codes.add(i / 2));
                        let pair = uint8x16x2_t(vandq_u8(packed, vdupq_n_u8(15)), vshrq_n_u8::<4>(packed));
                        vst2q_u8(out.add(i), pair);
                    }
                }
                _ => unpack::unpack(bits, codes, n, out),
            }
        }
    }

    #[inline(always)]
    unsafe fn gemv_i8(w: &AffineView<'_>, rows: Range<usize>, x: &QuantRow<'_>, out: &mut [f32]) {
        let unit = x.layout.unit;
        let mut bytes = [0u8; 64];
        for (row, out) in rows.zip(out) {
            // SAFETY: the instruction set is there; a unit (32 or 64 columns) lies inside the row.
            unsafe {
                let mut sum = vdupq_n_f32(0.0);
                let mut total = 0.0;
                for index in 0..w.cols / unit {
                    let column = index * unit;
                    let mut dots = vdupq_n_s32(0);
                    match x.layout.order {
                        Order::Natural => {
                            Self::unpack(w.bits, w.code_ptr(row, column), unit, bytes.as_mut_ptr());
                            for i in (0..unit).step_by(16) {
                                let codes = vld1q_u8(bytes.as_ptr().add(i));
                                let x = vld1q_s8(x.codes.as_ptr().add(column + i));
                                dots = if w.bits == 8 {
                                    D::dot::<false>(dots, codes, x)
                                } else {
                                    D::dot::<true>(dots, codes, x)
                                };
                            }
                        }
                        Order::Split(block) => {
                            let start = column - column % block;
                            let half = block.min(w.cols - start) / 2;
                            let at = x.codes.as_ptr().add(start + (column - start) / 2);
                            for i in (0..unit / 2).step_by(16) {
                                let packed = vld1q_u8(w.code_ptr(row, column).add(i));
                                let even = vandq_u8(packed, vdupq_n_u8(15));
                                let odd = vshrq_n_u8::<4>(packed);
                                dots = D::dot::<true>(dots, even, vld1q_s8(at.add(i)));
                                dots = D::dot::<true>(dots, odd, vld1q_s8(at.add(half + i)));
                            }
                        }
                    }
                    let group = column / w.group;
                    let scale = w.scale(row, group) * x.scales[index];
                    sum = vfmaq_n_f32(sum, vcvtq_f32_s32(dots), scale);
                    total += w.bias(row, group) * x.sums[index];
                }
                *out = vaddvq_f32(sum) + total;
            }
        }
    }

    #[inline(always)]
    unsafe fn gemm_i8(
        w: &AffineView<'_>,
        block: (usize, usize),
        x: &QuantMatrix<'_>,
        rows: Range<usize>,
        out: &mut [f32],
    ) {
        // SAFETY: the same contract.
        unsafe {
            if D::MATRIX {
                gemm::gemm::<Self>(w, block, x, rows, out);
            } else {
                super::ops::gemm_i8::<Self>(w, block, x, rows, out);
            }
        }
    }
}
