//! AVX-512 with VNNI and VBMI.

mod gemm;
mod gemv_natural;
mod gemv_q4;

pub(super) use gemm::{STRIP, Strip};

use super::{
    Simd,
    f32x16_avx512::{F32x16, I32x16},
};
use crate::{
    activations::{Order, QuantMatrix, QuantRow},
    linear::{AffineView, FloatType},
};
use core::arch::x86_64::*;
use std::ops::Range;

/// AVX-512F, BW, DQ, VL, VNNI and VBMI.
pub(crate) struct Avx512;

impl Simd for Avx512 {
    type F = F32x16;
    type I = I32x16;

    #[inline(always)]
    unsafe fn unpack(bits: usize, codes: *const u8, n: usize, out: *mut u8) {
        for start in (0..n).step_by(64) {
            let count = (n - start).min(64);
            // SAFETY: AVX-512 by contract; the masks end where the codes and the output do.
            unsafe {
                let bytes = gemv_natural::unpack64(bits, codes.add(start / 8 * bits), count);
                _mm512_mask_storeu_epi8(out.add(start).cast(), byte_mask(count), bytes);
            }
        }
    }

    #[inline(always)]
    unsafe fn gemv_i8(w: &AffineView<'_>, rows: Range<usize>, x: &QuantRow<'_>, out: &mut [f32]) {
        // SAFETY: the same contract.
        unsafe {
            match (x.layout.order, x.layout.unit) {
                (Order::Split(_), 64) => gemv_q4::gemv::<64>(w, rows, x, out),
                (Order::Split(_), _) => gemv_q4::gemv::<32>(w, rows, x, out),
                (Order::Natural, 64) => gemv_natural::gemv::<64>(w, rows, x, out),
                (Order::Natural, _) => gemv_natural::gemv::<32>(w, rows, x, out),
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
            match x.layout.unit {
                64 => gemm::gemm::<64>(w, block, x, rows, out),
                _ => gemm::gemm::<32>(w, block, x, rows, out),
            }
        }
    }
}

/// The lowest `n` of 64 bytes.
#[inline(always)]
fn byte_mask(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// `count` (at most 16) packed numbers from element `index` on, the other lanes zero.
///
/// # Safety
/// AVX-512; the elements lie inside `bytes`.
#[inline(always)]
unsafe fn load_floats(dtype: FloatType, bytes: &[u8], index: usize, count: usize) -> __m512 {
    let mask = if count >= 16 { 0xffff } else { (1u16 << count) - 1 };
    // SAFETY: masked-out elements are not touched.
    unsafe {
        let p = bytes.as_ptr().add(index * dtype.size());
        match dtype {
            FloatType::Bf16 => {
                let wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
            }
            FloatType::F16 => _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p.cast())),
            FloatType::F32 => _mm512_maskz_loadu_ps(mask, p.cast()),
        }
    }
}

/// Scales and biases of one row for sixteen units of `UNIT` columns from unit `first` on.
///
/// # Safety
/// AVX-512; `first < w.cols / UNIT`.
#[inline(always)]
unsafe fn unit_scales<const UNIT: usize>(w: &AffineView<'_>, row: usize, first: usize) -> (__m512, __m512) {
    let groups = w.cols / w.group;
    let units = (w.cols / UNIT - first).min(16);
    // SAFETY: the groups lie inside the row.
    unsafe {
        if w.group == UNIT {
            let at = row * groups + first;
            (load_floats(w.scale_type, w.scales, at, units), load_floats(w.bias_type, w.biases, at, units))
        } else {
            // Groups of 128 columns in units of 64: each number serves two.
            let (at, count) = (row * groups + first / 2, units / 2);
            let twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
            let scales = load_floats(w.scale_type, w.scales, at, count);
            let biases = load_floats(w.bias_type, w.biases, at, count);
            (_mm512_permutexvar_ps(twice, scales), _mm512_permutexvar_ps(twice, biases))
        }
    }
}
