//! The prefill plan: a chunk of a prompt through all layers.
//!
//! Per layer, norm; input projection; mixer (`gdn` or `attention`); output projection onto the
//! residual; norm; router, routing, grouped products with the experts' weights (`moe`). All activations between launches
//! are bf16, the residual stream, gates, router logits and recurrent state f32. Everything that a chunk needs lies in
//! [`PrefillTemporaries`]; what stays behind is in [`StateBuffers`]. Which kernel file serves which product is decided in
//! `routes`, once per recording and by shape alone.

mod attention;
mod dequantise;
mod gdn;
mod head;
mod host_routing;
mod moe;
mod products;
mod routes;
mod temporaries;

pub use head::record_logits;
pub use host_routing::run_chunk_routed_by_host;
pub use routes::{Routes, describe_routes};
pub use temporaries::PrefillTemporaries;

use crate::{
    GpuError, GpuModel, LayerState, Pass, Recorder, StateBuffers, View,
    weights::{LayerWeights, MixerWeights},
};
use lily_checkpoint::ModelConfig;

/// A run of tokens of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// How many.
    pub rows: usize,
    /// Position of the first.
    pub position: usize,
}

/// How many rows of a chunk, at most `rows`, have no product of more than `most` operations: a multiple of 256, and at least
/// that. Attention is not counted, which is launched in parts where it must be.
pub fn rows_within(config: &ModelConfig, most: Option<u64>, rows: usize) -> usize {
    const STEP: usize = 256;
    let (gdn, attention, moe) = (&config.gated_delta_net, &config.attention, &config.moe);
    let gdn_wide = 2 * (gdn.key_heads * gdn.key_head_dim + gdn.value_heads * gdn.value_head_dim);
    let attention_wide = 2 * (attention.heads + attention.kv_heads) * attention.head_dim;
    let experts = 2 * moe.experts_per_token * moe.inner;
    let widest = gdn_wide.max(attention_wide).max(experts).max(2 * moe.shared_inner);
    let row = 2 * (config.hidden_size * widest) as u64;
    let fitting = most.map_or(rows, |most| usize::try_from(most / row.max(1)).unwrap_or(rows));
    if fitting >= rows { rows } else { rows.min((fitting / STEP * STEP).max(STEP)) }
}

/// Records `chunk.rows` ids of `temporaries.tokens`, at positions from `chunk.position` on, through all layers to the
/// residual rows.
///
/// # Errors
/// [`GpuError::Unsupported`] for dimensions or formats that no kernel serves, [`GpuError::Kernel`].
pub fn record_chunk(
    recorder: &mut Recorder,
    model: &GpuModel,
    state: &StateBuffers,
    temporaries: &PrefillTemporaries,
    chunk: Chunk,
) -> Result<(), GpuError> {
    check(temporaries, state, chunk)?;
    let routes = Routes::new(model)?;
    let mut pass = ChunkPass { recorder, model, temporaries, chunk, routes, capacity: state.capacity };
    pass.embed()?;
    for (layer, state) in model.weights.layers.iter().zip(&state.layers) {
        pass.layer(layer, state)?;
    }
    Ok(())
}

/// What the parts of a chunk's recording share.
struct On<'a> {
    model: &'a GpuModel,
    temporaries: &'a PrefillTemporaries,
    chunk: Chunk,
    routes: Routes,
    capacity: usize,
}

impl On<'_> {
    fn pass<'b>(&'b self, recorder: &'b mut Recorder) -> ChunkPass<'b> {
        let &Self { model, temporaries, chunk, routes, capacity } = self;
        ChunkPass { recorder, model, temporaries, chunk, routes, capacity }
    }
}

/// Runs a chunk as [`record_chunk`] records it, layer by layer: the device computes one while the host records the next.
///
/// # Errors
/// As there, and the device's.
pub fn run_chunk(
    model: &GpuModel,
    state: &StateBuffers,
    temporaries: &PrefillTemporaries,
    chunk: Chunk,
    pass: Pass,
) -> Result<(), GpuError> {
    check(temporaries, state, chunk)?;
    let on = On { model, temporaries, chunk, routes: Routes::new(model)?, capacity: state.capacity };
    let mut recorder = Recorder::new();
    on.pass(&mut recorder).embed()?;
    for (layer, state) in model.weights.layers.iter().zip(&state.layers) {
        on.pass(&mut recorder).layer(layer, state)?;
        model.device.run(&std::mem::take(&mut recorder).finish()?, pass)?;
    }
    Ok(())
}

