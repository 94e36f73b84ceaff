//! Gated attention, one token: projections in; the cache in blocks; the blocks joined and gated; projection out.

use super::{
    Step,
    gemv::{Around, gemv, gemv_group},
    groups,
};
use crate::{
    GpuError, KvState, Optimisation, View,
    shapes::AttentionShape,
    weights::{AttentionWeights, LayerWeights},
};
use lily_kernels::Platform;

/// What the kernels are written for.
const HEAD_DIM: usize = 256;
/// The shortest block.
const LEAST_BLOCK: usize = 64;
/// Blocks are equal from this context on ("fixed-blocks").
const FIXED_FROM: usize = 32_768;

/// Positions of a block, for about so many.
fn block(bucket: usize, blocks: usize) -> usize {
    bucket.div_ceil(blocks).next_power_of_two().max(LEAST_BLOCK)
}

/// Most blocks of any context up to the longest, with any shape.
pub(super) fn most_blocks(max_context: usize) -> usize {
    let (longest, most) = (super::bucket(max_context), AttentionShape::MOST_BLOCKS);
    // Below the longest, the count is largest just before blocks double.
    longest.div_ceil(block(longest, most)).max(most.min(longest.div_ceil(LEAST_BLOCK)))
}

/// The parts of the input projections.
struct Projections {
    /// `[query | gate]` of each head.
    q: View,
    k: View,
    v: View,
}

