//! Packed rows times many 8-bit vectors, with `vpdpbusd`.
//!
//! Thirty-two rows at a time. A strip of their codes is unpacked once into the first-level cache, with four columns of
//! a row in each 32-bit lane and one row per lane, and used for all vectors, six at a time: twelve integer sums that
//! become f32 and meet their scales after each unit of columns.

use super::{byte_mask, gemv_natural::Unpacker, load_floats};
use crate::{
    activations::{Order, QuantMatrix},
    linear::{AffineView, FloatType},
    simd::GEMM_ROWS,
};
use core::arch::x86_64::*;
use std::ops::Range;

/// Columns unpacked at a time.
pub(in crate::simd) const STRIP: usize = 512;
/// Vectors at a time.
const TILE: usize = 6;

/// A strip of unpacked rows.
#[repr(C, align(64))]
pub(in crate::simd) struct Strip {
    /// `[STRIP / 4][GEMM_ROWS][4]`; within a unit in the order of the activations.
    pub(in crate::simd) codes: [u8; STRIP * GEMM_ROWS],
    /// `[STRIP / UNIT][GEMM_ROWS]`.
    pub(in crate::simd) scales: [f32; STRIP / 32 * GEMM_ROWS],
    /// `[STRIP / UNIT][GEMM_ROWS]`.
    pub(in crate::simd) biases: [f32; STRIP / 32 * GEMM_ROWS],
}

impl Strip {
    pub(in crate::simd) const fn new() -> Self {
        Self {
            codes: [0; STRIP * GEMM_ROWS],
            scales: [0.0; STRIP / 32 * GEMM_ROWS],
            biases: [0.0; STRIP / 32 * GEMM_ROWS],
        }
    }

    /// Unpacks columns `begin..end` of `count` rows from `first` on; rows beyond repeat the last.
    ///
    /// # Safety
    /// AVX-512 with VBMI; rows and columns inside `w`, `begin` a multiple of `STRIP`.
    #[inline(always)]
    pub(in crate::simd) unsafe fn unpack<const UNIT: usize>(
        &mut self,
        w: &AffineView<'_>,
        (first, count): (usize, usize),
        begin: usize,
        end: usize,
    ) {
        for half in 0..GEMM_ROWS / 16 {
            let rows: [usize; 16] = std::array::from_fn(|lane| first + (half * 16 + lane).min(count - 1));
            let codes = rows.map(|row| w.code_ptr(row, begin));
            // SAFETY: the same contract.
            unsafe {
                let out = self.codes.as_mut_ptr().add(half * 64);
                if w.bits == 4 {
                    unpack_q4::<UNIT>(codes, end - begin, out);
                } else {
                    unpack_natural(w.bits, codes, end - begin, out);
                }
                let (scales, biases) = (self.scales.as_mut_ptr(), self.biases.as_mut_ptr());
                let (scales, biases) = (scales.add(half * 16), biases.add(half * 16));
                unpack_scales::<UNIT>(w, rows, begin..end, scales, biases);
            }
        }
    }
}

/// Bytes from one step of four columns to the next.
const STEP: usize = 4 * GEMM_ROWS;

/// 4-bit codes of sixteen rows, `columns` columns: 128 at a time, whose sixteen words of a row go to sixteen vectors.
/// Of each word the even codes make one step and the odd ones another, `UNIT / 8` steps on.
///
/// # Safety
/// AVX-512; `columns / 2` readable bytes at each pointer, room for the strip at `out`.
#[inline(always)]
unsafe fn unpack_q4<const UNIT: usize>(codes: [*const u8; 16], columns: usize, out: *mut u8) {
    // SAFETY: the same contract; a strip has room for whole blocks of 128 columns.
    unsafe {
        let low = _mm512_set1_epi8(15);
        let words = UNIT / 8;
        for column in (0..columns).step_by(128) {
            let mask = byte_mask((columns - column) / 2);
            let mut lines = [_mm512_setzero_si512(); 16];
            for lane in 0..16 {
                lines[lane] = _mm512_maskz_loadu_epi8(mask, codes[lane].add(column / 2).cast());
            }
            let lines = transpose(lines);
            let out = out.add(column / 4 * STEP);
            for (word, line) in lines.into_iter().enumerate() {
                let at = out.add((word / words * 2 * words + word % words) * STEP);
                let odd = _mm512_and_si512(_mm512_srli_epi16::<4>(line), low);
                _mm512_store_si512(at.cast(), _mm512_and_si512(line, low));
                _mm512_store_si512(at.add(words * STEP).cast(), odd);
            }
        }
    }
}

