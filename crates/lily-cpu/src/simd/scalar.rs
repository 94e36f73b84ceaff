//! Kernels without vector intrinsics.

use super::{Simd, int_vector::I32x1, unpack, vector::F32x1};
use crate::{
    activations::{Order, QuantRow},
    linear::AffineView,
};
use std::ops::Range;

/// Any machine.
pub(crate) struct Scalar;

impl Simd for Scalar {
    type F = F32x1;
    type I = I32x1;

    #[inline(always)]
    unsafe fn unpack(bits: usize, codes: *const u8, n: usize, out: *mut u8) {
        // SAFETY: the same contract.
        unsafe { unpack::unpack(bits, codes, n, out) }
    }

    #[inline(always)]
    unsafe fn gemv_i8(w: &AffineView<'_>, rows: Range<usize>, x: &QuantRow<'_>, out: &mut [f32]) {
        let unit = x.layout.unit;
        for (row, out) in rows.zip(out) {
            let mut sum = 0.0;
            for index in 0..w.cols / unit {
                let start = index * unit;
                let mut codes = [0u8; 64];
                // SAFETY: a unit lies inside the row; it has at most 64 codes.
                unsafe { unpack::unpack(w.bits, w.code_ptr(row, start), unit, codes.as_mut_ptr()) };
                let dot: i32 = match x.layout.order {
                    Order::Natural => {
                        let x = &x.codes[start..start + unit];
                        codes.iter().zip(x).map(|(&code, &x)| i32::from(code) * i32::from(x)).sum()
                    }
                    Order::Split(block) => {
                        let first = start - start % block;
                        let (at, half) = (first + (start - first) / 2, block.min(w.cols - first) / 2);
                        let pairs = codes[..unit].chunks_exact(2).enumerate();
                        pairs
                            .map(|(i, pair)| {
                                i32::from(pair[0]) * i32::from(x.codes[at + i])
                                    + i32::from(pair[1]) * i32::from(x.codes[at + half + i])
                            })
                            .sum()
                    }
                };
                let group = start / w.group;
                sum +=
                    w.scale(row, group) * x.scales[index] * dot as f32 + w.bias(row, group) * x.sums[index];
            }
            *out = sum;
        }
    }
}
