//! The table of kernels of one tier.

use super::{AttentionAccumulator, GEMM_ROWS, GdnTokens, KvElement, KvPage, Simd, Tier, ops};
use crate::{
    activations::{Layout, Product, QuantMatrix, QuantRow},
    linear::{AffineView, DenseView, View},
};
use std::ops::Range;

/// One function per operation, compiled for one tier. The methods are the way to call them.
#[expect(clippy::type_complexity, reason = "each type is written once, here; its method names the arguments")]
pub(crate) struct Kernels {
    tier: Tier,
    rms_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    gated_norm: unsafe fn(&mut [f32], &[f32], &[f32], f32),
    l2_normalize: unsafe fn(&mut [f32], f32, f32),
    silu_mul: unsafe fn(&[f32], &[f32], &mut [f32]),
    scale_sigmoid: unsafe fn(f32, &[f32], &mut [f32]),
    dot: unsafe fn(&[f32], &[f32], &mut f32),
    accumulate: unsafe fn(&[f32], f32, &mut [f32]),
    conv_silu: unsafe fn(&[f32], usize, &[&[f32]], &mut [f32]),
    round_bf16: unsafe fn(&mut [f32]),
    softmax: unsafe fn(&mut [f32]),
    quantize: unsafe fn(&[f32], Layout, &mut [i8], &mut [f32], &mut [f32]),
    gdn_scan: unsafe fn(&mut [f32], &GdnTokens<'_>, &mut [f32], usize),
    attend_page: unsafe fn(&[f32], &KvPage<'_>, &mut [f32], &mut AttentionAccumulator<'_>),
    dequantize_row: unsafe fn(&AffineView<'_>, usize, &mut [f32]),
    gemv_affine_f32: unsafe fn(&AffineView<'_>, Range<usize>, &[f32], &mut [f32]),
    gemm_f32: unsafe fn(&View<'_>, (usize, usize), &[f32], &mut [f32]),
    widen: unsafe fn(&[u16], &mut [f32]),
    gemv_dense: unsafe fn(&DenseView<'_>, Range<usize>, &[f32], &mut [f32]),
    checksum: unsafe fn(&[u64], &mut u64),
    gemv_i8: unsafe fn(&AffineView<'_>, Range<usize>, &QuantRow<'_>, &mut [f32]),
    gemm_i8: unsafe fn(&AffineView<'_>, (usize, usize), &QuantMatrix<'_>, Range<usize>, &mut [f32]),
}

/// Compiles every kernel for a tier. `S` is the tier's [`Simd`].
macro_rules! tier {
    ($features:tt $module:ident, $tier:ident, $simd:ty) => {
        mod $module {
            use super::*;
            type S = $simd;
            type F = <S as Simd>::F;
            tier!(@kernels $features $tier;
                rms_norm(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) = ops::rms_norm::<F>(x, gain, eps, out);
                gated_norm(x: &mut [f32], z: &[f32], gain: &[f32], eps: f32) = ops::gated_norm::<F>(x, z, gain, eps);
                l2_normalize(x: &mut [f32], eps: f32, scale: f32) = ops::l2_normalize::<F>(x, eps, scale);
                silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) = ops::silu_mul::<F>(gate, up, out);
                scale_sigmoid(scale: f32, gate: &[f32], x: &mut [f32]) = ops::scale_sigmoid::<F>(scale, gate, x);
                dot(a: &[f32], b: &[f32], out: &mut f32) = ops::dot::<F>(a, b, out);
                accumulate(x: &[f32], scale: f32, out: &mut [f32]) = ops::accumulate::<F>(x, scale, out);
                conv_silu(taps: &[f32], stride: usize, columns: &[&[f32]], out: &mut [f32])
                    = ops::conv_silu::<F>(taps, stride, columns, out);
                round_bf16(x: &mut [f32]) = ops::round_bf16::<F>(x);
                softmax(x: &mut [f32]) = ops::softmax::<F>(x);
                quantize(x: &[f32], layout: Layout, codes: &mut [i8], scales: &mut [f32], sums: &mut [f32])
                    = ops::quantize::<F>(x, layout, codes, scales, sums);
                gdn_scan(state: &mut [f32], tokens: &GdnTokens<'_>, out: &mut [f32], stride: usize)
                    = ops::gdn_scan::<F>(state, tokens, out, stride);
                attend_page(q: &[f32], page: &KvPage<'_>, scores: &mut [f32], into: &mut AttentionAccumulator<'_>)
                    = ops::attend_page::<F>(q, page, scores, into);
                dequantize_row(w: &AffineView<'_>, row: usize, out: &mut [f32]) = ops::dequantize_row::<S>(w, row, out);
                gemv_affine_f32(w: &AffineView<'_>, rows: Range<usize>, x: &[f32], out: &mut [f32])
                    = ops::gemv_affine_f32::<S>(w, rows, x, out);
                gemm_f32(w: &View<'_>, block: (usize, usize), x: &[f32], out: &mut [f32])
                    = ops::gemm_f32::<S>(w, block, x, out);
                widen(from: &[u16], to: &mut [f32]) = ops::widen::<F>(from, to);
                gemv_dense(w: &DenseView<'_>, rows: Range<usize>, x: &[f32], out: &mut [f32])
                    = ops::gemv_dense::<S>(w, rows, x, out);
                checksum(words: &[u64], sum: &mut u64) = ops::checksum(words, sum);
                gemv_i8(w: &AffineView<'_>, rows: Range<usize>, x: &QuantRow<'_>, out: &mut [f32])
                    = S::gemv_i8(w, rows, x, out);
                gemm_i8(
                    w: &AffineView<'_>,
                    block: (usize, usize),
                    x: &QuantMatrix<'_>,
                    rows: Range<usize>,
                    out: &mut [f32]
                )
                    = S::gemm_i8(w, block, x, rows, out);
            );
        }
    };
    (@kernels $features:tt $tier:ident; $($name:ident($($arg:ident: $type:ty),*) = $body:expr;)*) => {
        $(
            tier! {@with $features
                unsafe fn $name($($arg: $type),*) {
                    // SAFETY: the features are enabled for this function; lengths by contract.
                    unsafe { $body }
                }
            }
        )*
        pub(super) static TABLE: Kernels =
            Kernels { tier: Tier::$tier, $($name),* };
    };
    (@with ($($feature:meta)?) $($function:tt)*) => { $(#[$feature])? $($function)* };
}

tier!(() scalar, Scalar, crate::simd::scalar::Scalar);
#[cfg(target_arch = "x86_64")]
tier!(
    (target_feature(enable = "avx2,fma,f16c,bmi2"))
    avx2, Avx2, crate::simd::avx2::Avx2<crate::simd::avx2::Maddubs>
);
#[cfg(target_arch = "x86_64")]
tier!(
    (target_feature(enable = "avx2,fma,f16c,bmi2,avxvnni"))
    avx_vnni, AvxVnni, crate::simd::avx2::Avx2<crate::simd::avx2::Vnni>
);
#[cfg(target_arch = "x86_64")]
tier!(
    (target_feature(enable = "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi"))
    avx512, Avx512, crate::simd::avx512::Avx512
);
#[cfg(target_arch = "x86_64")]
tier!(
    (target_feature(enable = "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi"))
    amx, Amx, crate::simd::amx::Amx
);
#[cfg(target_arch = "aarch64")]
tier!(() neon, Neon, crate::simd::neon::Neon<crate::simd::neon::Widening>);
#[cfg(target_arch = "aarch64")]
tier!(
    (target_feature(enable = "dotprod"))
    neon_dotprod, NeonDotprod, crate::simd::neon::Neon<crate::simd::neon::Dotprod>
);
#[cfg(target_arch = "aarch64")]
tier!(
    (target_feature(enable = "dotprod,i8mm"))
    neon_i8mm, NeonI8mm, crate::simd::neon::Neon<crate::simd::neon::I8mm>
);

impl Kernels {
    /// The table of a tier; `None` when this machine lacks it.
    pub(crate) fn for_tier(tier: Tier) -> Option<&'static Self> {
        if !Tier::available().contains(&tier) {
            return None;
        }
        match tier {
            Tier::Scalar => Some(&scalar::TABLE),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => Some(&avx2::TABLE),
            #[cfg(target_arch = "x86_64")]
            Tier::AvxVnni => Some(&avx_vnni::TABLE),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => Some(&avx512::TABLE),
            #[cfg(target_arch = "x86_64")]
            Tier::Amx => Some(&amx::TABLE),
            #[cfg(target_arch = "aarch64")]
            Tier::Neon => Some(&neon::TABLE),
            #[cfg(target_arch = "aarch64")]
            Tier::NeonDotprod => Some(&neon_dotprod::TABLE),
            #[cfg(target_arch = "aarch64")]
            Tier::NeonI8mm => Some(&neon_i8mm::TABLE),
            #[allow(unreachable_patterns, reason = "the tiers of other architectures")]
            _ => None,
        }
    }

    /// The tier.
    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    /// `out = x / sqrt(mean(x²) + eps) * gain`.
    pub(crate) fn rms_norm(&self, x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
        assert!(x.len() == gain.len() && x.len() == out.len());
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.rms_norm)(x, gain, eps, out) }
    }

    /// `x = x / sqrt(mean(x²) + eps) * gain * silu(z)`.
    pub(crate) fn gated_norm(&self, x: &mut [f32], z: &[f32], gain: &[f32], eps: f32) {
        assert!(x.len() == gain.len() && x.len() == z.len());
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.gated_norm)(x, z, gain, eps) }
    }

    /// `x = x / sqrt(sum(x²) + eps) * scale`.
    pub(crate) fn l2_normalize(&self, x: &mut [f32], eps: f32, scale: f32) {
        // SAFETY: the machine has the tier (`for_tier`).
        unsafe { (self.l2_normalize)(x, eps, scale) }
    }

    /// `out = silu(gate) * up`.
    pub(crate) fn silu_mul(&self, gate: &[f32], up: &[f32], out: &mut [f32]) {
        assert!(gate.len() == out.len() && up.len() == out.len());
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.silu_mul)(gate, up, out) }
    }

    /// `x = x * scale * sigmoid(gate)`.
    pub(crate) fn scale_sigmoid(&self, scale: f32, gate: &[f32], x: &mut [f32]) {
        assert!(gate.len() == x.len());
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.scale_sigmoid)(scale, gate, x) }
    }

    /// `a · b`.
    pub(crate) fn dot(&self, a: &[f32], b: &[f32]) -> f32 {
        assert!(a.len() == b.len());
        let mut sum = 0.0;
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.dot)(a, b, &mut sum) }
        sum
    }

