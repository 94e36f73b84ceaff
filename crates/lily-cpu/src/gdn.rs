//! The Gated DeltaNet mixer.

use crate::{
    machine::Machine,
    model::Gdn,
    pool::{Chunks, Columns, Tile},
    scratch::Scratch,
    simd::{GdnTokens, Kernels},
    state::GdnState,
};
use lily_checkpoint::{GatedDeltaNetConfig, ModelConfig};

/// Epsilon of the L2 norms of q and k.
const L2_EPS: f32 = 1e-6;
/// Tokens whose q, k and v a thread holds at a time.
const RUN: usize = 64;
/// The widest convolution.
pub(crate) const MAX_CONV: usize = 8;

/// Where things lie in a row of input projections, `[q | k | v | z | b | a]`; the first three are the convolution's
/// channels.
#[derive(Debug, Clone, Copy)]
struct Row {
    k: usize,
    v: usize,
    z: usize,
    b: usize,
    a: usize,
    width: usize,
}

impl Row {
    fn new(dims: &GatedDeltaNetConfig) -> Self {
        let keys = dims.key_heads * dims.key_head_dim;
        let values = dims.value_heads * dims.value_head_dim;
        let z = 2 * keys + values;
        let (b, a) = (z + values, z + values + dims.value_heads);
        Self { k: keys, v: 2 * keys, z, b, a, width: a + dims.value_heads }
    }
}

/// Runs the mixer between its projections for some tokens of one sequence from `position` on: convolution, delta rule,
/// gated norm. `projected` is `[tokens][q | k | v | z | b | a]`, `out` gets `[tokens][value heads * dv]`.
pub(crate) fn gdn(
    machine: &mut Machine,
    config: &ModelConfig,
    weights: &Gdn,
    (state, position): (&mut GdnState, usize),
    projected: &[f32],
    out: &mut [f32],
) {
    let dims = &config.gated_delta_net;
    let row = Row::new(dims);
    let tokens = projected.len() / row.width;
    let GdnState { memory, window } = state;
    let run = Run { kernels: machine.kernels, config, weights, row, position, projected, window };
    // With one token a task is a value head: there are more of them. With many, all value heads of a key head, which
    // share its q and k.
    let heads = if tokens == 1 { 1 } else { dims.value_heads / dims.key_heads };
    let (dk, dv) = (dims.key_head_dim, dims.value_head_dim);
    let parts = (Chunks::new(memory, heads * dk * dv), Columns::new(out, dims.value_heads * dv, heads * dv));
    machine.pool.for_each(parts, &mut machine.scratch, |index, (memory, mut out), scratch| {
        for first in (0..tokens).step_by(RUN) {
            run.heads(index * heads, first..tokens.min(first + RUN), memory, &mut out, scratch);
        }
    });
    let channels = row.z;
    for token in tokens.saturating_sub(dims.conv_width)..tokens {
        let slot = (position + token) % dims.conv_width;
        window[slot * channels..][..channels].copy_from_slice(&projected[token * row.width..][..channels]);
    }
}

/// What the tasks of one call share.
struct Run<'a> {
    kernels: &'static Kernels,
    config: &'a ModelConfig,
    weights: &'a Gdn,
    row: Row,
    position: usize,
    projected: &'a [f32],
    window: &'a [f32],
}

impl Run<'_> {
    /// Value heads from `head` on that share a key head, for some tokens in order; `memory` and `out` are theirs.
    fn heads(
        &self,
        head: usize,
        tokens: std::ops::Range<usize>,
        memory: &mut [f32],
        out: &mut Tile<'_, f32>,
        scratch: &mut Scratch,
    ) {
        let dims = &self.config.gated_delta_net;
        let (dk, dv, count) = (dims.key_head_dim, dims.value_head_dim, tokens.len());
        let key_head = head / (dims.value_heads / dims.key_heads);
        let [q, k, v, o, gates] = scratch.take([count * dk, count * dk, count * dv, count * dv, 3 * count]);
        let (kq, gates) = gates.split_at_mut(count);
        let (decay, beta) = gates.split_at_mut(count);
        for (at, token) in tokens.clone().enumerate() {
            let (q, k) = (&mut q[at * dk..][..dk], &mut k[at * dk..][..dk]);
            self.convolve(token, key_head * dk, q);
            self.convolve(token, self.row.k + key_head * dk, k);
            self.kernels.l2_normalize(q, L2_EPS, (dk as f32).powf(-0.5));
            self.kernels.l2_normalize(k, L2_EPS, 1.0);
            kq[at] = self.kernels.dot(k, q);
        }
        for (index, memory) in memory.chunks_exact_mut(dk * dv).enumerate() {
            let head = head + index;
            for (at, token) in tokens.clone().enumerate() {
                self.convolve(token, self.row.v + head * dv, &mut v[at * dv..][..dv]);
                let row = &self.projected[token * self.row.width..];
                let a = row[self.row.a + head] + self.weights.dt_bias[head];
                decay[at] = (self.weights.decay_rate[head] * softplus(a)).exp();
                beta[at] = 1.0 / (1.0 + (-row[self.row.b + head]).exp());
            }
            let run = GdnTokens { count, dk, dv, q, k, v, decay, beta, kq };
            self.kernels.gdn_scan(memory, &run, o, dv);
            for (o, token) in o.chunks_exact_mut(dv).zip(tokens.clone()) {
                let z = &self.projected[token * self.row.width + self.row.z + head * dv..][..dv];
                self.kernels.gated_norm(o, z, &self.weights.norm, self.config.rms_norm_eps);
                out.row_mut(token)[index * dv..][..dv].copy_from_slice(o);
            }
        }
    }

    /// The convolution and its SiLU at `token`, for channels from `channel` on.
    fn convolve(&self, token: usize, channel: usize, out: &mut [f32]) {
        let (width, channels) = (self.config.gated_delta_net.conv_width, self.row.z);
        let mut columns: [&[f32]; MAX_CONV] = [&[]; MAX_CONV];
        for (tap, column) in columns[..width].iter_mut().enumerate() {
            // The newest tap is the token itself.
            *column = match (token + tap + 1).checked_sub(width) {
                Some(token) => &self.projected[token * self.row.width + channel..][..out.len()],
                None => {
                    let slot = (self.position + token + tap + 1) % width;
                    &self.window[slot * channels + channel..][..out.len()]
                }
            };
        }
        self.kernels.conv_silu(&self.weights.conv[channel..], channels, &columns[..width], out);
    }
}

/// `ln(1 + e^x)`.
fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}
