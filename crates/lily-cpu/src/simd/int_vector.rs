//! Vectors of 32-bit sums of byte products, and their scalar form.

use super::vector::{F32x1, Vector};

/// Lanes of four bytes each, or of one 32-bit sum each.
pub(crate) trait IntVector: Copy {
    /// f32 lanes, as many.
    type F: Vector;
    /// All zero.
    unsafe fn zero() -> Self;
    /// Loads four bytes per lane.
    unsafe fn load(p: *const u8) -> Self;
    /// The same four bytes in each lane.
    unsafe fn splat(four: i32) -> Self;
    /// `self` plus, per lane, the four products of `codes` (unsigned; below 128 if `SMALL`) and `x` (signed, above
    /// -128).
    unsafe fn dot<const SMALL: bool>(self, codes: Self, x: Self) -> Self;
    /// The sums as numbers.
    unsafe fn to_f32(self) -> Self::F;
}

/// One lane, on any machine.
#[derive(Clone, Copy)]
pub(crate) struct I32x1(i32);

impl IntVector for I32x1 {
    type F = F32x1;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(0)
    }
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: four bytes by contract.
        Self(unsafe { p.cast::<i32>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn splat(four: i32) -> Self {
        Self(four)
    }
    #[inline(always)]
    unsafe fn dot<const SMALL: bool>(self, codes: Self, x: Self) -> Self {
        let (codes, x) = (codes.0.to_ne_bytes(), x.0.to_ne_bytes());
        let products = codes.iter().zip(x).map(|(&code, x)| i32::from(code) * i32::from(x as i8));
        Self(self.0 + products.sum::<i32>())
    }
    #[inline(always)]
    unsafe fn to_f32(self) -> F32x1 {
        F32x1::of(self.0 as f32)
    }
}
