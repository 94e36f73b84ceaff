//! Attention of one group of query heads over one page of keys and values, with online softmax.

use super::math::exp;
use crate::simd::{
    AttentionAccumulator, KvElement, KvPage,
    vector::{F32x1, Vector},
};

/// Folds a page into the accumulators of `heads` query heads that share its KV head. `query` is `[heads][dim]`,
/// already scaled; `scores` is scratch of `heads * page.tokens`.
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
            KvElement::F16(keys) => {
                score::<V, _>(
                    query,
                    page,
                    scores,
                    |row, i| V::load_f16(keys.as_ptr().add(row + i)),
                    |at| F32x1::load_f16(keys.as_ptr().add(at)).sum(),
                );
            }
            KvElement::F32(keys) => {
                score::<V, _>(
                    query,
                    page,
                    scores,
                    |row, i| V::load(keys.as_ptr().add(row + i)),
                    |at| keys[at],
                );
            }
        }
        online_softmax::<V>(page, scores, into);
        match page.values {
            KvElement::F16(values) => {
                mix::<V, _>(
                    page,
                    scores,
                    into,
                    |row, i| V::load_f16(values.as_ptr().add(row + i)),
                    |at| F32x1::load_f16(values.as_ptr().add(at)).sum(),
                );
            }
            KvElement::F32(values) => {
                mix::<V, _>(
                    page,
                    scores,
                    into,
                    |row, i| V::load(values.as_ptr().add(row + i)),
                    |at| values[at],
                );
            }
        }
    }
}

/// `scores[h][t] = query[h] · keys[t]`.
#[inline(always)]
unsafe fn score<V: Vector, L: Fn(usize, usize) -> V>(
    query: &[f32],
    page: &KvPage<'_>,
    scores: &mut [f32],
    load: L,
    element: impl Fn(usize) -> f32,
) {
    // SAFETY: as `attend_page`.
    unsafe {
        let (dim, tokens) = (page.dim, page.tokens);
        let heads = query.len() / dim;
        let whole = dim - dim % V::LANES;
        let tail = |head: usize, token: usize| -> f32 {
            (whole..dim).map(|i| query[head * dim + i] * element(token * dim + i)).sum()
        };
        let mut head = 0;
        while head < heads {
            let count = if heads - head >= 4 { 4 } else { 1 };
            let q = query.as_ptr().add(head * dim);
            let mut token = 0;
            while token < tokens {
                if count == 4 && tokens - token >= 4 {
                    let mut sums = [[V::splat(0.0); 4]; 4];
                    for i in (0..whole).step_by(V::LANES) {
                        let rows: [V; 4] = std::array::from_fn(|t| load((token + t) * dim, i));
                        for (h, sums) in sums.iter_mut().enumerate() {
                            let q = V::load(q.add(h * dim + i));
                            for (sum, row) in sums.iter_mut().zip(rows) {
                                *sum = row.mul_add(q, *sum);
                            }
                        }
                    }
                    for (h, sums) in sums.iter().enumerate() {
                        for (t, sum) in sums.iter().enumerate() {
                            scores[(head + h) * tokens + token + t] = sum.sum() + tail(head + h, token + t);
                        }
                    }
                    token += 4;
                } else {
                    for h in 0..count {
                        let mut sum = V::splat(0.0);
                        for i in (0..whole).step_by(V::LANES) {
                            sum = load(token * dim, i).mul_add(V::load(q.add(h * dim + i)), sum);
                        }
                        scores[(head + h) * tokens + token] = sum.sum() + tail(head + h, token);
                    }
                    token += 1;
                }
            }
            head += count;
        }
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
    for (head, scores) in scores.chunks_exact_mut(tokens).enumerate() {
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
            let rescale = exp(F32x1::splat(into.max[head] - top)).sum();
            if top > into.max[head] {
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
unsafe fn mix<V: Vector, L: Fn(usize, usize) -> V>(
    page: &KvPage<'_>,
    weights: &[f32],
    into: &mut AttentionAccumulator<'_>,
    load: L,
    element: impl Fn(usize) -> f32,
) {
    // SAFETY: as `attend_page`.
    unsafe {
        let (dim, tokens) = (page.dim, page.tokens);
        let heads = weights.len() / tokens;
        let whole = dim - dim % (2 * V::LANES);
        let mut head = 0;
        while head < heads {
            let count = if heads - head >= 4 { 4 } else { 1 };
            let out = into.values.as_mut_ptr().add(head * dim);
            let w = weights.as_ptr().add(head * tokens);
            for i in (0..whole).step_by(2 * V::LANES) {
                if count == 4 {
                    let mut sums: [[V; 2]; 4] = std::array::from_fn(|h| {
                        [V::load(out.add(h * dim + i)), V::load(out.add(h * dim + i + V::LANES))]
                    });
                    for t in 0..tokens {
                        let v = [load(t * dim, i), load(t * dim, i + V::LANES)];
                        for (h, sums) in sums.iter_mut().enumerate() {
                            let weight = V::splat(*w.add(h * tokens + t));
                            sums[0] = v[0].mul_add(weight, sums[0]);
                            sums[1] = v[1].mul_add(weight, sums[1]);
                        }
                    }
                    for (h, sums) in sums.iter().enumerate() {
                        sums[0].store(out.add(h * dim + i));
                        sums[1].store(out.add(h * dim + i + V::LANES));
                    }
                } else {
                    let mut sums = [V::load(out.add(i)), V::load(out.add(i + V::LANES))];
                    for t in 0..tokens {
                        let weight = V::splat(*w.add(t));
                        sums[0] = load(t * dim, i).mul_add(weight, sums[0]);
                        sums[1] = load(t * dim, i + V::LANES).mul_add(weight, sums[1]);
                    }
                    sums[0].store(out.add(i));
                    sums[1].store(out.add(i + V::LANES));
                }
            }
            for h in 0..count {
                for i in whole..dim {
                    let sum: f32 = (0..tokens).map(|t| *w.add(h * tokens + t) * element(t * dim + i)).sum();
                    *out.add(h * dim + i) += sum;
                }
            }
            head += count;
        }
    }
}
