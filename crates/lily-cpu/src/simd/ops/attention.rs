//! Attention of query heads that share a KV head over one page of keys and values, with online softmax.
//!
//! Keys lie transposed, `[dim][tokens]`: scores of neighbouring tokens are the lanes of a vector, so no sum runs
//! across lanes. Values lie `[tokens][dim]`: elements of the output are the lanes.

use super::math::exp;
use crate::simd::{
    AttentionAccumulator, KvElement, KvPage,
    vector::{F16, F32, F32x1, Float, Vector},
};

/// Folds a page into the accumulators of the query heads. `query` is `[heads][dim]`, already scaled; `scores` is
/// scratch of `heads * page.stride`.
#[inline(always)]
pub(in crate::simd) unsafe fn attend_page<V: Vector>(
    query: &[f32],
    page: &KvPage<'_>,
    scores: &mut [f32],
    into: &mut AttentionAccumulator<'_>,
) {
    // SAFETY: the instruction set is there by contract; lengths were checked by the caller.
    unsafe {
        match page.keys {
            KvElement::F16(keys) => score::<V, F16>(query, page, keys.as_ptr().cast(), scores),
            KvElement::F32(keys) => score::<V, F32>(query, page, keys.as_ptr().cast(), scores),
        }
        online_softmax::<V>(page, scores, into);
        match page.values {
            KvElement::F16(values) => mix::<V, F16>(page, scores, values.as_ptr().cast(), into),
            KvElement::F32(values) => mix::<V, F32>(page, scores, values.as_ptr().cast(), into),
        }
    }
}

/// `scores[h][t] = query[h] · keys[t]`, for whole vectors of tokens as far as the stride goes: what lies beyond the
/// page's tokens is never used.
#[inline(always)]
unsafe fn score<V: Vector, E: Float>(query: &[f32], page: &KvPage<'_>, keys: *const u8, scores: &mut [f32]) {
    let heads = query.len() / page.dim;
    let (query, scores) = (query.as_ptr(), scores.as_mut_ptr());
    // SAFETY: as `attend_page`; each column block starts below `page.tokens` and ends at the stride or before.
    unsafe {
        let mut token = 0;
        while token < page.tokens {
            let keys = keys.add(token * E::SIZE);
            let scores = scores.add(token);
            if token + 2 * V::LANES <= page.stride {
                let mut head = 0;
                while head < heads {
                    let (q, out) = (query.add(head * page.dim), scores.add(head * page.stride));
                    head += match heads - head {
                        8.. if V::LANES == 16 => score_block::<V, E, 8, 2>(page, q, keys, out),
                        4.. => score_block::<V, E, 4, 2>(page, q, keys, out),
                        _ => score_block::<V, E, 1, 2>(page, q, keys, out),
                    };
                }
                token += 2 * V::LANES;
            } else if token + V::LANES <= page.stride {
                for head in 0..heads {
                    let (q, out) = (query.add(head * page.dim), scores.add(head * page.stride));
                    score_block::<V, E, 1, 1>(page, q, keys, out);
                }
                token += V::LANES;
            } else {
                for head in 0..heads {
                    let (q, out) = (query.add(head * page.dim), scores.add(head * page.stride));
                    score_block::<F32x1, E, 1, 1>(page, q, keys, out);
                }
                token += 1;
            }
        }
    }
}

/// `H` heads by `N` vectors of tokens; returns `H`.
#[inline(always)]
unsafe fn score_block<V: Vector, E: Float, const H: usize, const N: usize>(
    page: &KvPage<'_>,
    query: *const f32,
    keys: *const u8,
    scores: *mut f32,
) -> usize {
    // SAFETY: as `score`.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; H];
        for i in 0..page.dim {
            let mut rows = [V::splat(0.0); N];
            for (n, row) in rows.iter_mut().enumerate() {
                *row = E::load(keys.add((i * page.stride + n * V::LANES) * E::SIZE));
            }
            for (h, sums) in sums.iter_mut().enumerate() {
                let q = V::splat(*query.add(h * page.dim + i));
                for n in 0..N {
                    sums[n] = rows[n].mul_add(q, sums[n]);
                }
            }
        }
        for (h, sums) in sums.iter().enumerate() {
            for (n, sum) in sums.iter().enumerate() {
                sum.store(scores.add(h * page.stride + n * V::LANES));
            }
        }
        H
    }
}

