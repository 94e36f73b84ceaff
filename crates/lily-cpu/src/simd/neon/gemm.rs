//! Packed rows times many 8-bit vectors with `USMMLA`: two rows times two vectors, eight columns at once.

use crate::{
    activations::QuantMatrix,
    linear::AffineView,
    simd::{GEMM_ROWS, Simd},
};
use core::arch::aarch64::*;
use std::ops::Range;

/// Columns unpacked at a time.
const STRIP: usize = 256;
/// Vectors at a time.
const TILE: usize = 4;
/// Pairs of rows at a time: with two pairs of vectors, eight of 32 registers hold sums.
const PAIRS: usize = 4;

/// A strip of unpacked rows; within a unit in the order of the activations.
#[repr(C, align(64))]
struct Strip {
    /// `[STRIP / 8][GEMM_ROWS / 2][2][8]`.
    codes: [u8; STRIP * GEMM_ROWS],
    /// `[STRIP / unit][GEMM_ROWS / 2]`, each row's twice: as the sums of a pair of rows and a pair of vectors lie.
    scales: [[f32; 4]; STRIP / 32 * GEMM_ROWS / 2],
    /// As `scales`.
    biases: [[f32; 4]; STRIP / 32 * GEMM_ROWS / 2],
}

/// # Safety
/// As [`Simd::gemm_i8`], with `i8mm`.
#[inline(always)]
pub(super) unsafe fn gemm<S: Simd>(
    w: &AffineView<'_>,
    block: (usize, usize),
    x: &QuantMatrix<'_>,
    rows: Range<usize>,
    out: &mut [f32],
) {
    let mut strip = Strip {
        codes: [0; STRIP * GEMM_ROWS],
        scales: [[0.0; 4]; STRIP / 32 * GEMM_ROWS / 2],
        biases: [[0.0; 4]; STRIP / 32 * GEMM_ROWS / 2],
    };
    out.fill(0.0);
    for begin in (0..w.cols).step_by(STRIP) {
        let columns = begin..w.cols.min(begin + STRIP);
        // SAFETY: the same contract.
        unsafe {
            strip.unpack::<S>(w, block, columns.clone(), x.layout.unit);
            for (index, out) in out.chunks_mut(TILE * GEMM_ROWS).enumerate() {
                let first = rows.start + index * TILE;
                strip.multiply(x, first, rows.end - first, columns.clone(), out);
            }
        }
    }
}

impl Strip {
    /// Unpacks some columns of `count` rows from `first` on; rows beyond repeat the last.
    ///
    /// # Safety
    /// The instruction set; the rows and columns inside `w`.
    #[inline(always)]
    unsafe fn unpack<S: Simd>(
        &mut self,
        w: &AffineView<'_>,
        (first, count): (usize, usize),
        columns: Range<usize>,
        unit: usize,
    ) {
        let mut bytes = [0u8; STRIP];
        for lane in 0..GEMM_ROWS {
            let row = first + lane.min(count - 1);
            if w.bits == 4 {
                // Within a unit the even columns, then the odd ones.
                for start in (0..columns.len()).step_by(unit) {
                    // SAFETY: the unit, of 32 or 64 columns, lies inside the row and inside `bytes`.
                    unsafe {
                        let packed = w.code_ptr(row, columns.start + start);
                        let unpacked = bytes.as_mut_ptr().add(start);
                        for i in (0..unit / 2).step_by(16) {
                            let packed = vld1q_u8(packed.add(i));
                            vst1q_u8(unpacked.add(i), vandq_u8(packed, vdupq_n_u8(15)));
                            vst1q_u8(unpacked.add(unit / 2 + i), vshrq_n_u8::<4>(packed));
                        }
                    }
                }
            } else {
                // SAFETY: the instruction set is there; the columns lie inside the row, a multiple of 32.
                unsafe {
                    S::unpack(w.bits, w.code_ptr(row, columns.start), columns.len(), bytes.as_mut_ptr());
                }
            }
            for (step, eight) in bytes[..columns.len()].chunks_exact(8).enumerate() {
                self.codes[(step * GEMM_ROWS + lane) * 8..][..8].copy_from_slice(eight);
            }
            for (index, column) in columns.clone().step_by(unit).enumerate() {
                let at = index * GEMM_ROWS / 2 + lane / 2;
                let (scale, bias) = (w.scale(row, column / w.group), w.bias(row, column / w.group));
                self.scales[at][lane % 2 * 2..][..2].fill(scale);
                self.biases[at][lane % 2 * 2..][..2].fill(bias);
            }
        }
    }

