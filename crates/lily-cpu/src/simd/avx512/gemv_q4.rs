//! 4-bit rows times an 8-bit vector.
//!
//! A 64-byte vector of codes holds 128 columns. Its low nibbles are the even columns, its high nibbles the odd ones;
//! the activations lie in the same order, so two `vpdpbusd` make sixteen sums of eight columns each. These become
//! f32 and are multiplied by their unit's scale, picked from a register of sixteen units.

use super::{byte_mask, unit_scales};
use crate::{activations::QuantRow, linear::AffineView};
use core::arch::x86_64::*;
use std::ops::Range;

/// How many bytes ahead codes are fetched: rows follow each other in memory. Into the second level of cache, since the first
/// has too few buffers for lines that are under way.
const PREFETCH: usize = 4096;

/// Fetches the scales and biases that belong to the codes [`PREFETCH`] bytes ahead of a row's `column`.
///
/// # Safety
/// SSE.
#[inline(always)]
unsafe fn prefetch_scales(w: &AffineView<'_>, row: usize, column: usize) {
    let group = (row * w.cols + column + 2 * PREFETCH) / w.group;
    let scale = w.scales.as_ptr().wrapping_add(group * w.scale_type.size());
    let bias = w.biases.as_ptr().wrapping_add(group * w.bias_type.size());
    // SAFETY: a prefetch may name any address.
    unsafe {
        _mm_prefetch::<_MM_HINT_T1>(scale.cast());
        _mm_prefetch::<_MM_HINT_T1>(bias.cast());
    }
}

/// # Safety
/// As [`crate::simd::Simd::gemv_i8`]; units of `UNIT` columns, split in blocks of 128.
#[inline(always)]
pub(super) unsafe fn gemv<const UNIT: usize>(
    w: &AffineView<'_>,
    rows: Range<usize>,
    x: &QuantRow<'_>,
    out: &mut [f32],
) {
    let row_bytes = w.cols / 2;
    let units = w.cols / UNIT;
    let (xs, scales, sums) = (x.codes.as_ptr(), x.scales.as_ptr(), x.sums.as_ptr());
    // SAFETY: the instruction set is there; codes are read with masks that end at the row, activations are padded.
    unsafe {
        let low = _mm512_set1_epi8(15);
        let first = if UNIT == 64 {
            _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
        } else {
            _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3)
        };
        let step = _mm512_set1_epi32((128 / UNIT) as i32);
        for (row, out) in rows.zip(out) {
            let codes = w.codes.as_ptr().add(row * row_bytes);
            let (mut sum, mut bias_sum) = (_mm512_setzero_ps(), _mm512_setzero_ps());
            for unit in (0..units).step_by(16) {
                prefetch_scales(w, row, unit * UNIT);
                let (scale, bias) = unit_scales::<UNIT>(w, row, unit);
                bias_sum = _mm512_fmadd_ps(bias, _mm512_loadu_ps(sums.add(unit)), bias_sum);
                let scale = _mm512_mul_ps(scale, _mm512_loadu_ps(scales.add(unit)));
                let begin = unit * UNIT;
                let end = (begin + 16 * UNIT).min(w.cols);
                let mut pick = first;
                let mut column = begin;
                while column + 128 <= end {
                    let p = codes.add(column / 2);
                    _mm_prefetch::<_MM_HINT_T1>(p.wrapping_add(PREFETCH).cast());
                    let packed = _mm512_loadu_si512(p.cast());
                    let even = _mm512_and_si512(packed, low);
                    let odd = _mm512_and_si512(_mm512_srli_epi16::<4>(packed), low);
                    let x = xs.add(column);
                    let dots =
                        _mm512_dpbusd_epi32(_mm512_setzero_si512(), even, _mm512_loadu_si512(x.cast()));
                    let dots = _mm512_dpbusd_epi32(dots, odd, _mm512_loadu_si512(x.add(64).cast()));
                    let scale = _mm512_permutexvar_ps(pick, scale);
                    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, sum);
                    pick = _mm512_add_epi32(pick, step);
                    column += 128;
                }
                if column < end {
                    let half = (end - column) / 2;
                    let packed = _mm512_maskz_loadu_epi8(byte_mask(half), codes.add(column / 2).cast());
                    let even = _mm512_and_si512(packed, low);
                    let odd = _mm512_and_si512(_mm512_srli_epi16::<4>(packed), low);
                    let x = xs.add(column);
                    let dots =
                        _mm512_dpbusd_epi32(_mm512_setzero_si512(), even, _mm512_loadu_si512(x.cast()));
                    let dots = _mm512_dpbusd_epi32(dots, odd, _mm512_loadu_si512(x.add(half).cast()));
                    let scale = _mm512_permutexvar_ps(pick, scale);
                    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, sum);
                }
            }
            *out = _mm512_reduce_add_ps(_mm512_add_ps(sum, bias_sum));
        }
    }
}
