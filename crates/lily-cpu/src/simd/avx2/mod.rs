//! AVX2, with and without 256-bit VNNI.

use super::{Simd, f32x8_avx2::F32x8, int_vector::IntVector, vector::Vector};
use crate::{
    activations::{Order, QuantRow},
    linear::{AffineView, FloatType},
};
use core::arch::x86_64::*;
use std::{marker::PhantomData, ops::Range};

/// AVX2, FMA, F16C and BMI2, with a way to multiply bytes.
pub(crate) struct Avx2<D>(PhantomData<D>);

/// Eight sums of four products of unsigned by signed bytes.
pub(crate) trait ByteDot {
    /// `codes` below 128 (`SMALL`) or any.
    ///
    /// # Safety
    /// The instruction set.
    unsafe fn dot<const SMALL: bool>(sums: __m256i, codes: __m256i, x: __m256i) -> __m256i;
}

/// Plain AVX2.
pub(crate) struct Maddubs;

impl ByteDot for Maddubs {
    #[inline(always)]
    unsafe fn dot<const SMALL: bool>(sums: __m256i, codes: __m256i, x: __m256i) -> __m256i {
        // SAFETY: AVX2 by contract.
        unsafe {
            let fours = if SMALL {
                // Two products of at most 127 * 127 fit 16 bits.
                _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1))
            } else {
                // Two products of 255 * 127 do not: the odd and the even bytes apart.
                let low = _mm256_set1_epi16(255);
                let even = _mm256_maddubs_epi16(_mm256_and_si256(codes, low), x);
                let odd = _mm256_maddubs_epi16(_mm256_andnot_si256(low, codes), x);
                let one = _mm256_set1_epi16(1);
                _mm256_add_epi32(_mm256_madd_epi16(even, one), _mm256_madd_epi16(odd, one))
            };
            _mm256_add_epi32(sums, fours)
        }
    }
}

/// AVX-VNNI.
pub(crate) struct Vnni;

impl ByteDot for Vnni {
    #[inline(always)]
    unsafe fn dot<const SMALL: bool>(sums: __m256i, codes: __m256i, x: __m256i) -> __m256i {
        // SAFETY: AVX-VNNI by contract.
        unsafe { _mm256_dpbusd_avx_epi32(sums, codes, x) }
    }
}

/// Eight sums of byte products.
pub(crate) struct I32x8<D>(__m256i, PhantomData<D>);

impl<D> Clone for I32x8<D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for I32x8<D> {}

