//! Gates, the short convolution and other element-wise steps.

use super::math::{sigmoid, silu};
use crate::simd::vector::{F32x1, Vector};

/// `out = silu(gate) * up`.
#[inline(always)]
pub(in crate::simd) unsafe fn silu_mul<V: Vector>(gate: &[f32], up: &[f32], out: &mut [f32]) {
    // SAFETY: the instruction set is there by contract; all three have the same length.
    unsafe {
        let n = out.len();
        let (gate, up, out) = (gate.as_ptr(), up.as_ptr(), out.as_mut_ptr());
        let whole = n - n % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            silu(V::load(gate.add(i))).mul(V::load(up.add(i))).store(out.add(i));
        }
        for i in whole..n {
            silu(F32x1::load(gate.add(i))).mul(F32x1::load(up.add(i))).store(out.add(i));
        }
    }
}

/// `x = x * scale * sigmoid(gate)`.
#[inline(always)]
pub(in crate::simd) unsafe fn scale_sigmoid<V: Vector>(scale: f32, gate: &[f32], x: &mut [f32]) {
    // SAFETY: the instruction set is there by contract; both have the same length.
    unsafe {
        let n = x.len();
        let (gate, x) = (gate.as_ptr(), x.as_mut_ptr());
        let whole = n - n % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            V::load(x.add(i)).mul(V::splat(scale)).mul(sigmoid(V::load(gate.add(i)))).store(x.add(i));
        }
        for i in whole..n {
            let gate = sigmoid(F32x1::load(gate.add(i)));
            F32x1::load(x.add(i)).mul(F32x1::splat(scale)).mul(gate).store(x.add(i));
        }
    }
}

/// `out += scale * x`.
#[inline(always)]
pub(in crate::simd) unsafe fn accumulate<V: Vector>(x: &[f32], scale: f32, out: &mut [f32]) {
    // SAFETY: the instruction set is there by contract; both have the same length.
    unsafe {
        let n = out.len();
        let (x, out) = (x.as_ptr(), out.as_mut_ptr());
        let whole = n - n % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            V::load(x.add(i)).mul_add(V::splat(scale), V::load(out.add(i))).store(out.add(i));
        }
        for i in whole..n {
            *out.add(i) += scale * *x.add(i);
        }
    }
}

/// `out[c] = silu(sum over taps t of taps[t][c] * columns[t][c])`; `taps` is `[columns.len()][stride]` from the
/// first channel of the run on.
#[inline(always)]
pub(in crate::simd) unsafe fn conv_silu<V: Vector>(
    taps: &[f32],
    stride: usize,
    columns: &[&[f32]],
    out: &mut [f32],
) {
    // SAFETY: the instruction set is there by contract; each column and each row of taps has `out.len()` elements.
    unsafe {
        let n = out.len();
        let out = out.as_mut_ptr();
        let whole = n - n % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            let mut sum = V::splat(0.0);
            for (t, column) in columns.iter().enumerate() {
                sum =
                    V::load(taps.as_ptr().add(t * stride + i)).mul_add(V::load(column.as_ptr().add(i)), sum);
            }
            silu(sum).store(out.add(i));
        }
        for i in whole..n {
            let mut sum = 0.0;
            for (t, column) in columns.iter().enumerate() {
                sum += taps[t * stride + i] * column[i];
            }
            silu(F32x1::splat(sum)).store(out.add(i));
        }
    }
}

/// Rounds to bfloat16, nearest even, kept as f32. Infinities and NaN stay what they are.
#[inline(always)]
pub(in crate::simd) unsafe fn round_bf16<V: Vector>(x: &mut [f32]) {
    for x in x {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
        *x = if x.is_finite() { f32::from_bits(rounded) } else { *x };
    }
}

/// `out = a · b`.
#[inline(always)]
pub(in crate::simd) unsafe fn dot<V: Vector>(a: &[f32], b: &[f32], out: &mut f32) {
    // SAFETY: the instruction set is there by contract; both have the same length.
    unsafe {
        let n = a.len();
        let (a, b) = (a.as_ptr(), b.as_ptr());
        let whole = n - n % V::LANES;
        let mut sum = V::splat(0.0);
        for i in (0..whole).step_by(V::LANES) {
            sum = V::load(a.add(i)).mul_add(V::load(b.add(i)), sum);
        }
        *out = sum.sum();
        for i in whole..n {
            *out += *a.add(i) * *b.add(i);
        }
    }
}