    /// Adds the products with up to [`TILE`] of the `left` vectors from `first` on.
    ///
    /// # Safety
    /// The instruction set; the vectors and the columns inside `x`, [`GEMM_ROWS`] places of `out` per vector.
    #[inline(always)]
    unsafe fn multiply(
        &self,
        x: &QuantMatrix<'_>,
        first: usize,
        left: usize,
        columns: Range<usize>,
        out: &mut [f32],
    ) {
        let unit = x.layout.unit;
        // A vector that is not there is computed as the last one, and not stored.
        let vector = |n: usize| first + n.min(left - 1);
        // SAFETY: vectors, units and columns are inside `x`; strips and outputs are as long as their comments say.
        unsafe {
            for pair in (0..GEMM_ROWS / 2).step_by(PAIRS) {
                let mut totals = [[vdupq_n_f32(0.0); TILE / 2]; PAIRS];
                for index in 0..columns.len() / unit {
                    let mut dots = [[vdupq_n_s32(0); TILE / 2]; PAIRS];
                    for step in index * unit / 8..(index + 1) * unit / 8 {
                        let eight = |n: usize| {
                            vld1_s8(
                                x.codes.as_ptr().add(vector(n) * x.code_stride + columns.start + step * 8),
                            )
                        };
                        let vectors = [vcombine_s8(eight(0), eight(1)), vcombine_s8(eight(2), eight(3))];
                        for (p, dots) in dots.iter_mut().enumerate() {
                            let codes = self.codes.as_ptr().add((step * GEMM_ROWS + (pair + p) * 2) * 8);
                            let codes = vld1q_u8(codes);
                            for (dot, two) in dots.iter_mut().zip(vectors) {
                                *dot = usmmla(*dot, codes, two);
                            }
                        }
                    }
                    let number = |of: &[f32], n: usize| {
                        *of.as_ptr().add(vector(n) * x.unit_stride + columns.start / unit + index)
                    };
                    for v in 0..TILE / 2 {
                        let two = |of: &[f32]| {
                            let two = [number(of, 2 * v), number(of, 2 * v + 1)];
                            vcombine_f32(vld1_f32(two.as_ptr()), vld1_f32(two.as_ptr()))
                        };
                        let (scale, sum) = (two(x.scales), two(x.sums));
                        for p in 0..PAIRS {
                            let at = index * GEMM_ROWS / 2 + pair + p;
                            let weight_scale = vld1q_f32(self.scales[at].as_ptr());
                            let weight_bias = vld1q_f32(self.biases[at].as_ptr());
                            let scaled = vmulq_f32(vcvtq_f32_s32(dots[p][v]), scale);
                            let total = vfmaq_f32(totals[p][v], weight_bias, sum);
                            totals[p][v] = vfmaq_f32(total, scaled, weight_scale);
                        }
                    }
                }
                for (p, totals) in totals.iter().enumerate() {
                    for (v, &total) in totals.iter().enumerate() {
                        let mut four = [0.0; 4];
                        vst1q_f32(four.as_mut_ptr(), total);
                        for (i, total) in four.into_iter().enumerate() {
                            if let Some(place) =
                                out.get_mut((2 * v + i % 2) * GEMM_ROWS + (pair + p) * 2 + i / 2)
                            {
                                *place += total;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// `sums[i][j] += Σ codes[i][k] * x[j][k]`: two rows of eight codes by two of eight signed bytes. The intrinsic is not
/// stable.
///
/// # Safety
/// The instruction set.
#[inline(always)]
unsafe fn usmmla(mut sums: int32x4_t, codes: uint8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction set by contract; it touches registers only.
    unsafe {
        core::arch::asm!("usmmla {s:v}.4s, {a:v}.16b, {b:v}.16b", s = inout(vreg) sums, a = in(vreg) codes,
            b = in(vreg) x, options(pure, nomem, nostack, preserves_flags));
    }
    sums
}
