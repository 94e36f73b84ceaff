//! The gated delta rule, token after token, with the state in the innermost cache.

use crate::simd::{
    GDN_COLUMNS, GdnTokens,
    vector::{F32x1, Vector},
};

/// Runs the recurrence of one value head over `tokens`; `out` gets one row of `dv` per token at `out_stride`.
///
/// Per token, with `S` the state, `g` the decay: `d = beta (v - g Sᵀk)`, `o = g Sᵀq + d (k·q)`, `S = g S + k dᵀ`.
/// That is the rule of docs/model.md with the decay pulled out, so that one pass reads and one pass updates.
///
/// The state is `[dv / GDN_COLUMNS][dk][GDN_COLUMNS]` (the last block may be narrow): a block is contiguous and stays
/// in the first-level cache from token to token.
#[inline(always)]
pub(in crate::simd) unsafe fn gdn_scan<V: Vector>(
    state: &mut [f32],
    tokens: &GdnTokens<'_>,
    out: &mut [f32],
    out_stride: usize,
) {
    let dv = tokens.dv;
    for column in (0..dv).step_by(GDN_COLUMNS) {
        let width = GDN_COLUMNS.min(dv - column);
        let block = Block { state: state[column * tokens.dk..].as_mut_ptr(), width, column, out_stride };
        // SAFETY: the instruction set is there by contract; lengths were checked by the caller, columns are below `dv`.
        unsafe {
            match (width / V::LANES, width % V::LANES) {
                // Two chains of sums per vector where there are few vectors: a chain waits for its last addition.
                (2, 0) => block.scan::<V, 2, 2>(tokens, out, 0),
                (4, 0) => block.scan::<V, 4, 1>(tokens, out, 0),
                (8, 0) => block.scan::<V, 8, 1>(tokens, out, 0),
                (vectors, _) => {
                    for vector in 0..vectors {
                        block.scan::<V, 1, 2>(tokens, out, vector * V::LANES);
                    }
                    for offset in vectors * V::LANES..width {
                        block.scan::<F32x1, 1, 2>(tokens, out, offset);
                    }
                }
            }
        }
    }
}

/// A block of columns of the state.
#[derive(Clone, Copy)]
struct Block {
    state: *mut f32,
    width: usize,
    column: usize,
    out_stride: usize,
}

impl Block {
    /// `N` vectors of columns from `offset` in the block on, sums in `U` chains.
    #[inline(always)]
    unsafe fn scan<V: Vector, const N: usize, const U: usize>(
        self,
        tokens: &GdnTokens<'_>,
        out: &mut [f32],
        offset: usize,
    ) {
        let Self { width, column, out_stride, .. } = self;
        let (dk, dv) = (tokens.dk, tokens.dv);
        // SAFETY: `offset + N * LANES <= width`; rows and tokens are inside the slices checked by the caller.
        unsafe {
            let s = self.state.add(offset);
            for t in 0..tokens.count {
                let q = tokens.q.as_ptr().add(t * dk);
                let k = tokens.k.as_ptr().add(t * dk);
                let v = tokens.v.as_ptr().add(t * dv + column + offset);
                let decay = V::splat(tokens.decay[t]);
                let beta = V::splat(tokens.beta[t]);
                let kq = V::splat(tokens.kq[t]);
                let mut sk = [[V::splat(0.0); N]; U];
                let mut sq = [[V::splat(0.0); N]; U];
                let mut i = 0;
                while i + U <= dk {
                    for u in 0..U {
                        let (ki, qi) = (V::splat(*k.add(i + u)), V::splat(*q.add(i + u)));
                        for n in 0..N {
                            let row = V::load(s.add((i + u) * width + n * V::LANES));
                            sk[u][n] = row.mul_add(ki, sk[u][n]);
                            sq[u][n] = row.mul_add(qi, sq[u][n]);
                        }
                    }
                    i += U;
                }
                while i < dk {
                    let (ki, qi) = (V::splat(*k.add(i)), V::splat(*q.add(i)));
                    for n in 0..N {
                        let row = V::load(s.add(i * width + n * V::LANES));
                        sk[0][n] = row.mul_add(ki, sk[0][n]);
                        sq[0][n] = row.mul_add(qi, sq[0][n]);
                    }
                    i += 1;
                }
                for u in 1..U {
                    for n in 0..N {
                        sk[0][n] = sk[0][n].add(sk[u][n]);
                        sq[0][n] = sq[0][n].add(sq[u][n]);
                    }
                }
                let mut d = [V::splat(0.0); N];
                for n in 0..N {
                    d[n] = V::load(v.add(n * V::LANES)).sub(decay.mul(sk[0][n])).mul(beta);
                    let o = d[n].mul_add(kq, decay.mul(sq[0][n]));
                    o.store(out.as_mut_ptr().add(t * out_stride + column + offset + n * V::LANES));
                }
                for i in 0..dk {
                    let ki = V::splat(*k.add(i));
                    for (n, d) in d.iter().enumerate() {
                        let p = s.add(i * width + n * V::LANES);
                        d.mul_add(ki, V::load(p).mul(decay)).store(p);
                    }
                }
            }
        }
    }
}
