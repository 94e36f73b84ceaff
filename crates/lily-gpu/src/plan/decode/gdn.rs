//! Gated DeltaNet, one token: projections in; everything up to the read-out; gated norm and projection out.

use super::{
    Step,
    gemv::{Around, gemv, gemv_group},
    groups,
};
use crate::{
    GdnState, GpuError, Optimisation, View,
    shapes::GdnShape,
    weights::{GdnWeights, LayerWeights},
};

/// Added to the squared length of q and k before the root.
const L2_EPS: f32 = 1e-6;

/// The parts of the input projections.
struct Projections {
    /// `[q | k | v]`.
    qkv: View,
    z: View,
    b: View,
    a: View,
}

impl Step<'_> {
    pub(super) fn gdn(
        &mut self,
        layer: &LayerWeights,
        w: &GdnWeights,
        state: &GdnState,
    ) -> Result<(), GpuError> {
        let t = self.t;
        let eps = self.model.config.rms_norm_eps;
        let norm = Around::Norm { gain: &layer.input_norm, eps };
        gemv_group(self, &w.in_proj, &t.x, &t.projections, &norm, "gdn.in_proj")?;
        let part = |at: usize| {
            let (from, to) = (w.in_proj.borders[at], w.in_proj.borders[at + 1]);
            t.projections.slice(from * 4, (to - from) * 4)
        };
        let p = Projections { qkv: part(0), z: part(1), b: part(2), a: part(3) };
        let values = w.out_proj.cols;
        let o = t.mixed.slice(0, values * 4);
        if self.model.switches.has(Optimisation::FuseGdn) {
            self.gdn_step(w, state, &p, &o)?;
            let head = self.model.config.gated_delta_net.value_head_dim;
            let ahead = self.ahead_of_router(layer, &w.out_proj);
            let gated = Around::Gated { z: &p.z, gain: &w.norm, head, eps, ahead: &ahead };
            gemv(self, &w.out_proj, &o, &t.x, &gated, "gdn.out_proj")
        } else {
            let y = self.gdn_parts(w, state, &p, &o)?;
            let ahead = self.ahead_of_router(layer, &w.out_proj);
            gemv(self, &w.out_proj, &y, &t.x, &Around::Add { ahead: &ahead }, "gdn.out_proj")
        }
    }

    fn dims(&self) -> [(&'static str, i64); 5] {
        let gdn = &self.model.config.gated_delta_net;
        [
            ("KEY_HEADS", gdn.key_heads as i64),
            ("VALUE_HEADS", gdn.value_heads as i64),
            ("KEY_DIM", gdn.key_head_dim as i64),
            ("VALUE_DIM", gdn.value_head_dim as i64),
            ("TAPS", gdn.conv_width as i64),
        ]
    }

    /// "fuse-gdn": convolution, gates, state step and read-out in one launch.
    fn gdn_step(
        &mut self,
        w: &GdnWeights,
        state: &GdnState,
        p: &Projections,
        o: &View,
    ) -> Result<(), GpuError> {
        let gdn = &self.model.config.gated_delta_net;
        let (mut constants, GdnShape { simdgroups, columns }) = (self.dims().to_vec(), self.shapes.gdn);
        constants.extend([("SIMDGROUPS", simdgroups as i64), ("COLUMNS", columns as i64)]);
        let kernel = self.model.kernel("gdn_step", &constants, "gdn_step")?;
        let ahead = self.ahead_of_out_proj(&w.out_proj);
        let grid = [groups(gdn.value_head_dim, simdgroups * columns), groups(gdn.value_heads, 1), 1];
        self.recorder
            .dispatch(&kernel, grid)
            .bind("qkv", &p.qkv)
            .bind("a", &p.a)
            .bind("b", &p.b)
            .bind("conv", &w.conv)
            .bind("a_log", &w.a_log)
            .bind("dt_bias", &w.dt_bias)
            .bind("step", &self.state.step)
            .bind("next", &ahead.view)
            .bind("ring", &state.window)
            .bind("state", &state.memory)
            .bind("o", o)
            .param("eps", L2_EPS)
            .param("ahead", ahead.words)
            .traffic("next", 0, 0)
            .label("gdn.step");
        Ok(())
    }

    /// The same in launches of their own, up to and including the gated norm.
    fn gdn_parts(
        &mut self,
        w: &GdnWeights,
        state: &GdnState,
        p: &Projections,
        o: &View,
    ) -> Result<View, GpuError> {
        let gdn = &self.model.config.gated_delta_net;
        let constants = self.dims();
        let channels = p.qkv.bytes() / 4;
        let t = self.t;
        let u = t.parts.slice(0, channels * 4);
        let gates = t.parts.slice(channels * 4, 2 * gdn.value_heads * 4);
        // The input of the output projection takes the place of the convolution's result.
        let y = t.projections.slice(0, o.bytes());
        let kernel = |entry: &str| self.model.kernel("gdn_parts", &constants, entry);
        self.recorder
            .dispatch(&kernel("gdn_conv_step")?, [groups(channels, 256), 1, 1])
            .bind("qkv", &p.qkv)
            .bind("conv", &w.conv)
            .bind("step", &self.state.step)
            .bind("ring", &state.window)
            .bind("u", &u)
            .label("gdn.conv");
        self.recorder
            .dispatch(&kernel("gdn_gates")?, [1, 1, 1])
            .bind("a", &p.a)
            .bind("b", &p.b)
            .bind("a_log", &w.a_log)
            .bind("dt_bias", &w.dt_bias)
            .bind("gates", &gates)
            .label("gdn.gates");
        self.recorder
            .dispatch(&kernel("gdn_qk_norm")?, [groups(2 * gdn.key_heads, 1), 1, 1])
            .bind("u", &u)
            .param("eps", L2_EPS)
            .label("gdn.qk_norm");
        let grid = [groups(gdn.value_head_dim, 4), groups(gdn.value_heads, 1), 1];
        self.recorder
            .dispatch(&kernel("gdn_state_step")?, grid)
            .bind("u", &u)
            .bind("gates", &gates)
            .bind("state", &state.memory)
            .bind("o", o)
            .label("gdn.state_step");
        self.recorder
            .dispatch(&kernel("gdn_gated_norm")?, [groups(gdn.value_heads, 1), 1, 1])
            .bind("o", o)
            .bind("z", &p.z)
            .bind("gain", &w.norm)
            .bind("y", &y)
            .param("eps", self.model.config.rms_norm_eps)
            .label("gdn.gated_norm");
        Ok(y)
    }
}