    /// `out += scale * x`.
    pub(crate) fn accumulate(&self, x: &[f32], scale: f32, out: &mut [f32]) {
        assert!(x.len() == out.len());
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.accumulate)(x, scale, out) }
    }

    /// `out[c] = silu(sum over t of taps[t * stride + c] * columns[t][c])`.
    pub(crate) fn conv_silu(&self, taps: &[f32], stride: usize, columns: &[&[f32]], out: &mut [f32]) {
        assert!(columns.iter().all(|column| column.len() == out.len()));
        assert!(columns.is_empty() || taps.len() >= (columns.len() - 1) * stride + out.len());
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.conv_silu)(taps, stride, columns, out) }
    }

    /// Rounds to bfloat16, kept as f32.
    pub(crate) fn round_bf16(&self, x: &mut [f32]) {
        // SAFETY: the machine has the tier (`for_tier`).
        unsafe { (self.round_bf16)(x) }
    }

    /// Softmax in place.
    pub(crate) fn softmax(&self, x: &mut [f32]) {
        // SAFETY: the machine has the tier (`for_tier`).
        unsafe { (self.softmax)(x) }
    }

    /// Quantises a row, see [`ops::quantize`].
    pub(crate) fn quantize(
        &self,
        x: &[f32],
        layout: Layout,
        codes: &mut [i8],
        scales: &mut [f32],
        sums: &mut [f32],
    ) {
        let units = x.len() / layout.unit;
        assert!((layout.unit == 32 || layout.unit == 64) && x.len() == units * layout.unit);
        assert!(codes.len() >= x.len() && scales.len() >= units && sums.len() >= units);
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.quantize)(x, layout, codes, scales, sums) }
    }

    /// Runs the gated delta rule over tokens, see [`ops::gdn_scan`].
    pub(crate) fn gdn_scan(&self, state: &mut [f32], tokens: &GdnTokens<'_>, out: &mut [f32], stride: usize) {
        let GdnTokens { count, dk, dv, q, k, v, decay, beta, kq } = *tokens;
        assert!(
            state.len() == dk * dv && q.len() >= count * dk && k.len() >= count * dk && v.len() >= count * dv
        );
        assert!(decay.len() >= count && beta.len() >= count && kq.len() >= count && stride >= dv);
        assert!(count == 0 || out.len() >= (count - 1) * stride + dv);
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.gdn_scan)(state, tokens, out, stride) }
    }

    /// Folds a page of keys and values into running softmaxes, see [`ops::attend_page`].
    pub(crate) fn attend_page(
        &self,
        query: &[f32],
        page: &KvPage<'_>,
        scores: &mut [f32],
        into: &mut AttentionAccumulator<'_>,
    ) {
        let heads = query.len() / page.dim;
        if page.tokens == 0 {
            return;
        }
        let elements = |kv: KvElement<'_>| match kv {
            KvElement::F16(kv) => kv.len(),
            KvElement::F32(kv) => kv.len(),
        };
        assert!(query.len() == heads * page.dim && scores.len() == heads * page.stride);
        assert!(page.tokens <= page.stride && elements(page.keys) >= page.stride * page.dim);
        assert!(elements(page.values) >= page.tokens * page.dim);
        assert!(into.max.len() == heads && into.sum.len() == heads && into.values.len() == heads * page.dim);
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.attend_page)(query, page, scores, into) }
    }

    /// One dequantised row.
    pub(crate) fn dequantize_row(&self, w: &AffineView<'_>, row: usize, out: &mut [f32]) {
        assert!(row < w.rows && out.len() == w.cols);
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.dequantize_row)(w, row, out) }
    }

    /// Packed rows times an f32 vector.
    pub(crate) fn gemv_affine_f32(&self, w: &AffineView<'_>, rows: Range<usize>, x: &[f32], out: &mut [f32]) {
        assert!(rows.end <= w.rows && rows.len() == out.len() && x.len() == w.cols);
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.gemv_affine_f32)(w, rows, x, out) }
    }

    /// Up to [`GEMM_ROWS`] rows times many f32 vectors: `out[i * GEMM_ROWS + r] = w[block.start + r] · x[i]`.
    pub(crate) fn gemm_f32(&self, w: &View<'_>, block: Range<usize>, x: &[f32], out: &mut [f32]) {
        let vectors = x.len() / w.cols();
        assert!(block.end <= w.rows() && !block.is_empty() && block.len() <= GEMM_ROWS);
        assert!(x.len() == vectors * w.cols() && out.len() == vectors * GEMM_ROWS);
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.gemm_f32)(w, (block.start, block.len()), x, out) }
    }

    /// Half precision to single.
    pub(crate) fn widen(&self, from: &[u16], to: &mut [f32]) {
        assert!(from.len() == to.len());
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.widen)(from, to) }
    }

    /// Plain rows times an f32 vector.
    pub(crate) fn gemv_dense(&self, w: &DenseView<'_>, rows: Range<usize>, x: &[f32], out: &mut [f32]) {
        assert!(rows.end <= w.rows && rows.len() == out.len() && x.len() == w.cols);
        // SAFETY: the machine has the tier (`for_tier`); lengths agree.
        unsafe { (self.gemv_dense)(w, rows, x, out) }
    }

    /// The wrapping sum of all words: a way to read memory.
    pub(crate) fn checksum(&self, words: &[u64]) -> u64 {
        let mut sum = 0;
        // SAFETY: the machine has the tier (`for_tier`).
        unsafe { (self.checksum)(words, &mut sum) }
        sum
    }

    /// Packed rows times an 8-bit vector.
    pub(crate) fn gemv_i8(&self, w: &AffineView<'_>, rows: Range<usize>, x: &QuantRow<'_>, out: &mut [f32]) {
        assert!(rows.end <= w.rows && rows.len() == out.len() && x.cols == w.cols);
        assert!(x.layout == w.layout(Product::Vector));
        // SAFETY: the machine has the tier (`for_tier`); lengths and layouts agree.
        unsafe { (self.gemv_i8)(w, rows, x, out) }
    }

    /// Up to [`GEMM_ROWS`] packed rows times many 8-bit vectors: `out[i * GEMM_ROWS + r] = w[block.start + r] ·
    /// x[rows.start + i]`.
    pub(crate) fn gemm_i8(
        &self,
        w: &AffineView<'_>,
        block: Range<usize>,
        x: &QuantMatrix<'_>,
        rows: Range<usize>,
        out: &mut [f32],
    ) {
        assert!(block.end <= w.rows && !block.is_empty() && block.len() <= GEMM_ROWS);
        assert!(
            x.cols == w.cols && x.layout == w.layout(Product::Matrix) && out.len() == rows.len() * GEMM_ROWS
        );
        assert!(rows.end <= x.rows && !rows.is_empty());
        // SAFETY: the machine has the tier (`for_tier`); lengths and layouts agree.
        unsafe { (self.gemm_i8)(w, (block.start, block.len()), x, rows, out) }
    }
}
