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
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod f32x16_avx512;
#[cfg(target_arch = "aarch64")]
mod f32x4_neon;
#[cfg(target_arch = "x86_64")]
mod f32x8_avx2;
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

    /// Whether [`Simd::gemm_i8`] is there.
    const GEMM: bool = false;

    /// `out[i * GEMM_ROWS + r] = w[first + r] · x[rows[i]]` for a block of `count` (at most [`GEMM_ROWS`]) rows from
    /// `first` on; where `r >= count` undefined.
    ///
    /// # Safety
    /// The instruction set and [`Simd::GEMM`]; the block inside `w`, `rows` inside `x`, `x` laid out for `w` and
    /// products of many rows, `GEMM_ROWS` outputs per row.
    unsafe fn gemm_i8(
        w: &AffineView<'_>,
        (first, count): (usize, usize),
        x: &QuantMatrix<'_>,
        rows: &[u32],
        out: &mut [f32],
    ) {
        let _ = (w, first, count, x, rows, out);
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

/// Keys and values of one KV head for a run of tokens: `[tokens][dim]` each.
#[derive(Clone, Copy)]
pub(crate) struct KvPage<'a> {
    /// Rows to attend to.
    pub tokens: usize,
    /// Elements per head.
    pub dim: usize,
    /// At least `tokens * dim` elements.
    pub keys: KvElement<'a>,
    /// At least `tokens * dim` elements.
    pub values: KvElement<'a>,
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
