//! Packed or plain rows times many f32 vectors: the router, raw checkpoints, and the precisions above int8.
//!
//! A strip of a few rows is widened to f32 once, then used for all vectors, four by four.

use crate::{
    linear::{FloatType, View},
    simd::{
        GEMM_ROWS, Simd,
        vector::{Bf16, F16, F32, Float, Vector},
    },
};

/// Columns widened at a time.
const STRIP: usize = 512;
/// Rows widened at a time.
const ROWS: usize = 8;
/// Rows and vectors of a tile of sums.
const TILE: usize = 4;

/// `out[i * GEMM_ROWS + r] = w[first + r] · x[i]` for `count` rows; `x` is `[vectors][w.cols]`.
#[inline(always)]
pub(in crate::simd) unsafe fn gemm_f32<S: Simd>(
    w: &View<'_>,
    (first, count): (usize, usize),
    x: &[f32],
    out: &mut [f32],
) {
    let cols = w.cols();
    let mut strip = [0.0f32; ROWS * STRIP];
    out.fill(0.0);
    for row in (0..count).step_by(ROWS) {
        let rows = (count - row).min(ROWS);
        for begin in (0..cols).step_by(STRIP) {
            let width = (cols - begin).min(STRIP);
            for (r, strip) in strip.chunks_exact_mut(STRIP).take(rows).enumerate() {
                // SAFETY: the instruction set is there by contract; the row and the columns are inside `w`.
                unsafe { widen::<S>(w, first + row + r, begin, &mut strip[..width]) };
            }
            for (x, out) in x.chunks(TILE * cols).zip(out.chunks_mut(TILE * GEMM_ROWS)) {
                for r in (0..rows).step_by(TILE) {
                    let tile = Tile {
                        w: strip[r * STRIP..].as_ptr(),
                        rows: (rows - r).min(TILE),
                        x: x[begin..].as_ptr(),
                        x_stride: cols,
                        vectors: x.len() / cols,
                        width,
                    };
                    // SAFETY: as above.
                    unsafe { tile.add::<S::F>(&mut out[row + r..]) };
                }
            }
        }
    }
}

/// A few rows of the strip against a few vectors.
struct Tile {
    w: *const f32,
    rows: usize,
    x: *const f32,
    x_stride: usize,
    vectors: usize,
    width: usize,
}

impl Tile {
    /// Adds the products to `out[vector * GEMM_ROWS + row]`.
    #[inline(always)]
    unsafe fn add<V: Vector>(&self, out: &mut [f32]) {
        // SAFETY: the instruction set is there by contract; rows and vectors are as wide as the tile says. Those that
        // are missing repeat the last.
        unsafe {
            let mut w = [self.w; TILE];
            let mut x = [self.x; TILE];
            for i in 0..TILE {
                w[i] = self.w.add(i.min(self.rows - 1) * STRIP);
                x[i] = self.x.add(i.min(self.vectors - 1) * self.x_stride);
            }
            let whole = self.width - self.width % V::LANES;
            let mut sums = [[V::splat(0.0); TILE]; TILE];
            for at in (0..whole).step_by(V::LANES) {
                let mut rows = [V::splat(0.0); TILE];
                for i in 0..TILE {
                    rows[i] = V::load(w[i].add(at));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let x = V::load(x[i].add(at));
                    for r in 0..TILE {
                        sums[r] = rows[r].mul_add(x, sums[r]);
                    }
                }
            }
            for i in 0..self.vectors {
                let mut totals = V::sums(sums[i]);
                for (r, total) in totals.iter_mut().enumerate().take(self.rows) {
                    for at in whole..self.width {
                        *total += *w[r].add(at) * *x[i].add(at);
                    }
                    out[i * GEMM_ROWS + r] += *total;
                }
            }
        }
    }
}

/// Columns `begin..begin + out.len()` of a row.
#[inline(always)]
unsafe fn widen<S: Simd>(w: &View<'_>, row: usize, begin: usize, out: &mut [f32]) {
    // SAFETY: the instruction set is there by contract; the row and the columns are inside `w`.
    unsafe {
        match w {
            View::Affine(w) => super::gemv_f32::dequantize::<S>(w, row, begin, out),
            View::Dense(w) => {
                let p = w.row_ptr(row).add(begin * w.dtype.size());
                match w.dtype {
                    FloatType::F32 => widen_dense::<S::F, F32>(p, out),
                    FloatType::F16 => widen_dense::<S::F, F16>(p, out),
                    FloatType::Bf16 => widen_dense::<S::F, Bf16>(p, out),
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn widen_dense<V: Vector, E: Float>(p: *const u8, out: &mut [f32]) {
    // SAFETY: as `widen`.
    unsafe {
        let whole = out.len() - out.len() % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            E::load::<V>(p.add(i * E::SIZE)).store(out.as_mut_ptr().add(i));
        }
        for (i, out) in out.iter_mut().enumerate().skip(whole) {
            *out = E::load::<crate::simd::vector::F32x1>(p.add(i * E::SIZE)).sum();
        }
    }
}