impl<D: ByteDot> IntVector for I32x8<D> {
    type F = F32x8;
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: AVX2 by contract.
        Self(unsafe { _mm256_setzero_si256() }, PhantomData)
    }
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: AVX2 and 32 bytes by contract.
        Self(unsafe { _mm256_loadu_si256(p.cast()) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn splat(four: i32) -> Self {
        // SAFETY: AVX2 by contract.
        Self(unsafe { _mm256_set1_epi32(four) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn dot<const SMALL: bool>(self, codes: Self, x: Self) -> Self {
        // SAFETY: the same contract.
        Self(unsafe { D::dot::<SMALL>(self.0, codes.0, x.0) }, PhantomData)
    }
    #[inline(always)]
    unsafe fn to_f32(self) -> F32x8 {
        // SAFETY: AVX2 by contract.
        F32x8(unsafe { _mm256_cvtepi32_ps(self.0) })
    }
}

impl<D: ByteDot> Simd for Avx2<D> {
    type F = F32x8;
    type I = I32x8<D>;

    #[inline(always)]
    unsafe fn unpack(bits: usize, codes: *const u8, n: usize, out: *mut u8) {
        let fields = 0x0101_0101_0101_0101 * ((1u64 << bits) - 1);
        // SAFETY: BMI2 by contract; eight codes lie in `bits` bytes, read exactly; `n` is a multiple of 32.
        unsafe {
            match bits {
                8 => std::ptr::copy_nonoverlapping(codes, out, n),
                4 => {
                    let low = _mm_set1_epi8(15);
                    for i in (0..n).step_by(32) {
                        let packed = _mm_loadu_si128(codes.add(i / 2).cast());
                        let even = _mm_and_si128(packed, low);
                        let odd = _mm_and_si128(_mm_srli_epi16::<4>(packed), low);
                        _mm_storeu_si128(out.add(i).cast(), _mm_unpacklo_epi8(even, odd));
                        _mm_storeu_si128(out.add(i + 16).cast(), _mm_unpackhi_epi8(even, odd));
                    }
                }
                _ => {
                    for pack in 0..n / 8 {
                        let mut word = [0u8; 8];
                        std::ptr::copy_nonoverlapping(codes.add(pack * bits), word.as_mut_ptr(), bits);
                        let bytes = _pdep_u64(u64::from_le_bytes(word), fields);
                        out.add(pack * 8).cast::<u64>().write_unaligned(bytes);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn gemv_i8(w: &AffineView<'_>, rows: Range<usize>, x: &QuantRow<'_>, out: &mut [f32]) {
        // SAFETY: the same contract.
        unsafe {
            match (x.layout.order, w.bits) {
                (Order::Split(block), _) => gemv_q4::<D>(w, rows, x, block, out),
                (Order::Natural, 8) => gemv_natural::<D, false>(w, rows, x, out),
                (Order::Natural, _) => gemv_natural::<D, true>(w, rows, x, out),
            }
        }
    }
}

/// Units whose scales are prepared at a time.
const STRIP: usize = 64;

/// `weight scale * activation scale` for units `first..first + count` of a row, and the sum of the units' biases times
/// their activation sums.
///
/// # Safety
/// AVX2; the units lie inside the row; `x` is padded.
#[inline(always)]
unsafe fn unit_scales(
    w: &AffineView<'_>,
    row: usize,
    x: &QuantRow<'_>,
    first: usize,
    count: usize,
    scales: &mut [f32; STRIP],
) -> f32 {
    let unit = x.layout.unit;
    let groups = w.cols / w.group;
    let mut bias_sum = 0.0;
    let mut done = 0;
    if w.group == unit && w.scale_type == FloatType::Bf16 && w.bias_type == FloatType::Bf16 {
        // SAFETY: eight whole groups are inside the row.
        unsafe {
            let mut sum = F32x8::splat(0.0);
            let at = (row * groups + first) * 2;
            let (scale, bias) = (w.scales.as_ptr().add(at), w.biases.as_ptr().add(at));
            while done + 8 <= count {
                let s = F32x8::load_bf16(scale.add(done * 2).cast());
                let b = F32x8::load_bf16(bias.add(done * 2).cast());
                s.mul(F32x8::load(x.scales.as_ptr().add(first + done))).store(scales.as_mut_ptr().add(done));
                sum = b.mul_add(F32x8::load(x.sums.as_ptr().add(first + done)), sum);
                done += 8;
            }
            bias_sum = sum.sum();
        }
    }
    for (i, out) in scales.iter_mut().enumerate().take(count).skip(done) {
        let group = (first + i) * unit / w.group;
        *out = w.scale(row, group) * x.scales[first + i];
        bias_sum += w.bias(row, group) * x.sums[first + i];
    }
    bias_sum
}

/// A vector for two units of 32 columns or one of 64.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn spread(scales: &[f32; STRIP], at: usize, unit: usize) -> __m256 {
    // SAFETY: AVX2 by contract.
    unsafe {
        if unit == 64 {
            _mm256_set1_ps(scales[at])
        } else {
            // An odd unit at the end has no partner: its products are zero.
            _mm256_set_m128(_mm_set1_ps(scales[(at + 1).min(STRIP - 1)]), _mm_set1_ps(scales[at]))
        }
    }
}

/// 4-bit rows; codes and activations meet 64 columns at a time.
///
/// # Safety
/// As [`Simd::gemv_i8`].
#[inline(always)]
unsafe fn gemv_q4<D: ByteDot>(
    w: &AffineView<'_>,
    rows: Range<usize>,
    x: &QuantRow<'_>,
    block: usize,
    out: &mut [f32],
) {
    let unit = x.layout.unit;
    let units = w.cols / unit;
    for (row, out) in rows.zip(out) {
        // SAFETY: the instruction set is there; the row's codes are read exactly, activations are padded.
        unsafe {
            let low = _mm256_set1_epi8(15);
            let codes = w.codes.as_ptr().add(row * w.cols / 2);
            let mut sum = _mm256_setzero_ps();
            let mut total = 0.0;
            let mut scales = [0.0; STRIP];
            for first in (0..units).step_by(STRIP) {
                let count = (units - first).min(STRIP);
                total += unit_scales(w, row, x, first, count, &mut scales);
                let (begin, end) = (first * unit, (first + count) * unit);
                for column in (begin..end).step_by(64) {
                    let p = codes.add(column / 2);
                    let packed = if end - column >= 64 {
                        _mm256_loadu_si256(p.cast())
                    } else {
                        _mm256_zextsi128_si256(_mm_loadu_si128(p.cast()))
                    };
                    let start = column - column % block;
                    let at = x.codes.as_ptr().add(start + (column - start) / 2);
                    let half = block.min(w.cols - start) / 2;
                    let even = _mm256_and_si256(packed, low);
                    let odd = _mm256_and_si256(_mm256_srli_epi16::<4>(packed), low);
                    let dots = D::dot::<true>(_mm256_setzero_si256(), even, _mm256_loadu_si256(at.cast()));
                    let dots = D::dot::<true>(dots, odd, _mm256_loadu_si256(at.add(half).cast()));
                    let scale = spread(&scales, column / unit - first, unit);
                    sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), scale, sum);
                }
            }
            *out = F32x8(sum).sum() + total;
        }
    }
}

/// Rows of other widths, unpacked 64 columns at a time.
///
/// # Safety
/// As [`Simd::gemv_i8`].
#[inline(always)]
unsafe fn gemv_natural<D: ByteDot, const SMALL: bool>(
    w: &AffineView<'_>,
    rows: Range<usize>,
    x: &QuantRow<'_>,
    out: &mut [f32],
) {
    let unit = x.layout.unit;
    let units = w.cols / unit;
    let mut bytes = [0u8; 64];
    for (row, out) in rows.zip(out) {
        // SAFETY: the instruction set is there; the row's codes are read exactly, activations are padded.
        unsafe {
            let mut sum = _mm256_setzero_ps();
            let mut total = 0.0;
            let mut scales = [0.0; STRIP];
            for first in (0..units).step_by(STRIP) {
                let count = (units - first).min(STRIP);
                total += unit_scales(w, row, x, first, count, &mut scales);
                for (index, &scale) in scales[..count].iter().enumerate() {
                    let column = (first + index) * unit;
                    Avx2::<D>::unpack(w.bits, w.code_ptr(row, column), unit, bytes.as_mut_ptr());
                    let mut dots = _mm256_setzero_si256();
                    for i in (0..unit).step_by(32) {
                        let codes = _mm256_loadu_si256(bytes.as_ptr().add(i).cast());
                        let x = _mm256_loadu_si256(x.codes.as_ptr().add(column + i).cast());
                        dots = D::dot::<SMALL>(dots, codes, x);
                    }
                    sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_set1_ps(scale), sum);
                }
            }
            *out = F32x8(sum).sum() + total;
        }
    }
}
