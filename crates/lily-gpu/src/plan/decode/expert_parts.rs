//! The mixture of experts in launches of their own: what "fuse-expert-in" and "fuse-expert-out" fold together.

use super::{
    Step, format_constants,
    gemv::{Around, gemv},
    groups,
};
use crate::{
    GpuError, Kernel, View,
    shapes::RowShape,
    weights::{LayerWeights, MatrixView},
};

/// Launch shape of the products.
const SHAPE: RowShape = RowShape { rows: 4, simdgroups: 4, split: 1, waves: 0 };

impl Step<'_> {
    /// The router's choice, the normed row, gate, up, and their activation.
    pub(super) fn gate_and_up(&mut self, layer: &LayerWeights) -> Result<(), GpuError> {
        let (t, config) = (self.t, &self.model.config);
        let (moe, hidden) = (&config.moe, config.hidden_size);
        let chosen = moe.experts_per_token * moe.inner;
        let (gate, up) = (t.expert_parts.slice(0, chosen * 4), t.expert_parts.slice(chosen * 4, chosen * 4));
        let normed = self.results(1);
        let experts = &layer.moe.experts;

        let kernel = self.expert_kernel(&experts.gate, "top_experts")?;
        self.recorder
            .dispatch(&kernel, [1, 1, 1])
            .bind("logits", &t.router)
            .bind("routes", &t.routes)
            .label("moe.top_experts");
        let kernel = self.model.kernel("rms_norm_row", &[("K", hidden as i64)], "rms_norm_row")?;
        self.recorder
            .dispatch(&kernel, [1, 1, 1])
            .bind("x", &t.x)
            .bind("gain", &layer.post_norm)
            .bind("y", &normed)
            .param("eps", config.rms_norm_eps)
            .label("moe.norm");
        self.expert_rows(&experts.gate, moe.inner, (&normed, 0), &gate, "moe.gate")?;
        self.expert_rows(&experts.up, moe.inner, (&normed, 0), &up, "moe.up")?;
        let kernel = self.expert_kernel(&experts.gate, "silu_product")?;
        self.recorder
            .dispatch(&kernel, [groups(chosen, 256), 1, 1])
            .bind("gate", &gate)
            .bind("up", &up)
            .bind("h", &t.inner.slice(0, chosen * 4))
            .param("length", chosen)
            .label("moe.activation");
        Ok(())
    }

    /// The output projections of the chosen experts and of the shared one, and their weighted sum.
    pub(super) fn down_and_mix(&mut self, layer: &LayerWeights) -> Result<(), GpuError> {
        let (t, config) = (self.t, &self.model.config);
        let (moe, hidden) = (&config.moe, config.hidden_size);
        let chosen = moe.experts_per_token * moe.inner;
        let (shared, down) = (self.results(1), self.results(moe.experts_per_token));
        let experts = &layer.moe.experts;
        let inner = t.inner.slice(0, chosen * 4);
        self.expert_rows(&experts.down, hidden, (&inner, moe.inner), &down, "moe.down")?;
        let shared_inner = t.inner.slice(chosen * 4, moe.shared_inner * 4);
        gemv(self, &layer.moe.shared_down, &shared_inner, &shared, &Around::Nothing, "moe.shared_down")?;
        let kernel = self.expert_kernel(&experts.down, "mix_experts")?;
        self.recorder
            .dispatch(&kernel, [groups(hidden, 256), 1, 1])
            .bind("down", &down)
            .bind("shared", &shared)
            .bind("routes", &t.routes)
            .bind("y", &t.x)
            .param("length", hidden)
            .label("moe.mix");
        Ok(())
    }

    /// One row of `[hidden]`, or one for each chosen expert behind it, after the inner results.
    fn results(&self, rows: usize) -> View {
        let (moe, row) = (&self.model.config.moe, self.model.config.hidden_size * 4);
        let inner = 2 * (moe.experts_per_token * moe.inner + moe.shared_inner) * 4;
        let first = if rows == 1 { 0 } else { row };
        self.t.expert_parts.slice(inner + first, rows * row)
    }

    /// `y[slot] = W[e] x[slot]`; rows of x are `stride` apart.
    fn expert_rows(
        &mut self,
        w: &MatrixView,
        rows: usize,
        (x, stride): (&View, usize),
        y: &View,
        label: &'static str,
    ) -> Result<(), GpuError> {
        let kernel = self.expert_kernel(w, "expert_rows")?;
        let per_token = self.model.config.moe.experts_per_token;
        let chosen = per_token * rows;
        let (codes, scales) = (chosen * w.format.code_bytes(w.cols), chosen * w.format.scale_bytes(w.cols));
        self.recorder
            .dispatch(&kernel, [groups(rows, SHAPE.tile(w.cols)), groups(per_token, 1), 1])
            .bind("w", &w.codes)
            .bind("scales", &w.scales)
            .bind("biases", &w.biases)
            .bind("x", x)
            .bind("routes", &self.t.routes)
            .bind("y", y)
            .param("rows", rows)
            .param("stride", stride)
            .traffic("w", codes, 0)
            .traffic("scales", scales, 0)
            .traffic("biases", scales, 0)
            .label(label);
        Ok(())
    }

    fn expert_kernel(&self, w: &MatrixView, entry: &str) -> Result<Kernel, GpuError> {
        let moe = &self.model.config.moe;
        let mut constants = vec![
            ("K", w.cols as i64),
            ("EXPERTS", moe.experts as i64),
            ("TOPK", moe.experts_per_token as i64),
            ("RENORMALISE", i64::from(moe.norm_topk_prob)),
            ("ROWS", SHAPE.rows as i64),
            ("SIMDGROUPS", SHAPE.simdgroups as i64),
        ];
        constants.extend(format_constants(w.format));
        self.model.kernel("expert_parts", &constants, entry)
    }
}