/// Turns scores into weights relative to the new running maximum and rescales what was summed so far.
#[inline(always)]
unsafe fn online_softmax<V: Vector>(
    page: &KvPage<'_>,
    scores: &mut [f32],
    into: &mut AttentionAccumulator<'_>,
) {
    let (dim, tokens) = (page.dim, page.tokens);
    for (head, scores) in scores.chunks_exact_mut(page.stride).enumerate() {
        // SAFETY: the instruction set is there by contract; pointers stay inside the slices.
        unsafe {
            let p = scores.as_mut_ptr();
            let whole = tokens - tokens % V::LANES;
            let mut tops = V::splat(f32::NEG_INFINITY);
            for i in (0..whole).step_by(V::LANES) {
                tops = tops.max(V::load(p.add(i)));
            }
            let mut top = tops.max_lane().max(into.max[head]);
            for i in whole..tokens {
                top = top.max(*p.add(i));
            }
            if top > into.max[head] {
                let rescale = exp(F32x1::splat(into.max[head] - top)).sum();
                let rescale = if into.max[head] == f32::NEG_INFINITY { 0.0 } else { rescale };
                into.sum[head] *= rescale;
                for value in &mut into.values[head * dim..(head + 1) * dim] {
                    *value *= rescale;
                }
                into.max[head] = top;
            }
            let mut sums = V::splat(0.0);
            for i in (0..whole).step_by(V::LANES) {
                let e = exp(V::load(p.add(i)).sub(V::splat(top)));
                e.store(p.add(i));
                sums = sums.add(e);
            }
            let mut sum = sums.sum();
            for i in whole..tokens {
                let e = exp(F32x1::load(p.add(i)).sub(F32x1::splat(top)));
                e.store(p.add(i));
                sum += e.sum();
            }
            into.sum[head] += sum;
        }
    }
}

/// `values[h] += sum over t of weights[h][t] * page.values[t]`.
#[inline(always)]
unsafe fn mix<V: Vector, E: Float>(
    page: &KvPage<'_>,
    weights: &[f32],
    values: *const u8,
    into: &mut AttentionAccumulator<'_>,
) {
    let dim = page.dim;
    let heads = weights.len() / page.stride;
    let (weights, out) = (weights.as_ptr(), into.values.as_mut_ptr());
    // SAFETY: as `attend_page`; columns are below `dim`.
    unsafe {
        let mut column = 0;
        while column < dim {
            let values = values.add(column * E::SIZE);
            let out = out.add(column);
            if column + 2 * V::LANES <= dim {
                let mut head = 0;
                while head < heads {
                    let (w, out) = (weights.add(head * page.stride), out.add(head * dim));
                    head += match heads - head {
                        8.. if V::LANES == 16 => mix_block::<V, E, 8, 2>(page, w, values, out),
                        4.. => mix_block::<V, E, 4, 2>(page, w, values, out),
                        _ => mix_block::<V, E, 1, 2>(page, w, values, out),
                    };
                }
                column += 2 * V::LANES;
            } else {
                for head in 0..heads {
                    let (w, out) = (weights.add(head * page.stride), out.add(head * dim));
                    mix_block::<F32x1, E, 1, 1>(page, w, values, out);
                }
                column += 1;
            }
        }
    }
}

/// `H` heads by `N` vectors of output; returns `H`.
#[inline(always)]
unsafe fn mix_block<V: Vector, E: Float, const H: usize, const N: usize>(
    page: &KvPage<'_>,
    weights: *const f32,
    values: *const u8,
    out: *mut f32,
) -> usize {
    // SAFETY: as `mix`.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; H];
        for (h, sums) in sums.iter_mut().enumerate() {
            for (n, sum) in sums.iter_mut().enumerate() {
                *sum = V::load(out.add(h * page.dim + n * V::LANES));
            }
        }
        for t in 0..page.tokens {
            let mut rows = [V::splat(0.0); N];
            for (n, row) in rows.iter_mut().enumerate() {
                *row = E::load(values.add((t * page.dim + n * V::LANES) * E::SIZE));
            }
            for (h, sums) in sums.iter_mut().enumerate() {
                let weight = V::splat(*weights.add(h * page.stride + t));
                for n in 0..N {
                    sums[n] = rows[n].mul_add(weight, sums[n]);
                }
            }
        }
        for (h, sums) in sums.iter().enumerate() {
            for (n, sum) in sums.iter().enumerate() {
                sum.store(out.add(h * page.dim + n * V::LANES));
            }
        }
        H
    }
}

/// Half precision to single.
#[inline(always)]
pub(in crate::simd) unsafe fn widen<V: Vector>(from: &[u16], to: &mut [f32]) {
    // SAFETY: the instruction set is there by contract; both have the same length.
    unsafe {
        let (n, from, to) = (from.len(), from.as_ptr(), to.as_mut_ptr());
        let whole = n - n % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            V::load_f16(from.add(i)).store(to.add(i));
        }
        for i in whole..n {
            F32x1::load_f16(from.add(i)).store(to.add(i));
        }
    }
}
