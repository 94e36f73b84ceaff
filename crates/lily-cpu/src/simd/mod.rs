//! Kernels for each instruction set, chosen once at run time.
//!
//! Floating-point kernels are written once over [`vector::Vector`] (`ops/`) and compiled for each tier; the integer
//! dot products differ per tier. A [`Kernels`] table holds one function per operation; its methods are safe: a table
//! is handed out only for a tier that the machine has, and lengths are asserted there.
//!
//! # Safety
//! Who calls an unsafe function in here owes it two things, unless its own documentation says more: the
//! machine has the instruction set they are compiled for, and pointers have as many valid elements, of any alignment, as
//! the operation reads or writes.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod f32x16_avx512;
#[cfg(target_arch = "aarch64")]
mod f32x4_neon;
#[cfg(target_arch = "x86_64")]
mod f32x8_avx2;
mod int_vector;
#[cfg(target_arch = "aarch64")]
mod neon;
mod ops;
mod scalar;
mod table;
#[cfg(test)]
mod tests;
mod tier;
mod unpack;
mod vector;

pub(crate) use table::Kernels;
pub use tier::Tier;

use crate::{
    activations::{QuantMatrix, QuantRow},
    linear::AffineView,
};
use std::ops::Range;

/// One instruction set: its vectors and its integer kernels.
pub(crate) trait Simd {
    /// Its f32 vectors.
    type F: vector::Vector;
    /// Its byte products.
    type I: int_vector::IntVector<F = Self::F>;

    /// Unpacks `n` codes (a multiple of 32) of `bits` bits from `codes` to bytes in `out`.
    ///
    /// # Safety
    /// The instruction set; `n / 8 * bits` readable and `n` writable bytes.
    unsafe fn unpack(bits: usize, codes: *const u8, n: usize, out: *mut u8);

    /// `out[i] = w[rows.start + i] · x` with 8-bit activations.
    ///
    /// # Safety
    /// The instruction set; `rows` inside `w`, `x` laid out for `w`, one `out` per row.
    unsafe fn gemv_i8(w: &AffineView<'_>, rows: Range<usize>, x: &QuantRow<'_>, out: &mut [f32]);

    /// `out[i * GEMM_ROWS + r] = w[first + r] · x[rows.start + i]` for a block of `count` (at most [`GEMM_ROWS`]) rows from
    /// `first` on; where `r >= count` undefined.
    ///
    /// # Safety
    /// The instruction set; the block inside `w`, `rows` inside `x`, `x` laid out for `w` and products of many rows,
    /// `GEMM_ROWS` outputs per row.
    #[inline(always)]
    unsafe fn gemm_i8(
        w: &AffineView<'_>,
        block: (usize, usize),
        x: &QuantMatrix<'_>,
        rows: Range<usize>,
        out: &mut [f32],
    ) where
        Self: Sized,
    {
        // SAFETY: the same contract.
        unsafe { ops::gemm_i8::<Self>(w, block, x, rows, out) }
    }
}

/// Rows of a block in products of many rows.
pub(crate) const GEMM_ROWS: usize = 32;

/// A run of tokens for the gated delta rule of one value head.
#[derive(Clone, Copy)]
pub(crate) struct GdnTokens<'a> {
    /// Tokens.
    pub count: usize,
    /// Elements per query and key head.
    pub dk: usize,
    /// Elements per value head.
    pub dv: usize,
    /// `[count][dk]`, normalised and scaled.
    pub q: &'a [f32],
    /// `[count][dk]`, normalised.
    pub k: &'a [f32],
    /// `[count][dv]`.
    pub v: &'a [f32],
    /// `exp(g)` per token.
    pub decay: &'a [f32],
    /// Per token.
    pub beta: &'a [f32],
    /// `k · q` per token.
    pub kq: &'a [f32],
}

/// Keys or values.
#[derive(Clone, Copy)]
pub(crate) enum KvElement<'a> {
    /// Half precision.
    F16(&'a [u16]),
    /// Single precision.
    F32(&'a [f32]),
}

/// Columns of a block of the gated delta rule's state, see [`ops::gdn_scan`].
pub(crate) const GDN_COLUMNS: usize = 32;

/// Keys and values of one KV head for a run of tokens: keys `[dim][stride]`, values `[stride][dim]`.
#[derive(Clone, Copy)]
pub(crate) struct KvPage<'a> {
    /// Rows to attend to.
    pub tokens: usize,
    /// Rows there is room for.
    pub stride: usize,
    /// Elements per head.
    pub dim: usize,
    /// `stride * dim` elements.
    pub keys: KvElement<'a>,
    /// At least `tokens * dim` elements.
    pub values: KvElement<'a>,
}

impl<'a> KvPage<'a> {
    /// The page in f32, in `space` unless it is so already: worth it when many queries meet it.
    pub(crate) fn widened(self, kernels: &Kernels, space: &'a mut [f32]) -> Self {
        let (keys, values) = space.split_at_mut(self.stride * self.dim);
        let widen = |from: KvElement<'a>, to: &'a mut [f32]| match from {
            KvElement::F16(from) => {
                kernels.widen(from, to);
                KvElement::F32(to)
            }
            KvElement::F32(_) => from,
        };
        Self { keys: widen(self.keys, keys), values: widen(self.values, values), ..self }
    }
}

/// Running softmax of a group of query heads.
pub(crate) struct AttentionAccumulator<'a> {
    /// Largest score so far, per head; negative infinity at first.
    pub max: &'a mut [f32],
    /// Sum of weights relative to `max`, per head.
    pub sum: &'a mut [f32],
    /// Weighted values, `[heads][dim]`.
    pub values: &'a mut [f32],
}
