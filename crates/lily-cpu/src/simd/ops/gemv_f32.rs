//! Packed or plain rows times an f32 vector: the router, raw checkpoints, and the precisions above int8.

use crate::{
    linear::{AffineView, DenseView, FloatType},
    simd::{Simd, vector::Vector},
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
    let mut codes = [0u8; STRIP];
    for group in 0..w.cols / w.group {
        // SAFETY: as `gemv_affine_f32`; `out` holds `w.cols` values.
        unsafe {
            let (scale, bias) = (S::F::splat(w.scale(row, group)), S::F::splat(w.bias(row, group)));
            let start = group * w.group;
            S::unpack(w.bits, w.code_ptr(row, start), w.group, codes.as_mut_ptr());
            for i in (0..w.group).step_by(S::F::LANES) {
                let weight = S::F::load_u8(codes.as_ptr().add(i)).mul_add(scale, bias);
                weight.store(out.as_mut_ptr().add(start + i));
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
                FloatType::F32 => dot::<S>(x, |i| S::F::load(p.cast::<f32>().add(i))),
                FloatType::F16 => dot::<S>(x, |i| S::F::load_f16(p.cast::<u16>().add(i))),
                FloatType::Bf16 => dot::<S>(x, |i| S::F::load_bf16(p.cast::<u16>().add(i))),
            }
        };
        for (i, x) in x.iter().enumerate().skip(x.len() - x.len() % S::F::LANES) {
            *out += w.element(row, i) * x;
        }
    }
}

#[inline(always)]
unsafe fn dot<S: Simd>(x: &[f32], load: impl Fn(usize) -> S::F) -> f32 {
    // SAFETY: as `gemv_dense`.
    unsafe {
        let mut sums = [S::F::splat(0.0); 4];
        let step = 4 * S::F::LANES;
        let blocks = x.len() - x.len() % step;
        for i in (0..blocks).step_by(step) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let at = i + lane * S::F::LANES;
                *sum = load(at).mul_add(S::F::load(x.as_ptr().add(at)), *sum);
            }
        }
        let whole = x.len() - x.len() % S::F::LANES;
        for i in (blocks..whole).step_by(S::F::LANES) {
            sums[0] = load(i).mul_add(S::F::load(x.as_ptr().add(i)), sums[0]);
        }
        sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum()
    }
}
