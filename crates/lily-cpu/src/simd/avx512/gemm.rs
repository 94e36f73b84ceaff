//! Packed rows times many 8-bit vectors, with `vpdpbusd`.
//!
//! Thirty-two rows at a time. A strip of their codes is unpacked once into the first-level cache, with four columns of
//! a row in each 32-bit lane and one row per lane, and used for all vectors, six at a time: twelve integer sums that
//! become f32 and meet their scales after each unit of columns.

use super::{byte_mask, gemv_natural::Unpacker, load_floats};
use crate::{
    activations::{Order, QuantMatrix},
    linear::AffineView,
    simd::GEMM_ROWS,
};
use core::arch::x86_64::*;

/// Columns unpacked at a time.
pub(super) const STRIP: usize = 512;
/// Vectors at a time.
const TILE: usize = 6;

/// A strip of unpacked rows.
#[repr(C, align(64))]
pub(super) struct Strip {
    /// `[STRIP / 4][GEMM_ROWS][4]`; within a unit in the order of the activations.
    pub(super) codes: [u8; STRIP * GEMM_ROWS],
    /// `[STRIP / UNIT][GEMM_ROWS]`.
    pub(super) scales: [f32; STRIP / 32 * GEMM_ROWS],
    /// `[STRIP / UNIT][GEMM_ROWS]`.
    pub(super) biases: [f32; STRIP / 32 * GEMM_ROWS],
}

impl Strip {
    pub(super) const fn new() -> Self {
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
    pub(super) unsafe fn unpack<const UNIT: usize>(
        &mut self,
        w: &AffineView<'_>,
        (first, count): (usize, usize),
        begin: usize,
        end: usize,
    ) {
        // SAFETY: the same contract; loads are masked at the end of the row.
        unsafe {
            let unpacker = Unpacker::new(w.bits);
            for half in 0..GEMM_ROWS / 16 {
                let row = |lane: usize| first + (half * 16 + lane).min(count - 1);
                let bytes_per_step = if w.bits == 4 { 64 } else { 8 * w.bits };
                let step = if w.bits == 4 { 128 } else { 64 };
                for column in (begin..end).step_by(step) {
                    let bytes = ((end - column) / 8 * w.bits).min(bytes_per_step);
                    let mut lines = [_mm512_setzero_si512(); 16];
                    for (lane, line) in lines.iter_mut().enumerate() {
                        let codes = w.code_ptr(row(lane), column);
                        *line = if w.bits == 4 {
                            _mm512_maskz_loadu_epi8(byte_mask(bytes), codes.cast())
                        } else {
                            unpacker.unpack(codes, bytes / w.bits * 8)
                        };
                    }
                    let lines = transpose(lines);
                    let out = self.codes.as_mut_ptr().add((column - begin) * GEMM_ROWS + half * 64);
                    if w.bits == 4 {
                        // Words of eight codes: the even ones, then the odd ones, unit by unit.
                        let low = _mm512_set1_epi8(15);
                        let words = UNIT / 8;
                        for (index, line) in lines.iter().enumerate().take(bytes / 4) {
                            let at = out.add((index / words * 2 * words + index % words) * 4 * GEMM_ROWS);
                            _mm512_storeu_si512(at.cast(), _mm512_and_si512(*line, low));
                            let odd = _mm512_and_si512(_mm512_srli_epi16::<4>(*line), low);
                            _mm512_storeu_si512(at.add(words * 4 * GEMM_ROWS).cast(), odd);
                        }
                    } else {
                        for (index, line) in lines.iter().enumerate().take(bytes / w.bits * 2) {
                            _mm512_storeu_si512(out.add(index * 4 * GEMM_ROWS).cast(), *line);
                        }
                    }
                }
                let groups = w.cols / w.group;
                let (units, unit_group) = ((end - begin) / UNIT, w.group / UNIT);
                let count = units.div_ceil(unit_group);
                for (dtype, bytes, out) in [
                    (w.scale_type, w.scales, self.scales.as_mut_ptr()),
                    (w.bias_type, w.biases, self.biases.as_mut_ptr()),
                ] {
                    let mut lines = [_mm512_setzero_ps(); 16];
                    for (lane, line) in lines.iter_mut().enumerate() {
                        *line = load_floats(dtype, bytes, row(lane) * groups + begin / w.group, count);
                    }
                    let lines = transpose(lines.map(|line| _mm512_castps_si512(line)));
                    for unit in 0..units {
                        let at = out.add(unit * GEMM_ROWS + half * 16);
                        _mm512_storeu_ps(at, _mm512_castsi512_ps(lines[unit / unit_group]));
                    }
                }
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
    rows: &[u32],
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
                let rows = &rows[done..done + n];
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
    rows: &[u32],
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
            let row = rows[n] as usize;
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
                let first = _mm512_load_si512(weights.add(step * 4 * GEMM_ROWS).cast());
                let second = _mm512_load_si512(weights.add(step * 4 * GEMM_ROWS + 64).cast());
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
