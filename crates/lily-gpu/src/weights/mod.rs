//! The model's weights on a device: packed as in the file, aligned, and in the order in which launches read them.
//!
//! One arena per layer, one for the embedding, one for the head. The matrices that one launch reads together lie one
//! behind the other ([`MatrixGroup`]). Small vectors are f32, with the norm shift of raw checkpoints applied.

mod arena;
mod layer;
mod matrix;
mod placing;

pub use layer::{AttentionWeights, ExpertWeights, GdnWeights, LayerWeights, MixerWeights, MoeWeights};
pub use matrix::{Element, Format, MatrixGroup, MatrixView};

use crate::{Device, GpuError, View};
use arena::Arena;
use layer::PlacedLayer;
use lily_checkpoint::{Checkpoint, ModelConfig};
use placing::{PlacedMatrix, place};

/// All weights of a model.
#[derive(Debug)]
pub struct Weights {
    /// `[vocab, hidden]`.
    pub embed_tokens: MatrixView,
    /// In order.
    pub layers: Vec<LayerWeights>,
    /// Gain of the final norm, f32 `[hidden]`.
    pub norm: View,
    /// `[vocab, hidden]`.
    pub lm_head: MatrixView,
    /// [`lily_kernels::rotary_table`] of the model's rotary dims.
    pub rotary: View,
}

/// The weights' places in arenas that do not exist yet: how much memory they take is known before any is.
pub struct WeightPlan<'a> {
    checkpoint: &'a Checkpoint,
    head_arena: Arena,
    embed_tokens: PlacedMatrix,
    norm: arena::Place,
    lm_head: PlacedMatrix,
    rotary: arena::Place,
    layers: Vec<(Arena, PlacedLayer)>,
}

impl<'a> WeightPlan<'a> {
    /// Places every tensor of a checkpoint.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for a matrix that the kernels cannot read.
    pub fn new(checkpoint: &'a Checkpoint) -> Result<Self, GpuError> {
        let (weights, config) = (&checkpoint.weights, &checkpoint.config);
        let mut head_arena = Arena::default();
        let embed_tokens = place(&mut head_arena, "embed_tokens", &weights.embed_tokens)?;
        let lm_head = if config.tie_word_embeddings {
            embed_tokens.clone()
        } else {
            place(&mut head_arena, "lm_head", &weights.lm_head)?
        };
        let norm = head_arena.place_f32(&weights.norm);
        let attention = &config.attention;
        let table = lily_kernels::rotary_table(attention.rotary_dim, f64::from(attention.rope_theta));
        let rotary = head_arena.place_u32(&table);
        let layers = weights.layers.iter().enumerate().map(|(index, layer)| {
            let mut arena = Arena::default();
            let placed = PlacedLayer::new(&mut arena, index, layer)?;
            Ok((arena, placed))
        });
        let layers = layers.collect::<Result<_, GpuError>>()?;
        Ok(Self { checkpoint, embed_tokens, norm, lm_head, rotary, layers, head_arena })
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> u64 {
        let layers: usize = self.layers.iter().map(|(arena, _)| arena.bytes()).sum();
        (layers + self.head_arena.bytes()) as u64
    }

    /// Allocates the arenas and reads the files into them.
    ///
    /// # Errors
    /// The device's.
    pub fn load(self, device: &dyn Device) -> Result<Weights, GpuError> {
        let start = std::time::Instant::now();
        let (config, bytes): (&ModelConfig, u64) = (&self.checkpoint.config, self.bytes());
        let filled = self.head_arena.fill(device, "embedding and head")?;
        let mut layers = Vec::with_capacity(self.layers.len());
        for (index, (arena, placed)) in self.layers.into_iter().enumerate() {
            let filled = arena.fill(device, &format!("layer {index}"))?;
            layers.push(placed.view(&filled));
        }
        tracing::info!(route = "copied into arenas", bytes, layers = config.layers.len(), took = ?start.elapsed(), "weights loaded");
        Ok(Weights {
            embed_tokens: self.embed_tokens.view(&filled),
            norm: filled.view(self.norm),
            lm_head: self.lm_head.view(&filled),
            rotary: filled.view(self.rotary),
            layers,
        })
    }
}
