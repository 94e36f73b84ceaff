//! One token: the launches of a decode step. `x` is the residual row; each consumer norms it anew instead of waiting for a
//! norm of its own.

mod ahead;
mod attention;
mod expert_parts;
mod gdn;
mod gemv;
mod moe;
mod temporaries;

pub use temporaries::DecodeTemporaries;

use crate::{
    GpuError, GpuModel, LayerState, Recorder, StateBuffers,
    shapes::Shapes,
    weights::{Element, Format, MixerWeights},
};
use gemv::{Around, gemv};

/// The smallest context that has a plan of its own.
const FIRST_BUCKET: usize = 512;

/// The context length for which the plan of a context of `context` positions is laid out: the next quarter of a power of
/// two. Threadgroups past the real context end at once.
pub fn bucket(context: usize) -> usize {
    let quarter = (context.max(FIRST_BUCKET).next_power_of_two() / 8).max(FIRST_BUCKET / 2);
    context.max(FIRST_BUCKET).next_multiple_of(quarter)
}

/// Records a step: the token and the position of the step words to `temporaries.logits`. It is laid out for the
/// [`bucket`](fn@bucket) of `context` positions, the new one included, and serves every context up to that; the bytes that
/// it tells are those of `context`.
///
/// # Errors
/// [`GpuError::Unsupported`] for dimensions that the kernels do not serve, the compiler's.
pub fn record_step(
    recorder: &mut Recorder,
    model: &GpuModel,
    state: &StateBuffers,
    temporaries: &DecodeTemporaries,
    context: usize,
) -> Result<(), GpuError> {
    let (weights, config) = (&model.weights, &model.config);
    let (bucket, shapes) = (bucket(context), model.shapes());
    let mut step = Step { recorder, model, state, t: temporaries, shapes, bucket, context, layer: 0 };
    step.embedding()?;
    for (index, (layer, layer_state)) in weights.layers.iter().zip(&state.layers).enumerate() {
        step.layer = index;
        match (&layer.mixer, layer_state) {
            (MixerWeights::Gdn(w), LayerState::Gdn(state)) => step.gdn(layer, w, state)?,
            (MixerWeights::Attention(w), LayerState::Attention(state)) => step.attention(layer, w, state)?,
            _ => {
                return Err(GpuError::Unsupported {
                    name: "a decode step".to_owned(),
                    what: "the state is another model's".to_owned(),
                });
            }
        }
        step.moe(layer)?;
    }
    let around = Around::Norm { gain: &weights.norm, eps: config.rms_norm_eps };
    gemv(&mut step, &weights.lm_head, &temporaries.x, &temporaries.logits, &around, "head")
}

/// A step under way.
struct Step<'a> {
    recorder: &'a mut Recorder,
    model: &'a GpuModel,
    state: &'a StateBuffers,
    t: &'a DecodeTemporaries,
    shapes: Shapes,
    bucket: usize,
    /// Positions for which bytes are counted.
    context: usize,
    /// The layer being recorded.
    layer: usize,
}

impl Step<'_> {
    fn embedding(&mut self) -> Result<(), GpuError> {
        let w = &self.model.weights.embed_tokens;
        let mut constants = vec![("K", w.cols as i64)];
        constants.extend(format_constants(w.format));
        let kernel = self.model.kernel("embedding", &constants, "embedding")?;
        self.recorder
            .dispatch(&kernel, [groups(w.cols, 2048), 1, 1])
            .bind("w", &w.codes)
            .bind("scales", &w.scales)
            .bind("biases", &w.biases)
            .bind("step", &self.state.step)
            .bind("x", &self.t.x)
            .param("vocab", w.rows)
            .traffic("w", w.format.code_bytes(w.cols), 0)
            .traffic("scales", w.format.scale_bytes(w.cols), 0)
            .traffic("biases", w.format.scale_bytes(w.cols), 0)
            .label("embedding");
        Ok(())
    }
}

/// Threadgroups for `items` of which each takes `each`.
fn groups(items: usize, each: usize) -> u32 {
    u32::try_from(items.div_ceil(each)).unwrap_or(u32::MAX)
}

/// `BITS`, `GROUP` and `SCALE` of a kernel that reads such a matrix.
fn format_constants(format: Format) -> [(&'static str, i64); 3] {
    let group = if format.is_plain() { 64 } else { i64::from(format.group) };
    [("BITS", i64::from(format.bits)), ("GROUP", group), ("SCALE", scale_constant(format))]
}

/// `SCALE` of a kernel that reads such a matrix.
fn scale_constant(format: Format) -> i64 {
    match format.element {
        Element::Bf16 => 0,
        Element::F16 => 1,
        Element::F32 => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn buckets_hold_their_context_and_are_few() {
        let mut seen = std::collections::BTreeSet::new();
        for context in 1..=262_144 {
            let bucket = bucket(context);
            assert!(bucket >= context && bucket <= context.max(512) * 5 / 4 + 256, "{context}: {bucket}");
            seen.insert(bucket);
        }
        assert!(seen.len() < 48, "{} buckets", seen.len());
    }
}
