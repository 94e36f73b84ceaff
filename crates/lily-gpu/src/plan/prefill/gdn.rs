//! The Gated DeltaNet mixer of a chunk.

use super::{
    ChunkPass,
    products::{Into, Strided, parts},
    temporaries::SCAN_BLOCK,
};
use crate::{GdnState, GpuError, View, shapes::ScanShape, weights::GdnWeights};

/// Epsilon of the L2 norms of q and k.
const L2_EPS: f32 = 1e-6;
/// Channels of one threadgroup of the convolution, and its rows.
const CONV_TILE: (usize, usize) = (1024, 16);
/// Blocks of value columns that the matrix form's threadgroups take.
const SCAN_COLUMN_BLOCKS: u32 = 4;

impl ChunkPass<'_> {
    /// `residual += out_proj(mixer(norm(residual)))`; moves the state on.
    pub(super) fn gated_delta_net(
        &mut self,
        norm: &View,
        w: &GdnWeights,
        state: &GdnState,
    ) -> Result<(), GpuError> {
        let (config, t, rows) = (&self.model.config, self.temporaries, self.chunk.rows);
        let gdn = &config.gated_delta_net;
        let (keys, values) = (gdn.key_heads * gdn.key_head_dim, gdn.value_heads * gdn.value_head_dim);
        let (hidden, channels) = (config.hidden_size, 2 * keys + values);
        let permuted = self.routes.are_register_operands(&w.in_proj);
        self.norm(norm, permuted, "gdn.norm")?;

        // [q | k | v | z] as bf16 rows, [b | a] as f32 rows.
        let wide = channels + values;
        let (normed, projected, gates) = (t.normed.of(rows), t.projected.of(rows), t.gates.of(rows));
        let x = (Strided { view: &normed, ld: hidden }, permuted);
        for (first, matrix) in parts(&w.in_proj, 0..wide) {
            let y = projected.slice(2 * first, 2 * (wide * rows - first));
            self.product(x, &matrix, Strided { view: &y, ld: wide }, Into::Bf16, "gdn.in_proj")?;
        }
        let heads = 2 * gdn.value_heads;
        for (first, matrix) in parts(&w.in_proj, wide..wide + heads) {
            let y = gates.slice(4 * first, 4 * (heads * rows - first));
            self.product(x, &matrix, Strided { view: &y, ld: heads }, Into::F32, "gdn.gates")?;
        }
        let projected = projected.slice(0, 2 * wide * rows);
        self.convolve(w, state, &projected, (keys, values))?;
        if self.routes.has_matrix_form(rows) {
            self.scan_in_matrix_form(w, state)?;
        } else {
            self.scan(w, state)?;
        }
        let out_permuted = self.routes.is_register_operand(&w.out_proj);
        self.gated_norm(w, &projected, (channels, wide), out_permuted)?;
        let (mixed, residual) = (t.mixed.of(rows), t.residual.of(rows));
        let mixed = mixed.slice(0, 2 * values * rows);
        self.product(
            (Strided { view: &mixed, ld: values }, out_permuted),
            &w.out_proj,
            Strided { view: &residual, ld: hidden },
            Into::Residual,
            "gdn.out_proj",
        )
    }

    /// Convolution, SiLU and the L2 norms; then the window that the next chunk reads.
    fn convolve(
        &mut self,
        w: &GdnWeights,
        state: &GdnState,
        projected: &View,
        (keys, values): (usize, usize),
    ) -> Result<(), GpuError> {
        let (t, rows, position) = (self.temporaries, self.chunk.rows, self.chunk.position);
        let (channels, wide) = (2 * keys + values, 2 * keys + 2 * values);
        let q_scale = (self.model.config.gated_delta_net.key_head_dim as f32).powf(-0.5);
        let constants = [("KEYS", keys as i64), ("VALUES", values as i64)];
        let kernel = self.model.kernel("conv_rows", &constants, "conv_rows")?;
        let across = channels.div_ceil(CONV_TILE.0) as u32;
        self.recorder
            .dispatch(&kernel, [across, rows.div_ceil(CONV_TILE.1) as u32, 1])
            .bind("x", projected)
            .bind("taps", &w.conv)
            .bind("window", &state.window)
            .bind("q", &t.q.of(rows).slice(0, 2 * keys * rows))
            .bind("k", &t.k.of(rows))
            .bind("v", &t.v.of(rows))
            .param("rows", rows)
            .param("ldx", wide)
            .param("position", position)
            .param("q_scale", q_scale)
            .param("eps", L2_EPS)
            .label("gdn.conv");
        let kernel = self.model.kernel("conv_rows", &constants, "conv_window")?;
        self.recorder
            .dispatch(&kernel, [across, 4, 1])
            .bind("x", projected)
            .traffic("x", 2 * channels * rows.min(4), 0)
            .bind("window", &state.window)
            .param("rows", rows)
            .param("ldx", wide)
            .param("position", position)
            .param("q_scale", q_scale)
            .param("eps", L2_EPS)
            .label("gdn.window");
        Ok(())
    }

    /// Gates, recurrence and read-out, state in registers (or, switched off, in device memory between rows).
    fn scan(&mut self, w: &GdnWeights, state: &GdnState) -> Result<(), GpuError> {
        let (t, rows) = (self.temporaries, self.chunk.rows);
        let gdn = &self.model.config.gated_delta_net;
        let ScanShape { lanes, simdgroups } = self.model.shapes().scan;
        let in_registers = self.routes.keeps_state();
        let constants = [
            ("KEY_HEADS", gdn.key_heads as i64),
            ("VALUE_HEADS", gdn.value_heads as i64),
            ("LPC", lanes as i64),
            ("NSG", simdgroups as i64),
            ("REGISTERS", i64::from(in_registers)),
        ];
        let kernel = self.model.kernel("gdn_scan", &constants, "gdn_scan")?;
        let columns = simdgroups * 32 / lanes;
        self.recorder
            .dispatch(&kernel, [(gdn.value_head_dim / columns) as u32, gdn.value_heads as u32, 1])
            .bind("q", &t.q.of(rows).slice(0, 2 * rows * gdn.key_heads * gdn.key_head_dim))
            .bind("k", &t.k.of(rows))
            .bind("v", &t.v.of(rows))
            .bind("gates", &t.gates.of(rows))
            .bind("a_log", &w.a_log)
            .bind("dt_bias", &w.dt_bias)
            .bind("state", &state.memory)
            .bind("o", &t.read_out.of(rows))
            .param("rows", rows)
            .param("ldg", 2 * gdn.value_heads)
            .label("gdn.scan");
        Ok(())
    }

    /// The same for 64 rows at a time: what does not depend on the state first, for all blocks at once.
    fn scan_in_matrix_form(&mut self, w: &GdnWeights, state: &GdnState) -> Result<(), GpuError> {
        let (t, rows) = (self.temporaries, self.chunk.rows);
        let gdn = &self.model.config.gated_delta_net;
        let constants = [("KEY_HEADS", gdn.key_heads as i64), ("VALUE_HEADS", gdn.value_heads as i64)];
        let blocks = rows.div_ceil(SCAN_BLOCK);
        let q = t.q.of(rows).slice(0, 2 * rows * gdn.key_heads * gdn.key_head_dim);
        let [w_rows, u_rows, kt_rows, m_rows] = t.matrix_form.each_ref().map(|part| part.of(blocks));
        let gamma = t.gamma.of(blocks);
        let kernel = self.model.kernel("gdn_chunk_prepare", &constants, "gdn_chunk_prepare")?;
        self.recorder
            .dispatch(&kernel, [blocks as u32, gdn.value_heads as u32, 1])
            .bind("q", &q)
            .bind("k", &t.k.of(rows))
            .bind("v", &t.v.of(rows))
            .bind("gates", &t.gates.of(rows))
            .bind("a_log", &w.a_log)
            .bind("dt_bias", &w.dt_bias)
            .bind("w", &w_rows)
            .bind("u", &u_rows)
            .bind("m", &m_rows)
            .bind("kt", &kt_rows)
            .bind("gamma", &gamma)
            .param("rows", rows)
            .param("ldg", 2 * gdn.value_heads)
            .label("gdn.prepare");
        let kernel = self.model.kernel("gdn_chunk_scan", &constants, "gdn_chunk_scan")?;
        self.recorder
            .dispatch(&kernel, [SCAN_COLUMN_BLOCKS, gdn.value_heads as u32, 1])
            .bind("q", &q)
            .bind("w", &w_rows)
            .bind("u", &u_rows)
            .bind("m", &m_rows)
            .bind("kt", &kt_rows)
            .bind("gamma", &gamma)
            .bind("state", &state.memory)
            .bind("o", &t.read_out.of(rows))
            .param("rows", rows)
            .label("gdn.scan");
        Ok(())
    }

    fn gated_norm(
        &mut self,
        w: &GdnWeights,
        projected: &View,
        (channels, wide): (usize, usize),
        permuted: bool,
    ) -> Result<(), GpuError> {
        let (config, t, rows) = (&self.model.config, self.temporaries, self.chunk.rows);
        let heads = config.gated_delta_net.value_heads;
        let values = heads * config.gated_delta_net.value_head_dim;
        let constants = [("HEADS", heads as i64), ("PERMUTED", i64::from(permuted))];
        let kernel = self.model.kernel("gated_norm_rows", &constants, "gated_norm_rows")?;
        let z = projected.slice(2 * channels, projected.bytes() - 2 * channels);
        self.recorder
            .dispatch(&kernel, [(heads * rows).div_ceil(16) as u32, 1, 1])
            .bind("o", &t.read_out.of(rows))
            .bind("z", &z)
            .traffic("z", 2 * values * rows, 0)
            .bind("gain", &w.norm)
            .bind("y", &t.mixed.of(rows).slice(0, 2 * values * rows))
            .param("rows", rows)
            .param("ldz", wide)
            .param("eps", config.rms_norm_eps)
            .label("gdn.gated_norm");
        Ok(())
    }
}