impl Step<'_> {
    pub(super) fn attention(
        &mut self,
        layer: &LayerWeights,
        w: &AttentionWeights,
        state: &KvState,
    ) -> Result<(), GpuError> {
        let (t, config) = (self.t, &self.model.config.attention);
        if config.head_dim != HEAD_DIM {
            return Err(GpuError::Unsupported {
                name: format!("attention heads of {}", config.head_dim),
                what: format!("the kernels are written for {HEAD_DIM}"),
            });
        }
        let norm = Around::Norm { gain: &layer.input_norm, eps: self.model.config.rms_norm_eps };
        gemv_group(self, &w.in_proj, &t.x, &t.projections, &norm, "attention.in_proj")?;
        let part = |at: usize| {
            let (from, to) = (w.in_proj.borders[at], w.in_proj.borders[at + 1]);
            t.projections.slice(from * 4, (to - from) * 4)
        };
        let p = Projections { q: part(0), k: part(1), v: part(2) };
        let y = t.mixed.slice(0, config.heads * HEAD_DIM * 4);
        self.blocks(w, state, &p)?;
        self.combine(w, &p, &y)?;
        let ahead = self.ahead_of_router(layer, &w.out_proj);
        gemv(self, &w.out_proj, &y, &t.x, &Around::Add { ahead: &ahead }, "attention.out_proj")
    }

    fn partials(&self) -> (u32, View, View) {
        let heads = self.model.config.attention.heads;
        let blocks = self.bucket.div_ceil(self.block());
        let partial = self.t.partial.slice(0, blocks * heads * HEAD_DIM * 4);
        let partial_ml = self.t.partial_ml.slice(0, blocks * heads * 2 * 4);
        (groups(blocks, 1), partial, partial_ml)
    }

    /// Positions of a block.
    fn block(&self) -> usize {
        block(self.bucket, self.shapes.attention.blocks)
    }

    /// Bytes of the results, and of their maxima and sums, of the blocks that the context reaches.
    fn partial_bytes(&self) -> [usize; 2] {
        let heads = self.model.config.attention.heads;
        let blocks = self.context.div_ceil(self.block());
        [blocks * heads * HEAD_DIM * 4, blocks * heads * 2 * 4]
    }

    /// Attention over the cache, block by block.
    fn blocks(&mut self, w: &AttentionWeights, state: &KvState, p: &Projections) -> Result<(), GpuError> {
        let has = |one| self.model.switches.has(one);
        let (coalesced, fused) = (has(Optimisation::CoalescedKv), has(Optimisation::FuseQk));
        let queries = if fused && coalesced { p.q.clone() } else { self.prepare(w, state, p)? };
        let config = &self.model.config.attention;
        let (heads, kv_heads) = (config.heads, config.kv_heads);
        let scale = (HEAD_DIM as f32).powf(-0.5);
        let (block_count, partial, partial_ml) = self.partials();
        let mut constants = vec![
            ("HEADS", heads as i64),
            ("KV_HEADS", kv_heads as i64),
            ("ROTARY", config.rotary_dim as i64),
            ("BLOCK", self.block() as i64),
        ];
        // What the context's rows are, each of keys and of values.
        let read = kv_heads * self.context.min(self.state.capacity) * HEAD_DIM * 2;
        let [results, result_ml] = self.partial_bytes();
        if !coalesced {
            let kernel = self.model.kernel("attention_strided", &constants, "attention_strided")?;
            self.recorder
                .dispatch(&kernel, [block_count, groups(heads, 1), 1])
                .bind("q", &queries)
                .bind("step", &self.state.step)
                .bind("keys", &state.keys)
                .bind("values", &state.values)
                .bind("partial", &partial)
                .bind("partial_ml", &partial_ml)
                .param("capacity", self.state.capacity)
                .param("scale", scale)
                .traffic("keys", read * (heads / kv_heads), 0)
                .traffic("values", read * (heads / kv_heads), 0)
                .traffic("partial", 0, results)
                .traffic("partial_ml", 0, result_ml)
                .label("attention.blocks");
            return Ok(());
        }
        let shape = self.shapes.attention;
        let most = if has(Optimisation::GqaPack) { shape.pack } else { 1 };
        let pack = [8, 4, 2, 1].into_iter().find(|&pack| pack <= most && (heads / kv_heads) % pack == 0);
        let pack = pack.unwrap_or(1);
        let fixed = has(Optimisation::FixedBlocks) && self.bucket >= FIXED_FROM;
        // The eight heads of a group are one operand of the tensor cores' product.
        let tensor = pack == 8
            && heads / kv_heads == 8
            && fused
            && has(Optimisation::TensorRows)
            && self.model.device.platform() == Platform::Cuda;
        let file = if tensor {
            constants.push(("SIMDGROUPS", 4));
            "attention_tensor"
        } else {
            constants.extend([
                ("PACK", pack as i64),
                ("POSITIONS", shape.positions as i64),
                ("SIMDGROUPS", shape.simdgroups as i64),
                ("FIXED", i64::from(fixed)),
                ("PREPARED", i64::from(!fused)),
            ]);
            "attention_step"
        };
        let kernel = self.model.kernel(file, &constants, "attention_step")?;
        let reads = heads / kv_heads / pack;
        let row = kv_heads * HEAD_DIM * 2;
        self.recorder
            .dispatch(&kernel, [block_count, groups(heads, pack), 1])
            .bind("q", &queries)
            .bind("k", &p.k)
            .bind("v", &p.v)
            .bind("q_gain", &w.q_norm)
            .bind("k_gain", &w.k_norm)
            .bind("rotary", &self.model.weights.rotary)
            .bind("step", &self.state.step)
            .bind("keys", &state.keys)
            .bind("values", &state.values)
            .bind("partial", &partial)
            .bind("partial_ml", &partial_ml)
            .param("capacity", self.state.capacity)
            .param("scale", scale)
            .param("eps", self.model.config.rms_norm_eps)
            .traffic("keys", read * reads, row)
            .traffic("values", read * reads, row)
            .traffic("partial", 0, results)
            .traffic("partial_ml", 0, result_ml)
            .label("attention.blocks");
        Ok(())
    }

    /// Norm and rotation of q and of the new key, and the new row of the cache, in launches of their own.
    fn prepare(&mut self, w: &AttentionWeights, state: &KvState, p: &Projections) -> Result<View, GpuError> {
        let config = &self.model.config.attention;
        let constants = [
            ("HEADS", config.heads as i64),
            ("KV_HEADS", config.kv_heads as i64),
            ("ROTARY", config.rotary_dim as i64),
        ];
        let kernel = |entry: &str| self.model.kernel("qk_step", &constants, entry);
        let (eps, capacity) = (self.model.config.rms_norm_eps, self.state.capacity);
        let row = config.kv_heads * HEAD_DIM * 2;
        let queries = self.t.parts.slice(0, config.heads * HEAD_DIM * 4);
        self.recorder
            .dispatch(&kernel("q_norm_rotary")?, [groups(config.heads, 1), 1, 1])
            .bind("q", &p.q)
            .bind("gain", &w.q_norm)
            .bind("rotary", &self.model.weights.rotary)
            .bind("step", &self.state.step)
            .bind("y", &queries)
            .param("capacity", capacity)
            .param("eps", eps)
            .label("attention.q_norm_rotary");
        self.recorder
            .dispatch(&kernel("k_norm_rotary")?, [groups(config.kv_heads, 1), 1, 1])
            .bind("k", &p.k)
            .bind("gain", &w.k_norm)
            .bind("rotary", &self.model.weights.rotary)
            .bind("step", &self.state.step)
            .bind("keys", &state.keys)
            .param("capacity", capacity)
            .param("eps", eps)
            .traffic("keys", 0, row)
            .label("attention.k_norm_rotary");
        self.recorder
            .dispatch(&kernel("v_write")?, [groups(config.kv_heads, 1), 1, 1])
            .bind("v", &p.v)
            .bind("step", &self.state.step)
            .bind("values", &state.values)
            .param("capacity", capacity)
            .param("eps", eps)
            .traffic("values", 0, row)
            .label("attention.v_write");
        Ok(queries)
    }

    /// The blocks joined, times the sigmoid of the gate.
    fn combine(&mut self, w: &AttentionWeights, p: &Projections, y: &View) -> Result<(), GpuError> {
        let heads = self.model.config.attention.heads;
        let (blocks, partial, partial_ml) = self.partials();
        let most = (blocks as usize).next_power_of_two().max(AttentionShape::MOST_BLOCKS);
        let constants =
            [("HEADS", heads as i64), ("BLOCK", self.block() as i64), ("MAX_BLOCKS", most as i64)];
        let kernel = self.model.kernel("attention_combine", &constants, "attention_combine")?;
        let ahead = self.ahead_of_out_proj(&w.out_proj);
        let [results, result_ml] = self.partial_bytes();
        self.recorder
            .dispatch(&kernel, [groups(heads, 1), 4, 1])
            .bind("partial", &partial)
            .bind("partial_ml", &partial_ml)
            .bind("q", &p.q)
            .bind("step", &self.state.step)
            .bind("next", &ahead.view)
            .bind("y", y)
            .param("ahead", ahead.words)
            .param("blocks", blocks)
            .traffic("next", 0, 0)
            .traffic("partial", results, 0)
            .traffic("partial_ml", result_ml, 0)
            .traffic("q", heads * HEAD_DIM * 4, 0)
            .label("attention.combine");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::Slot;

    #[test]
    fn the_partials_have_room_for_every_context() {
        for longest in [512, 1000, 4096, 5000, 8192, 40_000, 262_144] {
            let most = most_blocks(longest);
            for context in (1..=longest).step_by(97).chain([longest]) {
                let bucket = super::super::bucket(context);
                for wanted in Slot::Attention.alternatives() {
                    let blocks = bucket.div_ceil(block(bucket, wanted[0]));
                    assert!(blocks <= most, "{context} of {longest}: {blocks} blocks, room for {most}");
                }
            }
        }
    }
}
