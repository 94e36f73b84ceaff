//! Gated DeltaNet, the linear attention.

use super::{RowSource, causal_conv, decay, gated_delta_rule, gated_norm, l2_norm, linear, sigmoid};
use rayon::prelude::*;

/// Epsilon of the L2 norms of q and k.
const L2_EPS: f32 = 1e-6;

/// Dimensions of a Gated DeltaNet layer.
#[derive(Debug, Clone, PartialEq)]
pub struct GatedDeltaNetShape {
    /// Query and key heads.
    pub key_heads: usize,
    /// Value heads; value head `h` uses key head `h / (value_heads / key_heads)`.
    pub value_heads: usize,
    /// Elements per query and key head.
    pub key_dim: usize,
    /// Elements per value head.
    pub value_dim: usize,
    /// Taps of the convolution.
    pub conv_width: usize,
    /// Epsilon of the gated norm.
    pub eps: f32,
}

/// Weights of a Gated DeltaNet layer.
pub struct GatedDeltaNetWeights {
    /// `[channels, hidden]`: all q rows, all k rows, all v rows.
    pub in_proj_qkv: Box<dyn RowSource>,
    /// `[value_heads * value_dim, hidden]`.
    pub in_proj_z: Box<dyn RowSource>,
    /// `[value_heads, hidden]`: beta before its sigmoid.
    pub in_proj_b: Box<dyn RowSource>,
    /// `[value_heads, hidden]`: decay before its softplus.
    pub in_proj_a: Box<dyn RowSource>,
    /// `[hidden, value_heads * value_dim]`.
    pub out_proj: Box<dyn RowSource>,
    /// `[channels, conv_width]`, oldest tap first.
    pub conv1d: Vec<f32>,
    /// `[value_heads]`.
    pub a_log: Vec<f32>,
    /// `[value_heads]`.
    pub dt_bias: Vec<f32>,
    /// `[value_dim]`.
    pub norm: Vec<f32>,
}

/// What a Gated DeltaNet layer remembers.
#[derive(Debug, Clone, PartialEq)]
pub struct GatedDeltaNetState {
    /// Inputs of the convolution before the next token, `[conv_width - 1, channels]`.
    pub window: Vec<f32>,
    /// S, `[value_heads, value_dim, key_dim]`.
    pub memory: Vec<f32>,
}

impl GatedDeltaNetShape {
    /// Channels of the convolution: q, k and v.
    pub fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// The state before the first token: zeros.
    pub fn new_state(&self) -> GatedDeltaNetState {
        GatedDeltaNetState {
            window: vec![0.0; (self.conv_width - 1) * self.channels()],
            memory: vec![0.0; self.value_heads * self.value_dim * self.key_dim],
        }
    }
}

/// The mixer: `x [tokens, hidden]` (normed) to `[tokens, hidden]`. Moves `state` on.
pub fn gated_delta_net(
    shape: &GatedDeltaNetShape,
    w: &GatedDeltaNetWeights,
    state: &mut GatedDeltaNetState,
    x: &[f32],
) -> Vec<f32> {
    let (dk, dv) = (shape.key_dim, shape.value_dim);
    let (keys, values) = (shape.key_heads * dk, shape.value_heads * dv);
    let mut qkv = linear(&*w.in_proj_qkv, x);
    let z = linear(&*w.in_proj_z, x);
    let (a, b) = (linear(&*w.in_proj_a, x), linear(&*w.in_proj_b, x));

    causal_conv(&mut state.window, &w.conv1d, shape.conv_width, &mut qkv);
    let q_scale = (dk as f64).powf(-0.5) as f32;
    for token in qkv.chunks_exact_mut(shape.channels()) {
        for (head, qk) in token[..2 * keys].chunks_exact_mut(dk).enumerate() {
            l2_norm(qk, L2_EPS);
            if head < shape.key_heads {
                qk.iter_mut().for_each(|q| *q *= q_scale);
            }
        }
    }

    // Heads are independent; each walks over the tokens in order.
    let tokens = z.len() / values;
    let heads: Vec<Vec<f32>> = state
        .memory
        .par_chunks_mut(dv * dk)
        .enumerate()
        .map(|(h, memory)| {
            let key_head = h / (shape.value_heads / shape.key_heads);
            let mut out = vec![0.0; tokens * dv];
            for (t, o) in out.chunks_exact_mut(dv).enumerate() {
                let token = &qkv[t * shape.channels()..(t + 1) * shape.channels()];
                let (q, rest) = token.split_at(keys);
                let (k, v) = rest.split_at(keys);
                let (q, k) = (&q[key_head * dk..][..dk], &k[key_head * dk..][..dk]);
                let at = t * shape.value_heads + h;
                let decay = decay(a[at], w.a_log[h], w.dt_bias[h]);
                gated_delta_rule(memory, (q, k, &v[h * dv..][..dv]), decay, sigmoid(b[at]), o);
                gated_norm(o, &w.norm, &z[t * values + h * dv..][..dv], shape.eps);
            }
            out
        })
        .collect();
    let mut out = Vec::with_capacity(tokens * values);
    for t in 0..tokens {
        heads.iter().for_each(|head| out.extend_from_slice(&head[t * dv..(t + 1) * dv]));
    }
    linear(&*w.out_proj, &out)
}
