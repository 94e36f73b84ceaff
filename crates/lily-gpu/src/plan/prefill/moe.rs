//! The mixture of experts of a chunk: routing, grouped products, and the way back to token order.

use super::{
    ChunkPass,
    products::{Into, Strided, format_constants, parts},
    temporaries::ROUTE_ROWS,
};
use crate::{
    GpuError, View,
    weights::{MatrixGroup, MatrixView, MoeWeights},
};

use std::ops::Range;

/// Most rows per tile of the grouped products on `wgmma`: of many rows, and of few. With the smaller tile three
/// threadgroups fit on an SM instead of two, which hides more of the weights' way from memory.
const WGMMA_TILES: (usize, usize) = (128, 32);
/// The smaller one serves up to so many rows per expert (on average), and so many of the shared expert.
const FEW_ROWS: (usize, usize) = (24, 1024);

/// How the grouped products of a layer are launched.
#[derive(Clone, Copy)]
pub(super) struct Grouped {
    permuted: bool,
    /// Rows per tile, at most.
    pub(super) tile: usize,
    /// Entries of the tile map.
    pub(super) tiles: usize,
}

/// The tiles of an expert's rows, as `route_scan` cuts them: no more than needed, of about equal size, multiples of 16.
pub(super) fn tiles_of(rows: usize, tile: usize) -> Vec<Range<usize>> {
    let least = rows.div_ceil(tile).max(1);
    let size = rows.div_ceil(least).next_multiple_of(16).max(16);
    (0..rows).step_by(size).map(|first| first..rows.min(first + size)).collect()
}

