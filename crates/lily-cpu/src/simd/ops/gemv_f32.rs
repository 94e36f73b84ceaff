//! Packed or plain rows times an f32 vector: the router, raw checkpoints, and the precisions above int8.

use crate::{
    linear::{AffineView, DenseView, FloatType},
    simd::{
        Simd,
        vector::{Bf16, F16, F32, Float, Vector},
    },
};
use std::ops::Range;

/// Columns dequantised at a time.
const STRIP: usize = 128;

/// `out[i] = sum over c of (scale * code + bias)[rows.start + i][c] * x[c]`.
#[inline(always)]
pub(in crate::simd) unsafe fn gemv_affine_f32<S: Simd>(
    w: &AffineView<'_>,
    rows: Range<usize>,
    x: &[f32],
    out: &mut [f32],
) {
    let mut codes = [0u8; STRIP];
    for (row, out) in rows.zip(out) {
        // SAFETY: the instruction set is there by contract; `w` was checked against its slices, a group is 32, 64 or
        // 128 columns: a multiple of every vector length.
        unsafe {
            let mut sum = [S::F::splat(0.0), S::F::splat(0.0)];
            for group in 0..w.cols / w.group {
                let (scale, bias) = (S::F::splat(w.scale(row, group)), S::F::splat(w.bias(row, group)));
                let start = group * w.group;
                S::unpack(w.bits, w.code_ptr(row, start), w.group, codes.as_mut_ptr());
                let x = x.as_ptr().add(start);
                for i in (0..w.group).step_by(2 * S::F::LANES) {
                    for (half, sum) in sum.iter_mut().enumerate() {
                        let at = i + half * S::F::LANES;
                        let weight = S::F::load_u8(codes.as_ptr().add(at)).mul_add(scale, bias);
                        *sum = weight.mul_add(S::F::load(x.add(at)), *sum);
                    }
                }
            }
            *out = sum[0].add(sum[1]).sum();
        }
    }
}

/// One row, dequantised: an embedding.
#[inline(always)]
pub(in crate::simd) unsafe fn dequantize_row<S: Simd>(w: &AffineView<'_>, row: usize, out: &mut [f32]) {
    // SAFETY: the same contract.
    unsafe { dequantize::<S>(w, row, 0, out) }
}

/// Columns `begin..begin + out.len()` of a row, both multiples of the group.
#[inline(always)]
pub(super) unsafe fn dequantize<S: Simd>(w: &AffineView<'_>, row: usize, begin: usize, out: &mut [f32]) {
    let mut codes = [0u8; STRIP];
    for at in (0..out.len()).step_by(w.group) {
        let (start, group) = (begin + at, (begin + at) / w.group);
        // SAFETY: as `gemv_affine_f32`; whole groups lie inside the row and `out`.
        unsafe {
            let (scale, bias) = (S::F::splat(w.scale(row, group)), S::F::splat(w.bias(row, group)));
            S::unpack(w.bits, w.code_ptr(row, start), w.group, codes.as_mut_ptr());
            for i in (0..w.group).step_by(S::F::LANES) {
                let weight = S::F::load_u8(codes.as_ptr().add(i)).mul_add(scale, bias);
                weight.store(out.as_mut_ptr().add(at + i));
            }
        }
    }
}

/// `out[i] = w[rows.start + i] · x` for plain rows.
#[inline(always)]
pub(in crate::simd) unsafe fn gemv_dense<S: Simd>(
    w: &DenseView<'_>,
    rows: Range<usize>,
    x: &[f32],
    out: &mut [f32],
) {
    for (row, out) in rows.zip(out) {
        let p = w.row_ptr(row);
        // SAFETY: the instruction set is there by contract; the row holds `w.cols` elements of the named type.
        *out = unsafe {
            match w.dtype {
                FloatType::F32 => dot::<S::F, F32>(p, x),
                FloatType::F16 => dot::<S::F, F16>(p, x),
                FloatType::Bf16 => dot::<S::F, Bf16>(p, x),
            }
        };
        for (i, x) in x.iter().enumerate().skip(x.len() - x.len() % S::F::LANES) {
            *out += w.element(row, i) * x;
        }
    }
}

/// The whole vectors of a row times those of `x`.
#[inline(always)]
unsafe fn dot<V: Vector, E: Float>(w: *const u8, x: &[f32]) -> f32 {
    // SAFETY: as `gemv_dense`.
    unsafe {
        let mut sums = [V::splat(0.0); 4];
        let step = 4 * V::LANES;
        let blocks = x.len() - x.len() % step;
        for i in (0..blocks).step_by(step) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let at = i + lane * V::LANES;
                *sum = E::load::<V>(w.add(at * E::SIZE)).mul_add(V::load(x.as_ptr().add(at)), *sum);
            }
        }
        let whole = x.len() - x.len() % V::LANES;
        for i in (blocks..whole).step_by(V::LANES) {
            sums[0] = E::load::<V>(w.add(i * E::SIZE)).mul_add(V::load(x.as_ptr().add(i)), sums[0]);
        }
        sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum()
    }
}
