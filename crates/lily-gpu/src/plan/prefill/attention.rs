//! The attention mixer of a chunk.

use super::{
    ChunkPass,
    products::{Into, Strided, parts},
};
use crate::{GpuError, KvState, View, weights::AttentionWeights};

impl ChunkPass<'_> {
    /// `residual += out_proj(mixer(norm(residual)))`; appends the chunk's keys and values.
    pub(super) fn attention(
        &mut self,
        norm: &View,
        w: &AttentionWeights,
        state: &KvState,
    ) -> Result<(), GpuError> {
        let (config, t, rows) = (&self.model.config, self.temporaries, self.chunk.rows);
        let (shape, hidden) = (&config.attention, config.hidden_size);
        let (heads, kv_heads, dim) = (shape.heads, shape.kv_heads, shape.head_dim);
        let (queries, wide) = (heads * dim, 2 * (heads + kv_heads) * dim);
        let permuted = self.routes.are_register_operands(&w.in_proj);
        self.norm(norm, permuted, "attention.norm")?;

        let (normed, projected) = (t.normed.of(rows), t.projected.of(rows).slice(0, 2 * wide * rows));
        let x = (Strided { view: &normed, ld: hidden }, permuted);
        for (first, matrix) in parts(&w.in_proj, 0..wide) {
            let y = projected.slice(2 * first, 2 * (wide * rows - first));
            self.product(x, &matrix, Strided { view: &y, ld: wide }, Into::Bf16, "attention.in_proj")?;
        }

        let shape_constants = [("HEADS", heads as i64), ("KV_HEADS", kv_heads as i64), ("HEAD", dim as i64)];
        let (kv_head, kv_row) = (self.capacity * dim, dim);
        let q = t.q.of(rows).slice(0, 2 * queries * rows);
        let mut constants = shape_constants.to_vec();
        constants.push(("ROTARY", shape.rotary_dim as i64));
        let kernel = self.model.kernel("qk_rows", &constants, "qk_rows")?;
        let written = 2 * rows * kv_heads * dim;
        self.recorder
            .dispatch(&kernel, [((heads + 2 * kv_heads) * rows).div_ceil(4) as u32, 1, 1])
            .bind("x", &projected)
            .traffic("x", 2 * (heads + 2 * kv_heads) * dim * rows, 0)
            .bind("q_gain", &w.q_norm)
            .bind("k_gain", &w.k_norm)
            .bind("turns", &self.model.weights.rotary)
            .bind("q", &q)
            .bind("keys", &state.keys)
            .traffic("keys", 0, written)
            .bind("values", &state.values)
            .traffic("values", 0, written)
            .param("rows", rows)
            .param("ldx", wide)
            .param("position", self.chunk.position)
            .param("kv_head", kv_head)
            .param("kv_row", kv_row)
            .param("eps", config.rms_norm_eps)
            .label("attention.qk");

        let out_permuted = self.routes.is_register_operand(&w.out_proj);
        let mut constants = shape_constants.to_vec();
        constants.push(("PERMUTED", i64::from(out_permuted)));
        let (file, block) = if self.routes.has_attention_override(dim) {
            ("attention_rows_wgmma", 128)
        } else {
            (self.routes.attention_file(dim), 32)
        };
        let kernel = self.model.kernel(file, &constants, "attention_rows")?;
        let mixed = t.mixed.of(rows).slice(0, 2 * queries * rows);
        let context = 2 * kv_heads * dim * (self.chunk.position + rows);
        self.recorder
            .dispatch(&kernel, [rows.div_ceil(block) as u32, heads as u32, 1])
            .bind("q", &q)
            .bind("keys", &state.keys)
            .traffic("keys", context, 0)
            .bind("values", &state.values)
            .traffic("values", context, 0)
            .bind("x", &projected)
            .traffic("x", 2 * queries * rows, 0)
            .bind("y", &mixed)
            .param("rows", rows)
            .param("ldx", wide)
            .param("position", self.chunk.position)
            .param("kv_head", kv_head)
            .param("kv_row", kv_row)
            .param("scale", (dim as f32).powf(-0.5))
            .label("attention.attend");

        let residual = t.residual.of(rows);
        self.product(
            (Strided { view: &mixed, ld: queries }, out_permuted),
            &w.out_proj,
            Strided { view: &residual, ld: hidden },
            Into::Residual,
            "attention.out_proj",
        )
    }
}
