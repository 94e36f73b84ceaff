//! Activations to 8-bit integers.

use crate::{
    activations::{Layout, Order},
    simd::vector::Vector,
};

/// Quantises one row: per unit of `layout.unit` columns a scale (largest magnitude / 127), codes in the layout's
/// order, and the sum of the unit's quantised values (for the weights' biases). A NaN or infinity anywhere in a unit
/// makes its scale NaN, so that it is not lost.
#[inline(always)]
pub(in crate::simd) unsafe fn quantize<V: Vector>(
    x: &[f32],
    layout: Layout,
    codes: &mut [i8],
    scales: &mut [f32],
    sums: &mut [f32],
) {
    let cols = x.len();
    let unit = layout.unit;
    let block = match layout.order {
        Order::Natural => unit,
        Order::Split(block) => block,
    };
    for start in (0..cols).step_by(unit) {
        let values = &x[start..start + unit];
        let mut natural = [0i8; 64];
        // SAFETY: the instruction set is there by contract; a unit is 32 or 64 values, a multiple of the lanes, and
        // `natural` holds 64.
        let scale = unsafe {
            let p = values.as_ptr();
            let (mut top, mut nan) = (V::splat(0.0), V::splat(0.0));
            for i in (0..unit).step_by(V::LANES) {
                let v = V::load(p.add(i));
                top = top.max(v.abs());
                nan = v.mul_add(V::splat(0.0), nan);
            }
            let top = top.max_lane();
            let inverse = if top > 0.0 { 127.0 / top } else { 0.0 };
            for i in (0..unit).step_by(V::LANES) {
                V::load(p.add(i)).mul(V::splat(inverse)).store_i8(natural.as_mut_ptr().add(i));
            }
            top / 127.0 + nan.sum()
        };
        let total: i32 = natural[..unit].iter().map(|&code| i32::from(code)).sum();
        scales[start / unit] = scale;
        sums[start / unit] = scale * total as f32;
        match layout.order {
            Order::Natural => codes[start..start + unit].copy_from_slice(&natural[..unit]),
            Order::Split(_) => {
                let first = start - start % block;
                let half = block.min(cols - first) / 2;
                let at = first + (start - first) / 2;
                let (even, odd) = codes[at..].split_at_mut(half);
                let halves = even[..unit / 2].iter_mut().zip(&mut odd[..unit / 2]);
                for ((even, odd), pair) in halves.zip(natural.chunks_exact(2)) {
                    (*even, *odd) = (pair[0], pair[1]);
                }
            }
        }
    }
}
