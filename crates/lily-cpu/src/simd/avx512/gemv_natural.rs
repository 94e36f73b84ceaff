//! Rows of 2, 3, 5, 6 or 8 bits times an 8-bit vector.
//!
//! `vpermb` brings the bytes of each eight codes into a quadword and `vpmultishiftqb` picks the eight fields.

use super::{byte_mask, unit_scales};
use crate::{activations::QuantRow, linear::AffineView};
use core::arch::x86_64::*;
use std::ops::Range;

/// How codes of one width become bytes.
#[derive(Clone, Copy)]
pub(super) struct Unpacker {
    bits: usize,
    gather: __m512i,
    shifts: __m512i,
    mask: __m512i,
}

impl Unpacker {
    /// # Safety
    /// AVX-512 with VBMI.
    #[inline(always)]
    pub(super) unsafe fn new(bits: usize) -> Self {
        let mut gather = [0u8; 64];
        let mut shifts = [0u8; 64];
        for quad in 0..8 {
            for i in 0..8 {
                gather[quad * 8 + i] = (quad * bits + i.min(bits - 1)) as u8;
                shifts[quad * 8 + i] = (i * bits) as u8;
            }
        }
        // SAFETY: 64 readable bytes each.
        unsafe {
            Self {
                bits,
                gather: _mm512_loadu_si512(gather.as_ptr().cast()),
                shifts: _mm512_loadu_si512(shifts.as_ptr().cast()),
                mask: _mm512_set1_epi8(((1u16 << bits) - 1) as u8 as i8),
            }
        }
    }

    /// `count` codes (at most 64, a multiple of 8), the other bytes undefined but in range.
    ///
    /// # Safety
    /// AVX-512 with VBMI; `count / 8 * bits` readable bytes.
    #[inline(always)]
    pub(super) unsafe fn unpack(&self, codes: *const u8, count: usize) -> __m512i {
        // SAFETY: masked-out bytes are not touched.
        unsafe {
            let packed = _mm512_maskz_loadu_epi8(byte_mask(count / 8 * self.bits), codes.cast());
            if self.bits == 8 {
                return packed;
            }
            let quads = _mm512_permutexvar_epi8(self.gather, packed);
            _mm512_and_si512(_mm512_multishift_epi64_epi8(self.shifts, quads), self.mask)
        }
    }
}

/// Up to 64 codes as bytes.
///
/// # Safety
/// As [`Unpacker::unpack`].
#[inline(always)]
pub(super) unsafe fn unpack64(bits: usize, codes: *const u8, count: usize) -> __m512i {
    // SAFETY: the same contract.
    unsafe { Unpacker::new(bits).unpack(codes, count) }
}

/// # Safety
/// As [`crate::simd::Simd::gemv_i8`]; units of `UNIT` columns in natural order.
#[inline(always)]
pub(super) unsafe fn gemv<const UNIT: usize>(
    w: &AffineView<'_>,
    rows: Range<usize>,
    x: &QuantRow<'_>,
    out: &mut [f32],
) {
    let row_bytes = w.row_bytes();
    let units = w.cols / UNIT;
    let (xs, scales, sums) = (x.codes.as_ptr(), x.scales.as_ptr(), x.sums.as_ptr());
    // SAFETY: the instruction set is there; codes are read with masks that end at the row, activations are padded.
    unsafe {
        let unpacker = Unpacker::new(w.bits);
        // A vector is 64 columns: one unit of 64 or two of 32.
        let first = if UNIT == 64 {
            _mm512_setzero_si512()
        } else {
            _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
        };
        let step = _mm512_set1_epi32((64 / UNIT) as i32);
        for (row, out) in rows.zip(out) {
            let codes = w.codes.as_ptr().add(row * row_bytes);
            let (mut sum, mut bias_sum) = (_mm512_setzero_ps(), _mm512_setzero_ps());
            for unit in (0..units).step_by(16) {
                let (scale, bias) = unit_scales::<UNIT>(w, row, unit);
                bias_sum = _mm512_fmadd_ps(bias, _mm512_loadu_ps(sums.add(unit)), bias_sum);
                let scale = _mm512_mul_ps(scale, _mm512_loadu_ps(scales.add(unit)));
                let begin = unit * UNIT;
                let end = (begin + 16 * UNIT).min(w.cols);
                let mut pick = first;
                for column in (begin..end).step_by(64) {
                    let count = (end - column).min(64);
                    let bytes = unpacker.unpack(codes.add(column / 8 * w.bits), count);
                    // Past the end of the row the activations are zero padding.
                    let x = _mm512_loadu_si512(xs.add(column).cast());
                    let dots = _mm512_dpbusd_epi32(_mm512_setzero_si512(), bytes, x);
                    let scale = _mm512_permutexvar_ps(pick, scale);
                    sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, sum);
                    pick = _mm512_add_epi32(pick, step);
                }
            }
            *out = _mm512_reduce_add_ps(_mm512_add_ps(sum, bias_sum));
        }
    }
}
