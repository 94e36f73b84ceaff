//! The attention mixer.

use crate::{
    kv::{KvCache, PAGE},
    machine::Machine,
    model::Attention,
    pool::{Chunks, Each, Rectangles},
    rotary::rotate,
    simd::{AttentionAccumulator, Kernels, KvPage},
};
use lily_checkpoint::{AttentionConfig, ModelConfig};
use std::ops::Range;

/// Pages of one task in decode.
const BLOCK: usize = 8;
/// Query tokens of one task in prefill.
const TILE: usize = 16;

/// Where things lie in a row of input projections, `[(q | gate) per head | k | v]`.
struct Row<'a> {
    dims: &'a AttentionConfig,
    k: usize,
    v: usize,
    width: usize,
}

impl<'a> Row<'a> {
    fn new(dims: &'a AttentionConfig) -> Self {
        let (k, keys) = (2 * dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim);
        Self { dims, k, v: k + keys, width: k + 2 * keys }
    }

    fn group(&self) -> usize {
        self.dims.heads / self.dims.kv_heads
    }

    fn gate<'b>(&self, row: &'b [f32], head: usize) -> &'b [f32] {
        &row[(2 * head + 1) * self.dims.head_dim..][..self.dims.head_dim]
    }
}

/// Partial softmaxes of decode tasks, kept from token to token.
#[derive(Debug, Default)]
pub(crate) struct Partials(Vec<f32>);

/// What the tasks of one call share.
struct Call<'a> {
    kernels: &'static Kernels,
    row: Row<'a>,
    eps: f32,
    weights: &'a Attention,
    projected: &'a [f32],
    /// Per token.
    angles: &'a [f32],
}

/// Runs the mixer between its projections for some tokens of one sequence from `position` on: head norms, rotary
/// embedding, KV write, attention, output gate. `projected` is `[tokens][(q | gate) per head | k | v]`, `angles` the
/// tokens' rotary angles, `out` gets `[tokens][heads * dim]`. The cache has room for the tokens.
pub(crate) fn attention(
    machine: &mut Machine,
    config: &ModelConfig,
    weights: &Attention,
    (cache, position): (&mut KvCache, usize),
    (projected, angles): (&[f32], &[f32]),
    (partials, out): (&mut Partials, &mut [f32]),
) {
    let row = Row::new(&config.attention);
    let tokens = projected.len() / row.width;
    let call = Call { kernels: machine.kernels, row, eps: config.rms_norm_eps, weights, projected, angles };
    call.write(machine, cache, position, tokens);
    if tokens == 1 {
        call.one(machine, cache, position, partials, out);
    } else {
        call.many(machine, cache, position, out);
    }
}

