//! Packed rows times many 8-bit vectors, for every tier that has nothing of its own.
//!
//! A strip of a block of rows is unpacked once, with four columns of a row in each 32-bit lane and one row per lane,
//! and used for all vectors, a few at a time.

use crate::{
    activations::QuantMatrix,
    linear::AffineView,
    simd::{GEMM_ROWS, Simd, int_vector::IntVector, vector::Vector},
};
use std::ops::Range;

/// Columns unpacked at a time.
const STRIP: usize = 256;
/// Vectors at a time.
const TILE: usize = 4;

/// A strip of unpacked rows; within a unit in the order of the activations.
#[repr(C, align(64))]
struct Strip {
    /// `[STRIP / 4][GEMM_ROWS][4]`.
    codes: [u8; STRIP * GEMM_ROWS],
    /// `[STRIP / unit][GEMM_ROWS]`.
    scales: [f32; STRIP / 32 * GEMM_ROWS],
    /// `[STRIP / unit][GEMM_ROWS]`.
    biases: [f32; STRIP / 32 * GEMM_ROWS],
}

/// # Safety
/// As [`Simd::gemm_i8`].
#[inline(always)]
pub(in crate::simd) unsafe fn gemm_i8<S: Simd>(
    w: &AffineView<'_>,
    block: (usize, usize),
    x: &QuantMatrix<'_>,
    rows: Range<usize>,
    out: &mut [f32],
) {
    let mut strip = Strip {
        codes: [0; STRIP * GEMM_ROWS],
        scales: [0.0; STRIP / 32 * GEMM_ROWS],
        biases: [0.0; STRIP / 32 * GEMM_ROWS],
    };
    out.fill(0.0);
    for begin in (0..w.cols).step_by(STRIP) {
        let columns = begin..w.cols.min(begin + STRIP);
        // SAFETY: the same contract.
        unsafe {
            strip.unpack::<S>(w, block, columns.clone(), x.layout.unit);
            for (index, out) in out.chunks_mut(TILE * GEMM_ROWS).enumerate() {
                let first = rows.start + index * TILE;
                match (w.bits, (rows.end - first).min(TILE)) {
                    (8, 1) => strip.multiply::<S::I, false, 1>(x, first, columns.clone(), out),
                    (8, 2) => strip.multiply::<S::I, false, 2>(x, first, columns.clone(), out),
                    (8, 3) => strip.multiply::<S::I, false, 3>(x, first, columns.clone(), out),
                    (8, _) => strip.multiply::<S::I, false, 4>(x, first, columns.clone(), out),
                    (_, 1) => strip.multiply::<S::I, true, 1>(x, first, columns.clone(), out),
                    (_, 2) => strip.multiply::<S::I, true, 2>(x, first, columns.clone(), out),
                    (_, 3) => strip.multiply::<S::I, true, 3>(x, first, columns.clone(), out),
                    (_, _) => strip.multiply::<S::I, true, 4>(x, first, columns.clone(), out),
                }
            }
        }
    }
}

impl Strip {
    /// Unpacks some columns of `count` rows from `first` on; rows beyond repeat the last.
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
            let mut put = |step: usize, four: [u8; 4]| {
                self.codes[(step * GEMM_ROWS + lane) * 4..][..4].copy_from_slice(&four);
            };
            if w.bits == 4 {
                // Words of eight codes: the even ones, then, a unit's worth of words on, the odd ones.
                let words = unit / 8;
                let start = row * w.row_bytes() + columns.start / 2;
                let packed = &w.codes[start..start + columns.len() / 2];
                for (index, word) in packed.chunks_exact(4).enumerate() {
                    let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                    let step = index / words * 2 * words + index % words;
                    put(step, (word & 0x0f0f_0f0f).to_le_bytes());
                    put(step + words, (word >> 4 & 0x0f0f_0f0f).to_le_bytes());
                }
            } else {
                // SAFETY: the instruction set is there; the columns lie inside the row, a multiple of 32.
                unsafe {
                    S::unpack(w.bits, w.code_ptr(row, columns.start), columns.len(), bytes.as_mut_ptr());
                }
                for (step, four) in bytes[..columns.len()].chunks_exact(4).enumerate() {
                    put(step, [four[0], four[1], four[2], four[3]]);
                }
            }
            for (index, column) in columns.clone().step_by(unit).enumerate() {
                self.scales[index * GEMM_ROWS + lane] = w.scale(row, column / w.group);
                self.biases[index * GEMM_ROWS + lane] = w.bias(row, column / w.group);
            }
        }
    }

    /// Adds the products with `N` vectors from `first` on.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "`half` counts places as well as sums")]
    unsafe fn multiply<I: IntVector, const SMALL: bool, const N: usize>(
        &self,
        x: &QuantMatrix<'_>,
        first: usize,
        columns: Range<usize>,
        out: &mut [f32],
    ) {
        let (unit, lanes) = (x.layout.unit, I::F::LANES);
        let out = out.as_mut_ptr();
        // SAFETY: the instruction set is there; `N` vectors from `first` on and the columns lie inside `x`, `out` has
        // `N * GEMM_ROWS` places, and the lanes divide `GEMM_ROWS / 2`.
        unsafe {
            let mut codes = [x.codes.as_ptr(); N];
            let mut units = [0; N];
            for n in 0..N {
                codes[n] = codes[n].add((first + n) * x.code_stride + columns.start);
                units[n] = (first + n) * x.unit_stride + columns.start / unit;
            }
            for index in 0..columns.len() / unit {
                for row in (0..GEMM_ROWS).step_by(2 * lanes) {
                    let mut dots = [[I::zero(); 2]; N];
                    for step in index * unit / 4..(index + 1) * unit / 4 {
                        let weights = self.codes.as_ptr().add((step * GEMM_ROWS + row) * 4);
                        let weights = [I::load(weights), I::load(weights.add(4 * lanes))];
                        for n in 0..N {
                            let four = I::splat(codes[n].add(step * 4).cast::<i32>().read_unaligned());
                            dots[n][0] = dots[n][0].dot::<SMALL>(weights[0], four);
                            dots[n][1] = dots[n][1].dot::<SMALL>(weights[1], four);
                        }
                    }
                    for half in 0..2 {
                        let at = row + half * lanes;
                        let weight_scale = I::F::load(self.scales.as_ptr().add(index * GEMM_ROWS + at));
                        let weight_bias = I::F::load(self.biases.as_ptr().add(index * GEMM_ROWS + at));
                        for n in 0..N {
                            let scale = I::F::splat(*x.scales.as_ptr().add(units[n] + index));
                            let sum = I::F::splat(*x.sums.as_ptr().add(units[n] + index));
                            let place = out.add(n * GEMM_ROWS + at);
                            let total = weight_bias.mul_add(sum, I::F::load(place));
                            dots[n][half].to_f32().mul(scale).mul_add(weight_scale, total).store(place);
                        }
                    }
                }
            }
        }
    }
}