/// Codes of other widths, 64 columns at a time.
///
/// # Safety
/// AVX-512 with VBMI; `columns / 8 * bits` readable bytes at each pointer, room for the strip at `out`.
#[inline(always)]
unsafe fn unpack_natural(bits: usize, codes: [*const u8; 16], columns: usize, out: *mut u8) {
    // SAFETY: the same contract; a strip has room for whole blocks of 64 columns.
    unsafe {
        let unpacker = Unpacker::new(bits);
        for column in (0..columns).step_by(64) {
            let count = (columns - column).min(64);
            let mut lines = [_mm512_setzero_si512(); 16];
            for lane in 0..16 {
                lines[lane] = unpacker.unpack(codes[lane].add(column / 8 * bits), count);
            }
            let lines = transpose(lines);
            let out = out.add(column / 4 * STEP);
            for (step, line) in lines.into_iter().enumerate() {
                _mm512_store_si512(out.add(step * STEP).cast(), line);
            }
        }
    }
}

/// Scales and biases of sixteen rows for the units of some columns.
///
/// # Safety
/// AVX-512; rows and columns inside `w`, room for the strip at `scales` and `biases`.
#[inline(always)]
unsafe fn unpack_scales<const UNIT: usize>(
    w: &AffineView<'_>,
    rows: [usize; 16],
    columns: Range<usize>,
    scales: *mut f32,
    biases: *mut f32,
) {
    let (groups, per_group) = (w.cols / w.group, w.group / UNIT);
    let units = columns.len() / UNIT;
    // SAFETY: the same contract; no more numbers are read than the columns have groups.
    unsafe {
        let bf16 = w.scale_type == FloatType::Bf16 && w.bias_type == FloatType::Bf16;
        if bf16 && per_group == 1 && units <= 8 {
            // Eight scales and eight biases of a row in one vector.
            let mask = ((1u16 << units) - 1) as u8;
            let mut lines = [_mm512_setzero_si512(); 16];
            for lane in 0..16 {
                let index = (rows[lane] * groups + columns.start / w.group) * 2;
                let scales = _mm_maskz_loadu_epi16(mask, w.scales.as_ptr().add(index).cast());
                let biases = _mm_maskz_loadu_epi16(mask, w.biases.as_ptr().add(index).cast());
                let both = _mm512_cvtepu16_epi32(_mm256_set_m128i(biases, scales));
                lines[lane] = _mm512_slli_epi32::<16>(both);
            }
            let lines = transpose(lines);
            for unit in 0..8 {
                _mm512_store_si512(scales.add(unit * GEMM_ROWS).cast(), lines[unit]);
                _mm512_store_si512(biases.add(unit * GEMM_ROWS).cast(), lines[8 + unit]);
            }
            return;
        }
        let count = units.div_ceil(per_group);
        for (dtype, bytes, out) in [(w.scale_type, w.scales, scales), (w.bias_type, w.biases, biases)] {
            let mut lines = [_mm512_setzero_si512(); 16];
            for lane in 0..16 {
                let index = rows[lane] * groups + columns.start / w.group;
                lines[lane] = _mm512_castps_si512(load_floats(dtype, bytes, index, count));
            }
            let lines = transpose(lines);
            for unit in 0..units {
                _mm512_store_si512(out.add(unit * GEMM_ROWS).cast(), lines[unit / per_group]);
            }
        }
    }
}

/// # Safety
/// As [`crate::simd::Simd::gemm_i8`].
#[inline(always)]
pub(super) unsafe fn gemm<const UNIT: usize>(
    w: &AffineView<'_>,
    (first, count): (usize, usize),
    x: &QuantMatrix<'_>,
    rows: Range<usize>,
    out: &mut [f32],
) {
    debug_assert!(x.layout.order == Order::Natural || x.layout.order == Order::Split(UNIT));
    let mut strip = Strip::new();
    for begin in (0..w.cols).step_by(STRIP) {
        let end = w.cols.min(begin + STRIP);
        let units = (end - begin) / UNIT;
        // SAFETY: the same contract.
        unsafe {
            strip.unpack::<UNIT>(w, (first, count), begin, end);
            let tiles = rows.len().div_ceil(TILE);
            let mut done = 0;
            for tile in 0..tiles {
                // Even tiles: 13 vectors go as 5, 4, 4.
                let n = (rows.len() - done).div_ceil(tiles - tile);
                let rows = rows.start + done;
                let out = &mut out[done * GEMM_ROWS..(done + n) * GEMM_ROWS];
                match n {
                    1 => micro::<1, UNIT>(&strip, x, rows, begin, units, out),
                    2 => micro::<2, UNIT>(&strip, x, rows, begin, units, out),
                    3 => micro::<3, UNIT>(&strip, x, rows, begin, units, out),
                    4 => micro::<4, UNIT>(&strip, x, rows, begin, units, out),
                    5 => micro::<5, UNIT>(&strip, x, rows, begin, units, out),
                    _ => micro::<6, UNIT>(&strip, x, rows, begin, units, out),
                }
                done += n;
            }
        }
    }
}

