//! AMX: matrix tiles of 8-bit integers, beside AVX-512.

mod gemm;
mod permission;

pub(super) use permission::available;

use super::{
    Simd,
    avx512::Avx512,
    f32x16_avx512::{F32x16, I32x16},
};
use crate::{
    activations::{QuantMatrix, QuantRow},
    linear::AffineView,
};
use std::ops::Range;

/// AVX-512 for everything but products of many rows.
pub(crate) struct Amx;

impl Simd for Amx {
    type F = F32x16;
    type I = I32x16;

    #[inline(always)]
    unsafe fn unpack(bits: usize, codes: *const u8, n: usize, out: *mut u8) {
        // SAFETY: the same contract.
        unsafe { Avx512::unpack(bits, codes, n, out) }
    }

    #[inline(always)]
    unsafe fn gemv_i8(w: &AffineView<'_>, rows: Range<usize>, x: &QuantRow<'_>, out: &mut [f32]) {
        // SAFETY: the same contract.
        unsafe { Avx512::gemv_i8(w, rows, x, out) }
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
            match x.layout.unit {
                64 => gemm::gemm::<64>(w, block, x, rows, out),
                _ => gemm::gemm::<32>(w, block, x, rows, out),
            }
        }
    }
}
