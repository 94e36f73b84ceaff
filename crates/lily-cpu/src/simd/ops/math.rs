//! exp, sigmoid and SiLU on vectors; softmax.

use crate::simd::vector::{F32x1, Vector};

/// `e^x`, relative error below 2e-7 (Cephes' polynomial on the reduced argument); about 1e-38 below -87.3, NaN stays NaN.
#[inline(always)]
pub(super) unsafe fn exp<V: Vector>(x: V) -> V {
    // SAFETY: the instruction set is there by contract.
    unsafe {
        // With the bound first, a NaN in `x` survives.
        let x = V::splat(-87.3).max(x);
        let x = V::splat(88.3).min(x);
        let n = x.mul(V::splat(std::f32::consts::LOG2_E)).round();
        let r = n.mul_add(V::splat(-0.693_359_4), x);
        let r = n.mul_add(V::splat(2.121_944_4e-4), r);
        let mut p = V::splat(1.987_569_1e-4);
        p = p.mul_add(r, V::splat(1.398_2e-3));
        p = p.mul_add(r, V::splat(8.333_452e-3));
        p = p.mul_add(r, V::splat(4.166_579_6e-2));
        p = p.mul_add(r, V::splat(1.666_666_5e-1));
        p = p.mul_add(r, V::splat(5e-1));
        p.mul_add(r.mul(r), r.add(V::splat(1.0))).ldexp(n)
    }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) unsafe fn sigmoid<V: Vector>(x: V) -> V {
    // SAFETY: the instruction set is there by contract.
    unsafe { V::splat(1.0).div(V::splat(1.0).add(exp(V::splat(0.0).sub(x)))) }
}

/// `x * sigmoid(x)`.
#[inline(always)]
pub(super) unsafe fn silu<V: Vector>(x: V) -> V {
    // SAFETY: the instruction set is there by contract.
    unsafe { x.div(V::splat(1.0).add(exp(V::splat(0.0).sub(x)))) }
}

/// Softmax in place.
#[inline(always)]
pub(in crate::simd) unsafe fn softmax<V: Vector>(x: &mut [f32]) {
    // SAFETY: the instruction set is there by contract; pointers stay inside `x`.
    unsafe {
        let (p, n) = (x.as_mut_ptr(), x.len());
        let whole = n - n % V::LANES;
        let mut top = V::splat(f32::NEG_INFINITY);
        for i in (0..whole).step_by(V::LANES) {
            top = top.max(V::load(p.add(i)));
        }
        let mut largest = top.max_lane();
        for i in whole..n {
            largest = largest.max(*p.add(i));
        }
        let mut sums = V::splat(0.0);
        for i in (0..whole).step_by(V::LANES) {
            let e = exp(V::load(p.add(i)).sub(V::splat(largest)));
            e.store(p.add(i));
            sums = sums.add(e);
        }
        let mut sum = sums.sum();
        for i in whole..n {
            let e = exp(F32x1::load(p.add(i)).sub(F32x1::splat(largest)));
            e.store(p.add(i));
            sum += e.sum();
        }
        let scale = 1.0 / sum;
        for i in 0..n {
            *p.add(i) *= scale;
        }
    }
}