impl ChunkPass<'_> {
    /// Everything of `residual += moe(norm(residual))` that does not depend on the choice of experts: router logits, and
    /// the shared expert's share. Answers how the routed experts' products will be launched.
    pub(super) fn before_routing(&mut self, norm: &View, w: &MoeWeights) -> Result<Grouped, GpuError> {
        let (moe, rows) = (&self.model.config.moe, self.chunk.rows);
        let permuted = self.routes.moe_has_register_operands(w);
        self.norm(norm, permuted, "moe.norm")?;
        self.router(norm, &w.router)?;
        self.shared_expert(w, permuted)?;
        let slots = rows * moe.experts_per_token;
        let per_expert = slots.div_ceil(moe.experts);
        let tile = if permuted {
            self.wgmma_tile(per_expert <= FEW_ROWS.0)
        } else {
            self.routes.portable_tile(per_expert)
        };
        Ok(Grouped { permuted, tile, tiles: slots.div_ceil(tile) + moe.experts })
    }

    /// The routed experts' share, from the lists that the routing left.
    pub(super) fn after_routing(&mut self, w: &MoeWeights, grouped: Grouped) -> Result<(), GpuError> {
        self.experts(w, grouped)?;
        self.combine()
    }

    /// Router logits and the shared expert's gate, from the residual rows in f32.
    fn router(&mut self, gain: &View, router: &MatrixGroup) -> Result<(), GpuError> {
        let (t, rows) = (self.temporaries, self.chunk.rows);
        let logits = t.router.of(rows);
        for (first, matrix) in parts(router, 0..router.rows) {
            let mut constants = vec![("K", matrix.cols as i64)];
            constants.extend(format_constants(matrix.format));
            let kernel = self.model.kernel("router", &constants, "router_logits")?;
            self.recorder
                .dispatch(&kernel, [matrix.rows.div_ceil(64) as u32, rows.div_ceil(32) as u32, 1])
                .bind("x", &t.residual.of(rows))
                .bind("gain", gain)
                .bind("scale", &t.scale.of(rows))
                .bind("w", &matrix.codes)
                .bind("scales", &matrix.scales)
                .bind("biases", &matrix.biases)
                .bind("logits", &logits.slice(4 * first, logits.bytes() - 4 * first))
                .param("rows", rows)
                .param("n", matrix.rows)
                .param("ld", router.rows)
                .label("moe.router");
        }
        Ok(())
    }

    /// `residual += sigmoid(gate) down(silu(gate_proj x) * up_proj x)`.
    fn shared_expert(&mut self, w: &MoeWeights, permuted: bool) -> Result<(), GpuError> {
        let (config, t, rows) = (&self.model.config, self.temporaries, self.chunk.rows);
        let inner = config.moe.shared_inner;
        let (gate, up) = (parts(&w.shared_in, 0..inner), parts(&w.shared_in, inner..2 * inner));
        let ([(_, gate)], [(_, up)]) = (gate.as_slice(), up.as_slice()) else {
            return Err(mixed_formats("shared_expert.gate_proj and up_proj"));
        };
        let tile =
            if permuted { self.wgmma_tile(rows <= FEW_ROWS.1) } else { self.routes.portable_tile(rows) };
        let grouped = Grouped { permuted, tile, tiles: rows.div_ceil(tile) };
        // Neither a token list nor a tile map is read: something that no launch writes is bound in their places.
        let nothing = t.tokens.slice(0, 4 * rows);
        let shared = t.shared.of(rows);
        self.gate_up((gate, up), (&nothing, &nothing), &shared, grouped, false)?;
        let (router, residual) = (t.router.of(rows), t.residual.of(rows));
        let share = router.slice(4 * config.moe.experts, router.bytes() - 4 * config.moe.experts);
        self.product(
            (Strided { view: &shared, ld: inner }, permuted),
            &w.shared_down,
            Strided { view: &residual, ld: config.hidden_size },
            Into::Gated { gate: &share, ld: config.moe.experts + 1 },
            "moe.shared_down",
        )
    }

    /// `silu(gate x) * (up x)` of one expert bank.
    fn gate_up(
        &mut self,
        (gate, up): (&MatrixView, &MatrixView),
        (token, tile_map): (&View, &View),
        h: &View,
        grouped: Grouped,
        routed: bool,
    ) -> Result<(), GpuError> {
        if gate.format != up.format {
            return Err(mixed_formats("gate_proj and up_proj"));
        }
        let (gate, up) = (&self.multiplied(gate, 0)?, &self.multiplied(up, 1)?);
        let (moe, t, rows) = (&self.model.config.moe, self.temporaries, self.chunk.rows);
        let (outputs, slots) =
            if routed { (moe.inner, rows * moe.experts_per_token) } else { (moe.shared_inner, rows) };
        let kernel = self.grouped_kernel((gate, outputs), grouped, routed, "expert_gate_up")?;
        let share = if routed { grouped_share(rows, moe.experts_per_token, moe.experts) } else { 1.0 };
        let read = |view: &View| (view.bytes() as f64 * share) as usize;
        self.recorder
            .dispatch(&kernel, [outputs.div_ceil(64) as u32, grouped.tiles as u32, 1])
            .bind("x", &t.normed.of(rows))
            .bind("token", token)
            .bind("tile_map", tile_map)
            .bind("wg", &gate.codes)
            .traffic("wg", read(&gate.codes), 0)
            .bind("gate_scales", &gate.scales)
            .traffic("gate_scales", read(&gate.scales), 0)
            .bind("gate_biases", &gate.biases)
            .traffic("gate_biases", read(&gate.biases), 0)
            .bind("wu", &up.codes)
            .traffic("wu", read(&up.codes), 0)
            .bind("up_scales", &up.scales)
            .traffic("up_scales", read(&up.scales), 0)
            .bind("up_biases", &up.biases)
            .traffic("up_biases", read(&up.biases), 0)
            .bind("h", h)
            .param("rows", rows)
            .operations(4 * (slots * outputs * gate.cols) as u64)
            .label(if routed { "moe.gate_up" } else { "moe.shared_gate_up" });
        Ok(())
    }

    fn wgmma_tile(&self, few_rows: bool) -> usize {
        if few_rows && self.routes.adapts_tiles() { WGMMA_TILES.1 } else { WGMMA_TILES.0 }
    }

    /// A grouped product's kernel: of the Hopper file, or portable in the matrix' format.
    fn grouped_kernel(
        &self,
        (matrix, outputs): (&MatrixView, usize),
        grouped: Grouped,
        routed: bool,
        entry: &str,
    ) -> Result<crate::Kernel, GpuError> {
        let moe = &self.model.config.moe;
        let mut constants = vec![
            ("K", matrix.cols as i64),
            ("OUTPUTS", outputs as i64),
            ("ROUTED", i64::from(routed)),
            ("EXPERTS", moe.experts as i64),
            ("TOP_K", moe.experts_per_token as i64),
        ];
        if grouped.permuted {
            let resident = if grouped.tile == WGMMA_TILES.1 { 3 } else { 2 };
            constants.extend([
                ("ADAPTIVE", i64::from(self.routes.adapts_tiles())),
                ("LIMIT", grouped.tile as i64),
                ("SHARED", 768 * grouped.tile as i64),
                ("KD_RESIDENT", resident),
            ]);
            return self.model.kernel("expert_gemm_wgmma", &constants, entry);
        }
        constants.push(("BM", grouped.tile as i64));
        constants.extend(format_constants(matrix.format));
        self.model.kernel(self.routes.file("expert_gemm"), &constants, entry)
    }

    /// Logits to sorted rows, tile map and places, all on the device.
    pub(super) fn route(&mut self, grouped: Grouped) -> Result<(), GpuError> {
        let (moe, t, rows) = (&self.model.config.moe, self.temporaries, self.chunk.rows);
        let (slots, blocks) = (rows * moe.experts_per_token, rows.div_ceil(ROUTE_ROWS));
        let constants = [
            ("EXPERTS", moe.experts as i64),
            ("TOP_K", moe.experts_per_token as i64),
            ("RENORMALISE", i64::from(moe.norm_topk_prob)),
            ("TILE", grouped.tile as i64),
        ];
        let (ids, weights) = (t.ids.of(rows), t.weights.of(rows));
        let (counts, offsets) = (t.counts.of(blocks), t.offsets.of(blocks));
        let mut step = |entry: &str, label: &'static str, groups: usize, buffers: &[(&str, &View)]| {
            let kernel = self.model.kernel("route", &constants, entry)?;
            let mut dispatch = self.recorder.dispatch(&kernel, [groups as u32, 1, 1]);
            for (name, view) in buffers {
                dispatch = dispatch.bind(name, view);
            }
            let dispatch = dispatch.param("rows", rows).param("ld", moe.experts + 1);
            drop(dispatch.param("blocks", blocks).param("tiles", grouped.tiles).label(label));
            Ok::<(), GpuError>(())
        };
        let (logits, tile_map) = (t.router.of(rows), t.tile_map.of(grouped.tiles));
        let choice = [("logits", &logits), ("ids", &ids), ("weights", &weights)];
        step("route_top_k", "moe.top_k", rows.div_ceil(4), &choice)?;
        step("route_count", "moe.count", blocks, &[("ids", &ids), ("counts", &counts)])?;
        let scan = [("counts", &counts), ("offsets", &offsets), ("tile_map", &tile_map)];
        step("route_scan", "moe.scan", 1, &scan)?;
        let (token, weight, place) = (t.token.of(slots), t.weight.of(slots), t.place.of(slots));
        let scatter = [
            ("ids", &ids),
            ("weights", &weights),
            ("offsets", &offsets),
            ("token", &token),
            ("weight", &weight),
            ("place", &place),
        ];
        step("route_scatter", "moe.scatter", blocks, &scatter)
    }

    /// Both grouped products.
    fn experts(&mut self, w: &MoeWeights, grouped: Grouped) -> Result<(), GpuError> {
        let (config, t, rows) = (&self.model.config, self.temporaries, self.chunk.rows);
        let moe = &config.moe;
        let slots = rows * moe.experts_per_token;
        let (token, tile_map) = (t.token.of(slots), t.tile_map.of(grouped.tiles));
        let h = t.inner.of(slots);
        self.gate_up((&w.experts.gate, &w.experts.up), (&token, &tile_map), &h, grouped, true)?;
        let down = &self.multiplied(&w.experts.down, 0)?;
        let kernel = self.grouped_kernel((down, config.hidden_size), grouped, true, "expert_down")?;
        let outputs = if grouped.permuted { 128 } else { 64 };
        let share = grouped_share(rows, moe.experts_per_token, moe.experts);
        let read = |view: &View| (view.bytes() as f64 * share) as usize;
        self.recorder
            .dispatch(&kernel, [config.hidden_size.div_ceil(outputs) as u32, grouped.tiles as u32, 1])
            .bind("h", &h)
            .bind("weight", &t.weight.of(slots))
            .bind("tile_map", &tile_map)
            .bind("w", &down.codes)
            .traffic("w", read(&down.codes), 0)
            .bind("scales", &down.scales)
            .traffic("scales", read(&down.scales), 0)
            .bind("biases", &down.biases)
            .traffic("biases", read(&down.biases), 0)
            .bind("y", &t.outer.of(slots))
            .param("rows", rows)
            .operations(2 * (slots * config.hidden_size * down.cols) as u64)
            .label("moe.down");
        Ok(())
    }

    fn combine(&mut self) -> Result<(), GpuError> {
        let (config, t, rows) = (&self.model.config, self.temporaries, self.chunk.rows);
        let slots = rows * config.moe.experts_per_token;
        let constants = [("DIM", config.hidden_size as i64), ("TOP_K", config.moe.experts_per_token as i64)];
        let kernel = self.model.kernel("combine_experts", &constants, "combine_experts")?;
        self.recorder
            .dispatch(&kernel, [rows as u32, 1, 1])
            .bind("y", &t.outer.of(slots))
            .bind("place", &t.place.of(slots))
            .bind("x", &t.residual.of(rows))
            .param("rows", rows)
            .label("moe.combine");
        Ok(())
    }
}

/// The share of the experts that so many slots reach, if they go anywhere alike.
fn grouped_share(rows: usize, per_token: usize, experts: usize) -> f64 {
    let missed = (1.0 - per_token as f64 / experts as f64).powi(rows.min(1 << 20) as i32);
    1.0 - missed
}

fn mixed_formats(name: &str) -> GpuError {
    GpuError::Unsupported {
        name: name.to_owned(),
        what: "they are stored in different ways; one launch reads both".to_owned(),
    }
}
