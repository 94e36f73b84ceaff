//! The gated delta rule, token after token, with the state in the innermost cache.

use crate::simd::{GdnTokens, vector::Vector};

/// Runs the recurrence of one value head over `tokens`; `state` is `[dk][dv]`, `out` gets one row of `dv` per token
/// at `out_stride`.
///
/// Per token, with `S` the state, `g` the decay: `d = beta (v - g Sᵀk)`, `o = g Sᵀq + d (k·q)`, `S = g S + k dᵀ`.
/// That is the rule of docs/model.md with the decay pulled out, so that one pass reads and one pass updates. The state is
/// walked in blocks of columns small enough to stay in the first-level cache from token to token.
#[inline(always)]
pub(in crate::simd) unsafe fn gdn_scan<V: Vector>(
    state: &mut [f32],
    tokens: &GdnTokens<'_>,
    out: &mut [f32],
    out_stride: usize,
) {
    // SAFETY: the instruction set is there by contract; lengths were checked by the caller, columns are below `dv`.
    unsafe {
        let dv = tokens.dv;
        let mut column = 0;
        while column + 4 * V::LANES <= dv {
            block::<V, 4>(state, tokens, out, out_stride, column);
            column += 4 * V::LANES;
        }
        while column + V::LANES <= dv {
            block::<V, 1>(state, tokens, out, out_stride, column);
            column += V::LANES;
        }
        while column < dv {
            block::<crate::simd::vector::F32x1, 1>(state, tokens, out, out_stride, column);
            column += 1;
        }
    }
}

#[inline(always)]
unsafe fn block<V: Vector, const N: usize>(
    state: &mut [f32],
    tokens: &GdnTokens<'_>,
    out: &mut [f32],
    out_stride: usize,
    column: usize,
) {
    // SAFETY: `column + N * LANES <= dv`; rows and tokens are inside the slices checked by the caller.
    unsafe {
        let (dk, dv) = (tokens.dk, tokens.dv);
        let s = state.as_mut_ptr().add(column);
        for t in 0..tokens.count {
            let q = tokens.q.as_ptr().add(t * dk);
            let k = tokens.k.as_ptr().add(t * dk);
            let v = tokens.v.as_ptr().add(t * dv + column);
            let decay = V::splat(tokens.decay[t]);
            let beta = V::splat(tokens.beta[t]);
            let kq = V::splat(tokens.kq[t]);
            let mut sk = [V::splat(0.0); N];
            let mut sq = [V::splat(0.0); N];
            for i in 0..dk {
                let (ki, qi) = (V::splat(*k.add(i)), V::splat(*q.add(i)));
                for n in 0..N {
                    let row = V::load(s.add(i * dv + n * V::LANES));
                    sk[n] = row.mul_add(ki, sk[n]);
                    sq[n] = row.mul_add(qi, sq[n]);
                }
            }
            let mut d = [V::splat(0.0); N];
            for n in 0..N {
                d[n] = V::load(v.add(n * V::LANES)).sub(decay.mul(sk[n])).mul(beta);
                let o = d[n].mul_add(kq, decay.mul(sq[n]));
                o.store(out.as_mut_ptr().add(t * out_stride + column + n * V::LANES));
            }
            for i in 0..dk {
                let ki = V::splat(*k.add(i));
                for (n, d) in d.iter().enumerate() {
                    let p = s.add(i * dv + n * V::LANES);
                    d.mul_add(ki, V::load(p).mul(decay)).store(p);
                }
            }
        }
    }
}
