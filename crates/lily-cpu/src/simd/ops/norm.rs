//! RMSNorm, the gated head norm and L2 normalisation.

use super::math::silu;
use crate::simd::vector::{F32x1, Vector};

/// The sum of squares.
#[inline(always)]
unsafe fn square_sum<V: Vector>(x: &[f32]) -> f32 {
    // SAFETY: the instruction set is there by contract; pointers stay inside `x`.
    unsafe {
        let (p, n) = (x.as_ptr(), x.len());
        let step = 4 * V::LANES;
        let mut sums = [V::splat(0.0); 4];
        let blocks = n - n % step;
        for i in (0..blocks).step_by(step) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let v = V::load(p.add(i + lane * V::LANES));
                *sum = v.mul_add(v, *sum);
            }
        }
        let whole = n - n % V::LANES;
        for i in (blocks..whole).step_by(V::LANES) {
            let v = V::load(p.add(i));
            sums[0] = v.mul_add(v, sums[0]);
        }
        let mut sum = sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum();
        for i in whole..n {
            sum += *p.add(i) * *p.add(i);
        }
        sum
    }
}

/// `out = x / sqrt(mean(x²) + eps) * gain`.
#[inline(always)]
pub(in crate::simd) unsafe fn rms_norm<V: Vector>(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
    // SAFETY: the instruction set is there by contract; all three have `x.len()` elements.
    unsafe {
        let n = x.len();
        let scale = 1.0 / (square_sum::<V>(x) / n as f32 + eps).sqrt();
        let (x, gain, out) = (x.as_ptr(), gain.as_ptr(), out.as_mut_ptr());
        let whole = n - n % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            V::load(x.add(i)).mul(V::splat(scale)).mul(V::load(gain.add(i))).store(out.add(i));
        }
        for i in whole..n {
            *out.add(i) = *x.add(i) * scale * *gain.add(i);
        }
    }
}

/// `x = x / sqrt(mean(x²) + eps) * gain * silu(z)`: the gated norm over one value head.
#[inline(always)]
pub(in crate::simd) unsafe fn gated_norm<V: Vector>(x: &mut [f32], z: &[f32], gain: &[f32], eps: f32) {
    // SAFETY: the instruction set is there by contract; all three have `x.len()` elements.
    unsafe {
        let n = x.len();
        let scale = 1.0 / (square_sum::<V>(x) / n as f32 + eps).sqrt();
        let (x, gain, z) = (x.as_mut_ptr(), gain.as_ptr(), z.as_ptr());
        let whole = n - n % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            let normed = V::load(x.add(i)).mul(V::splat(scale)).mul(V::load(gain.add(i)));
            normed.mul(silu(V::load(z.add(i)))).store(x.add(i));
        }
        for i in whole..n {
            *x.add(i) *= scale * *gain.add(i) * silu(F32x1::load(z.add(i))).sum();
        }
    }
}

/// `x = x / sqrt(sum(x²) + eps) * scale`.
#[inline(always)]
pub(in crate::simd) unsafe fn l2_normalize<V: Vector>(x: &mut [f32], eps: f32, scale: f32) {
    // SAFETY: the instruction set is there by contract.
    let factor = scale / (unsafe { square_sum::<V>(x) } + eps).sqrt();
    for x in x {
        *x *= factor;
    }
}