/// That there is room for a chunk.
fn check(temporaries: &PrefillTemporaries, state: &StateBuffers, chunk: Chunk) -> Result<(), GpuError> {
    if chunk.rows == 0 || chunk.rows > temporaries.limit {
        let what = format!("{} rows, 1 to {} fit", chunk.rows, temporaries.limit);
        return Err(GpuError::Unsupported { name: "a prefill chunk".to_owned(), what });
    }
    if state.capacity < chunk.position + chunk.rows {
        let what = format!("its KV rows end at {}, before {}", state.capacity, chunk.position + chunk.rows);
        return Err(GpuError::Unsupported { name: "a prefill chunk".to_owned(), what });
    }
    Ok(())
}

/// A chunk while it is being recorded.
struct ChunkPass<'a> {
    recorder: &'a mut Recorder,
    model: &'a GpuModel,
    temporaries: &'a PrefillTemporaries,
    chunk: Chunk,
    routes: Routes,
    /// Positions that the KV buffers have room for.
    capacity: usize,
}

impl ChunkPass<'_> {
    /// A layer, from residual rows to residual rows.
    fn layer(&mut self, layer: &LayerWeights, state: &LayerState) -> Result<(), GpuError> {
        self.mixer(layer, state)?;
        let grouped = self.before_routing(&layer.post_norm, &layer.moe)?;
        self.route(grouped)?;
        self.after_routing(&layer.moe, grouped)
    }

    /// A layer's mixer, onto the residual rows.
    fn mixer(&mut self, layer: &LayerWeights, state: &LayerState) -> Result<(), GpuError> {
        match (&layer.mixer, state) {
            (MixerWeights::Gdn(weights), LayerState::Gdn(state)) => {
                self.gated_delta_net(&layer.input_norm, weights, state)
            }
            (MixerWeights::Attention(weights), LayerState::Attention(state)) => {
                self.attention(&layer.input_norm, weights, state)
            }
            _ => Err(GpuError::Unsupported {
                name: "a sequence's state".to_owned(),
                what: "it is of another model".to_owned(),
            }),
        }
    }

    /// The tokens' embedding rows: the residual stream before the first layer.
    fn embed(&mut self) -> Result<(), GpuError> {
        let (rows, w) = (self.chunk.rows, &self.model.weights.embed_tokens);
        let mut constants = vec![("DIM", w.cols as i64)];
        constants.extend(products::format_constants(w.format));
        let kernel = self.model.kernel("embedding_rows", &constants, "embedding_rows")?;
        self.recorder
            .dispatch(&kernel, [rows as u32, 1, 1])
            .bind("tokens", &self.temporaries.tokens.slice(0, 4 * rows))
            .bind("w", &w.codes)
            .traffic("w", rows * w.row_bytes(), 0)
            .bind("scales", &w.scales)
            .traffic("scales", 0, 0)
            .bind("biases", &w.biases)
            .traffic("biases", 0, 0)
            .bind("x", &self.temporaries.residual.of(rows))
            .param("vocabulary", w.rows)
            .label("embedding");
        Ok(())
    }

    /// Norms the residual rows into `normed`, and leaves their scales for the router.
    fn norm(&mut self, gain: &View, permuted: bool, label: &'static str) -> Result<(), GpuError> {
        let config = &self.model.config;
        let (rows, t) = (self.chunk.rows, self.temporaries);
        let constants = [("DIM", config.hidden_size as i64), ("PERMUTED", i64::from(permuted))];
        let kernel = self.model.kernel("rms_norm_rows", &constants, "rms_norm_rows")?;
        self.recorder
            .dispatch(&kernel, [rows as u32, 1, 1])
            .bind("x", &t.residual.of(rows))
            .bind("gain", gain)
            .bind("y", &t.normed.of(rows))
            .bind("scale", &t.scale.of(rows))
            .param("eps", config.rms_norm_eps)
            .label(label);
        Ok(())
    }
}
