//! Gated grouped-query softmax attention.

use super::{Rotary, RowSource, dot, linear, rms_norm, sigmoid, softmax};
use rayon::prelude::*;

/// Dimensions of an attention layer.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; query head `h` reads kv head `h / (heads / kv_heads)`.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Rotation of queries and keys.
    pub rotary: Rotary,
    /// Epsilon of the head norms.
    pub eps: f32,
}

/// Weights of an attention layer.
pub struct AttentionWeights {
    /// `[heads * 2 * head_dim, hidden]`; per head its query rows, then its gate rows.
    pub q_proj: Box<dyn RowSource>,
    /// `[kv_heads * head_dim, hidden]`.
    pub k_proj: Box<dyn RowSource>,
    /// `[kv_heads * head_dim, hidden]`.
    pub v_proj: Box<dyn RowSource>,
    /// `[hidden, heads * head_dim]`.
    pub o_proj: Box<dyn RowSource>,
    /// Gain over a query head.
    pub q_norm: Vec<f32>,
    /// Gain over a key head.
    pub k_norm: Vec<f32>,
}

/// Keys (normed and rotated) and values of the tokens so far, each `[positions, kv_heads, head_dim]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KvRows {
    /// Keys.
    pub keys: Vec<f32>,
    /// Values.
    pub values: Vec<f32>,
}

/// The mixer: `x [tokens, hidden]` (normed) to `[tokens, hidden]`. The first token's position is the number of rows
/// in `kv`, to which the tokens' own rows are appended.
pub fn attention(shape: &AttentionShape, w: &AttentionWeights, kv: &mut KvRows, x: &[f32]) -> Vec<f32> {
    let dim = shape.head_dim;
    let position = kv.keys.len() / (shape.kv_heads * dim);
    let (mut query_and_gate, mut keys) = (linear(&*w.q_proj, x), linear(&*w.k_proj, x));
    let values = linear(&*w.v_proj, x);

    for (token, heads) in query_and_gate.chunks_exact_mut(shape.heads * 2 * dim).enumerate() {
        for head in heads.chunks_exact_mut(2 * dim) {
            rms_norm(&mut head[..dim], &w.q_norm, shape.eps);
            shape.rotary.rotate(&mut head[..dim], position + token);
        }
    }
    for (token, heads) in keys.chunks_exact_mut(shape.kv_heads * dim).enumerate() {
        for head in heads.chunks_exact_mut(dim) {
            rms_norm(head, &w.k_norm, shape.eps);
            shape.rotary.rotate(head, position + token);
        }
    }
    kv.keys.extend_from_slice(&keys);
    kv.values.extend_from_slice(&values);

    let mut out = vec![0.0; query_and_gate.len() / 2];
    out.par_chunks_mut(dim).zip(query_and_gate.par_chunks(2 * dim)).enumerate().for_each(
        |(i, (out, head))| {
            let (token, h) = (i / shape.heads, i % shape.heads);
            let (query, gate) = head.split_at(dim);
            attend(query, kv, shape.kv_heads, h / (shape.heads / shape.kv_heads), position + token + 1, out);
            for (out, gate) in out.iter_mut().zip(gate) {
                *out *= sigmoid(*gate);
            }
        },
    );
    linear(&*w.o_proj, &out)
}

/// One head: `out = Σ softmax(head_dim^-0.5 q · k) v` over the first `positions` rows of kv head `kv_head`, in order.
pub fn attend(
    query: &[f32],
    kv: &KvRows,
    kv_heads: usize,
    kv_head: usize,
    positions: usize,
    out: &mut [f32],
) {
    let dim = query.len();
    let row =
        |position: usize| (position * kv_heads + kv_head) * dim..(position * kv_heads + kv_head + 1) * dim;
    let scale = (dim as f64).powf(-0.5) as f32;
    let mut scores: Vec<f32> = (0..positions).map(|p| scale * dot(query, &kv.keys[row(p)])).collect();
    softmax(&mut scores);
    out.fill(0.0);
    for (p, score) in scores.iter().enumerate() {
        for (out, v) in out.iter_mut().zip(&kv.values[row(p)]) {
            *out += score * v;
        }
    }
}