/// `N` vectors against a strip; sums go on from what `out` holds, unless the strip is the first.
///
/// # Safety
/// AVX-512 VNNI; `N` rows inside `x`, `N * GEMM_ROWS` outputs.
#[inline(always)]
unsafe fn micro<const N: usize, const UNIT: usize>(
    strip: &Strip,
    x: &QuantMatrix<'_>,
    first: usize,
    begin: usize,
    units: usize,
    out: &mut [f32],
) {
    // SAFETY: the same contract.
    unsafe {
        let mut codes = [std::ptr::null::<i8>(); N];
        let mut scales = [std::ptr::null::<f32>(); N];
        let mut sums = [std::ptr::null::<f32>(); N];
        let out = out.as_mut_ptr();
        let mut total = [[_mm512_setzero_ps(); 2]; N];
        for n in 0..N {
            let row = first + n;
            codes[n] = x.codes.as_ptr().add(row * x.code_stride + begin);
            scales[n] = x.scales.as_ptr().add(row * x.unit_stride + begin / UNIT);
            sums[n] = x.sums.as_ptr().add(row * x.unit_stride + begin / UNIT);
            if begin > 0 {
                let out = out.add(n * GEMM_ROWS);
                total[n] = [_mm512_loadu_ps(out), _mm512_loadu_ps(out.add(16))];
            }
        }
        for unit in 0..units {
            let weights = strip.codes.as_ptr().add(unit * UNIT * GEMM_ROWS);
            let mut dots = [[_mm512_setzero_si512(); 2]; N];
            for step in 0..UNIT / 4 {
                let weights = weights.add(step * STEP);
                let first = _mm512_load_si512(weights.cast());
                let second = _mm512_load_si512(weights.add(64).cast());
                for n in 0..N {
                    let four = codes[n].add(unit * UNIT + step * 4).cast::<i32>().read_unaligned();
                    let four = _mm512_set1_epi32(four);
                    dots[n][0] = _mm512_dpbusd_epi32(dots[n][0], first, four);
                    dots[n][1] = _mm512_dpbusd_epi32(dots[n][1], second, four);
                }
            }
            for half in 0..2 {
                let at = unit * GEMM_ROWS + half * 16;
                let weight_scale = _mm512_load_ps(strip.scales.as_ptr().add(at));
                let weight_bias = _mm512_load_ps(strip.biases.as_ptr().add(at));
                for n in 0..N {
                    let scale = _mm512_set1_ps(*scales[n].add(unit));
                    let sum = _mm512_set1_ps(*sums[n].add(unit));
                    let dot = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[n][half]), scale);
                    total[n][half] = _mm512_fmadd_ps(dot, weight_scale, total[n][half]);
                    total[n][half] = _mm512_fmadd_ps(weight_bias, sum, total[n][half]);
                }
            }
        }
        for (n, total) in total.iter().enumerate() {
            _mm512_storeu_ps(out.add(n * GEMM_ROWS), total[0]);
            _mm512_storeu_ps(out.add(n * GEMM_ROWS + 16), total[1]);
        }
    }
}

/// Sixteen vectors of sixteen 32-bit lanes, lane `i` of vector `j` to lane `j` of vector `i`.
///
/// # Safety
/// AVX-512.
#[inline(always)]
unsafe fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
    // SAFETY: AVX-512 by contract.
    unsafe {
        let mut pairs = rows;
        for i in (0..16).step_by(2) {
            pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
            pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
        }
        let mut fours = pairs;
        for i in (0..16).step_by(4) {
            fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
            fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
            fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
            fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
        }
        // Now vector `4 b + c` holds, in its 128-bit lane `l`, rows `4 b..4 b + 4` of column `4 l + c`.
        let mut columns = fours;
        for c in 0..4 {
            let low = _mm512_shuffle_i32x4::<0x88>(fours[c], fours[4 + c]);
            let high = _mm512_shuffle_i32x4::<0xdd>(fours[c], fours[4 + c]);
            let low_rest = _mm512_shuffle_i32x4::<0x88>(fours[8 + c], fours[12 + c]);
            let high_rest = _mm512_shuffle_i32x4::<0xdd>(fours[8 + c], fours[12 + c]);
            columns[c] = _mm512_shuffle_i32x4::<0x88>(low, low_rest);
            columns[4 + c] = _mm512_shuffle_i32x4::<0x88>(high, high_rest);
            columns[8 + c] = _mm512_shuffle_i32x4::<0xdd>(low, low_rest);
            columns[12 + c] = _mm512_shuffle_i32x4::<0xdd>(high, high_rest);
        }
        columns
    }
}