impl Call<'_> {
    fn projected(&self, token: usize) -> &[f32] {
        &self.projected[token * self.row.width..][..self.row.width]
    }

    fn angles(&self, token: usize) -> &[f32] {
        let width = self.row.dims.rotary_dim;
        &self.angles[token * width..][..width]
    }

    /// Norms and rotates the keys and writes keys and values.
    fn write(&self, machine: &mut Machine, cache: &mut KvCache, position: usize, tokens: usize) {
        let dim = self.row.dims.head_dim;
        let token = |page: &mut crate::kv::Page, token: usize, key: &mut [f32]| {
            let row = self.projected(token);
            for head in 0..self.row.dims.kv_heads {
                let at = head * dim;
                self.kernels.rms_norm(&row[self.row.k + at..][..dim], &self.weights.k_norm, self.eps, key);
                rotate(self.angles(token), key);
                page.write(head, (position + token) % PAGE, key, &row[self.row.v + at..][..dim]);
            }
        };
        if tokens == 1 {
            let mut key = [0.0; 256];
            let mut long = Vec::new();
            let key = if dim <= 256 {
                &mut key[..dim]
            } else {
                long.resize(dim, 0.0);
                &mut long[..]
            };
            token(cache.page_mut(position), 0, key);
            return;
        }
        let end = position + tokens;
        let mut pages = cache.pages_mut(position, end);
        machine.pool.for_each(Each::new(&mut pages), &mut machine.scratch, |index, page, scratch| {
            let [key] = scratch.take([dim]);
            let start = (position / PAGE + index) * PAGE;
            for at in start.max(position)..(start + PAGE).min(end) {
                token(page, at - position, key);
            }
        });
    }

    /// The normed, rotated and scaled queries of a group of heads.
    fn queries(&self, token: usize, heads: Range<usize>, out: &mut [f32]) {
        let dim = self.row.dims.head_dim;
        let scale = (dim as f32).powf(-0.5);
        let row = self.projected(token);
        for (head, out) in heads.zip(out.chunks_exact_mut(dim)) {
            self.kernels.rms_norm(&row[2 * head * dim..][..dim], &self.weights.q_norm, self.eps, out);
            rotate(self.angles(token), out);
            out.iter_mut().for_each(|q| *q *= scale);
        }
    }

    /// One token: context blocks of equal size, each a task, then one combination per head. Neither depends on the
    /// number of threads.
    fn one(
        &self,
        machine: &mut Machine,
        cache: &KvCache,
        position: usize,
        partials: &mut Partials,
        out: &mut [f32],
    ) {
        let (group, dim, kv_heads) = (self.row.group(), self.row.dims.head_dim, self.row.dims.kv_heads);
        let context = position + 1;
        let pages = context.div_ceil(PAGE);
        let blocks = pages.div_ceil(BLOCK);
        // Per task: largest scores, sums, weighted values.
        let width = group * (dim + 2);
        if partials.0.len() < blocks * kv_heads * width {
            partials.0.resize(blocks * kv_heads * width, 0.0);
        }
        let parts = Chunks::new(&mut partials.0[..blocks * kv_heads * width], width);
        machine.pool.for_each(parts, &mut machine.scratch, |index, partial, scratch| {
            let (head, block) = (index % kv_heads, index / kv_heads);
            let [query, scores] = scratch.take([group * dim, group * PAGE]);
            self.queries(0, head * group..(head + 1) * group, query);
            let mut into = accumulator(partial, group);
            for page in block * BLOCK..pages.min((block + 1) * BLOCK) {
                let rows = cache.rows(page, head, PAGE.min(context - page * PAGE));
                self.kernels.attend_page(query, &rows, scores, &mut into);
            }
        });
        let partials = &partials.0;
        machine.pool.for_each_part(Chunks::new(out, dim), |head, out| {
            let (kv_head, member) = (head / group, head % group);
            let partial = |block: usize| &partials[(block * kv_heads + kv_head) * width..][..width];
            let top = (0..blocks).map(|block| partial(block)[member]).fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            out.fill(0.0);
            for block in 0..blocks {
                let partial = partial(block);
                let weight = (partial[member] - top).exp();
                sum += weight * partial[group + member];
                self.kernels.accumulate(&partial[2 * group + member * dim..][..dim], weight, out);
            }
            self.gate(0, head, 1.0 / sum, out);
        });
    }

    /// Many tokens: tiles of queries of one KV head, each a task that walks over the pages it may see.
    fn many(&self, machine: &mut Machine, cache: &KvCache, position: usize, out: &mut [f32]) {
        let (group, dim, kv_heads) = (self.row.group(), self.row.dims.head_dim, self.row.dims.kv_heads);
        let tokens = self.projected.len() / self.row.width;
        let tiles: Vec<Range<usize>> =
            (0..tokens).step_by(TILE).map(|first| first..tokens.min(first + TILE)).collect();
        let parts = Rectangles::new(out, self.row.dims.heads * dim, group * dim, &tiles);
        machine.pool.for_each(parts, &mut machine.scratch, |index, mut out, scratch| {
            let (head, tile) = (index % kv_heads, tiles[index / kv_heads].clone());
            let width = group * (dim + 2);
            let half = PAGE * dim;
            let [queries, sums, scores, wide] =
                scratch.take([tile.len() * group * dim, tile.len() * width, group * PAGE, 2 * half]);
            for (token, queries) in tile.clone().zip(queries.chunks_exact_mut(group * dim)) {
                self.queries(token, head * group..(head + 1) * group, queries);
            }
            for sums in sums.chunks_exact_mut(width) {
                accumulator(sums, group);
            }
            for page in 0..(position + tile.end).div_ceil(PAGE) {
                let rows = cache.rows(page, head, PAGE).widened(self.kernels, wide);
                let queries = queries.chunks_exact(group * dim);
                for ((token, query), sums) in tile.clone().zip(queries).zip(sums.chunks_exact_mut(width)) {
                    let tokens = (position + token + 1).saturating_sub(page * PAGE).min(PAGE);
                    let mut into = resume(sums, group);
                    self.kernels.attend_page(query, &KvPage { tokens, ..rows }, scores, &mut into);
                }
            }
            for (at, sums) in sums.chunks_exact(width).enumerate() {
                for (member, out) in out.row_mut(at).chunks_exact_mut(dim).enumerate() {
                    out.copy_from_slice(&sums[2 * group + member * dim..][..dim]);
                    self.gate(tile.start + at, head * group + member, 1.0 / sums[group + member], out);
                }
            }
        });
    }

    /// `out = out * scale * sigmoid(gate)` for one head.
    fn gate(&self, token: usize, head: usize, scale: f32, out: &mut [f32]) {
        self.kernels.scale_sigmoid(scale, self.row.gate(self.projected(token), head), out);
    }
}

/// An empty accumulator in `[max | sum | values]`.
fn accumulator(partial: &mut [f32], heads: usize) -> AttentionAccumulator<'_> {
    partial[..heads].fill(f32::NEG_INFINITY);
    partial[heads..].fill(0.0);
    resume(partial, heads)
}

/// The accumulator that lies in `[max | sum | values]`.
fn resume(partial: &mut [f32], heads: usize) -> AttentionAccumulator<'_> {
    let (max, rest) = partial.split_at_mut(heads);
    let (sum, values) = rest.split_at_mut(heads);
    AttentionAccumulator { max, sum, values }
}
