//! The mixture of experts, one token: router and shared expert; the chosen experts' inner activations; everything out.

use super::{Step, format_constants, groups, scale_constant};
use crate::{
    GpuError, Optimisation,
    shapes::side,
    weights::{LayerWeights, MatrixView},
};

impl Step<'_> {
    pub(super) fn moe(&mut self, layer: &LayerWeights) -> Result<(), GpuError> {
        let moe = &layer.moe;
        let single = |name: &str, matrix: Option<&MatrixView>| {
            matrix.cloned().ok_or_else(|| GpuError::Unsupported {
                name: name.to_owned(),
                what: "its matrices are stored in different formats".to_owned(),
            })
        };
        let router = single("the router and the shared expert's gate", moe.router.single())?;
        let shared_in = single("the shared expert's gate and up projections", moe.shared_in.single())?;
        let has = |one| self.model.switches.has(one);
        let (fused_in, fused_out) = (has(Optimisation::FuseExpertIn), has(Optimisation::FuseExpertOut));
        self.router_shared(layer, &router, &shared_in)?;
        if fused_in {
            self.expert_gate_up(layer)?;
        } else {
            self.gate_and_up(layer)?;
        }
        if fused_out { self.expert_down(layer) } else { self.down_and_mix(layer) }
    }

    fn router_shared(
        &mut self,
        layer: &LayerWeights,
        router: &MatrixView,
        shared_in: &MatrixView,
    ) -> Result<(), GpuError> {
        let (t, config) = (self.t, &self.model.config);
        let (moe, hidden) = (&config.moe, config.hidden_size);
        let shape = self.shapes.router.for_width(hidden);
        let [(_, bits), (_, group), (_, scale)] = format_constants(shared_in.format);
        let [(_, router_bits), (_, router_group), _] = format_constants(router.format);
        if scale_constant(router.format) != scale {
            return Err(GpuError::Unsupported {
                name: "the router beside the shared expert".to_owned(),
                what: format!("{} beside {}", router.format, shared_in.format),
            });
        }
        let constants = [
            ("K", hidden as i64),
            ("ROUTER_BITS", router_bits),
            ("ROUTER_GROUP", router_group),
            ("BITS", bits),
            ("GROUP", group),
            ("SCALE", scale),
            ("ROWS", shape.rows as i64),
            ("SIMDGROUPS", shape.simdgroups as i64),
            ("SPLIT", shape.split as i64),
        ];
        let kernel = self.model.kernel("router_shared", &constants, "router_shared")?;
        let ahead = self.ahead_of_next(false, router);
        let (gate, up) =
            (shared_in.rows(0..moe.shared_inner), shared_in.rows(moe.shared_inner..2 * moe.shared_inner));
        let router_groups = groups(router.rows, shape.tile(hidden));
        let inner_groups = groups(moe.shared_inner, shape.tile(hidden));
        let at = moe.experts_per_token * moe.inner * 4;
        self.recorder
            .dispatch(&kernel, [router_groups + inner_groups, 1, 1])
            .bind("rw", &router.codes)
            .bind("rs", &router.scales)
            .bind("rb", &router.biases)
            .bind("gw", &gate.codes)
            .bind("gs", &gate.scales)
            .bind("gb", &gate.biases)
            .bind("uw", &up.codes)
            .bind("us", &up.scales)
            .bind("ub", &up.biases)
            .bind("x", &t.x)
            .bind("gain", &layer.post_norm)
            .bind("next", &ahead.view)
            .bind("logits", &t.router)
            .bind("h", &t.inner.slice(at, moe.shared_inner * 4))
            .param("router_rows", router.rows)
            .param("router_groups", router_groups)
            .param("inner", moe.shared_inner)
            .param("eps", config.rms_norm_eps)
            .param("ahead", ahead.words)
            .traffic("next", 0, 0)
            .label("moe.router_shared");
        Ok(())
    }

    fn expert_gate_up(&mut self, layer: &LayerWeights) -> Result<(), GpuError> {
        let (t, config) = (self.t, &self.model.config);
        let (moe, hidden) = (&config.moe, config.hidden_size);
        let (gate, up) = (&layer.moe.experts.gate, &layer.moe.experts.up);
        if gate.format != up.format {
            return Err(GpuError::Unsupported {
                name: "the experts' gate and up projections".to_owned(),
                what: format!("{} beside {}", gate.format, up.format),
            });
        }
        let shape = self.shapes.experts_in.for_width(hidden);
        let mut constants = vec![
            ("K", hidden as i64),
            ("EXPERTS", moe.experts as i64),
            ("TOPK", moe.experts_per_token as i64),
            ("RENORMALISE", i64::from(moe.norm_topk_prob)),
            ("INNER", moe.inner as i64),
            ("ROWS", shape.rows as i64),
            ("SIMDGROUPS", shape.simdgroups as i64),
            ("SPLIT", shape.split as i64),
        ];
        constants.extend(format_constants(gate.format));
        let kernel = self.model.kernel("expert_gate_up", &constants, "expert_gate_up")?;
        let down = &layer.moe.experts.down;
        let [words, scale_words] = self.expert_words_ahead(down, hidden);
        let chosen = moe.experts_per_token * moe.inner;
        let (codes, scales) =
            (chosen * gate.format.code_bytes(hidden), chosen * gate.format.scale_bytes(hidden));
        self.recorder
            .dispatch(&kernel, [groups(moe.inner, shape.tile(hidden)), groups(moe.experts_per_token, 1), 1])
            .bind("logits", &t.router)
            .bind("gw", &gate.codes)
            .bind("gs", &gate.scales)
            .bind("gb", &gate.biases)
            .bind("uw", &up.codes)
            .bind("us", &up.scales)
            .bind("ub", &up.biases)
            .bind("x", &t.x)
            .bind("gain", &layer.post_norm)
            .bind("down", &down.codes)
            .bind("down_scales", &down.scales)
            .bind("down_biases", &down.biases)
            .bind("h", &t.inner.slice(0, chosen * 4))
            .bind("routes", &t.routes)
            .param("eps", config.rms_norm_eps)
            .param("down_words", words)
            .param("down_scale_words", scale_words)
            .traffic("down", 0, 0)
            .traffic("down_scales", 0, 0)
            .traffic("down_biases", 0, 0)
            .traffic("gw", codes, 0)
            .traffic("gs", scales, 0)
            .traffic("gb", scales, 0)
            .traffic("uw", codes, 0)
            .traffic("us", scales, 0)
            .traffic("ub", scales, 0)
            .label("moe.expert_gate_up");
        Ok(())
    }

    fn expert_down(&mut self, layer: &LayerWeights) -> Result<(), GpuError> {
        let (t, config) = (self.t, &self.model.config);
        let (moe, hidden) = (&config.moe, config.hidden_size);
        let (down, shared) = (&layer.moe.experts.down, &layer.moe.shared_down);
        let rows = self.shapes.experts_out;
        let [(_, shared_bits), (_, shared_group), (_, shared_scale)] = format_constants(shared.format);
        if scale_constant(down.format) != shared_scale {
            return Err(GpuError::Unsupported {
                name: "the experts' down projections beside the shared one".to_owned(),
                what: format!("{} beside {}", down.format, shared.format),
            });
        }
        let mut constants = vec![
            ("INNER", moe.inner as i64),
            ("SHARED_INNER", moe.shared_inner as i64),
            ("EXPERTS", moe.experts as i64),
            ("TOPK", moe.experts_per_token as i64),
            ("SHARED_BITS", shared_bits),
            ("SHARED_GROUP", shared_group),
            ("ROWS", rows as i64),
        ];
        constants.extend(format_constants(down.format));
        let kernel = self.model.kernel("expert_down", &constants, "expert_down")?;
        let ahead = self.ahead_of_next(true, shared);
        let tile = rows * side(moe.inner);
        let chosen = moe.experts_per_token * hidden;
        let (codes, scales) =
            (chosen * down.format.code_bytes(moe.inner), chosen * down.format.scale_bytes(moe.inner));
        self.recorder
            .dispatch(&kernel, [groups(hidden, tile), 1, 1])
            .bind("w", &down.codes)
            .bind("scales", &down.scales)
            .bind("biases", &down.biases)
            .bind("shared_w", &shared.codes)
            .bind("shared_scales", &shared.scales)
            .bind("shared_biases", &shared.biases)
            .bind("h", &t.inner)
            .bind("routes", &t.routes)
            .bind("next", &ahead.view)
            .bind("y", &t.x)
            .param("rows", hidden)
            .param("ahead", ahead.words)
            .traffic("next", 0, 0)
            .traffic("w", codes, 0)
            .traffic("scales", scales, 0)
            .traffic("biases", scales, 0)
            .label("moe.expert_down");
        Ok(())
    }
}
