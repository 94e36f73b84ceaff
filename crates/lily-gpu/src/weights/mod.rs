//! The model's weights on a device: packed as in the file, aligned, and in the order in which launches read them.
//!
//! Two routes, named in the memory plan and at load: *arena*, where everything is copied, one arena per layer and one for embedding
//! and head; and *mapped*, where the device reads the files themselves and only what must be joined is copied: on devices that
//! can, of files whose matrices all begin at multiples of 16 bytes. The matrices that one launch reads together lie one
//! behind the other ([`MatrixGroup`]). Small vectors are f32, with the norm shift of raw checkpoints applied.

mod arena;
mod files;
mod layer;
mod matrix;
mod placing;

pub use layer::{AttentionWeights, ExpertWeights, GdnWeights, LayerWeights, MixerWeights, MoeWeights};
pub use matrix::{Element, Format, MatrixGroup, MatrixView};

use crate::{Device, GpuError, View};
use arena::Arena;
use files::MappedFiles;
use layer::PlacedLayer;
use lily_checkpoint::Checkpoint;
use placing::{PlacedMatrix, place};
use std::sync::Arc;

/// How weights get onto a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightRoute {
    /// Mapped if the device and every matrix of the files allow it, else copied; which and why is logged.
    #[default]
    Mapped,
    /// Copied into arenas of the device's own memory.
    Arena,
}

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
    files: Option<Arc<MappedFiles>>,
    head_arena: Arena,
    embed_tokens: PlacedMatrix,
    norm: arena::Place,
    lm_head: PlacedMatrix,
    rotary: arena::Place,
    layers: Vec<(Arena, PlacedLayer)>,
}

impl WeightRoute {
    /// Its name, as the memory plan has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Arena => "copied into arenas",
        }
    }
}

impl<'a> WeightPlan<'a> {
    /// Places every tensor of a checkpoint in arenas.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for a matrix that the kernels cannot read.
    pub fn new(checkpoint: &'a Checkpoint) -> Result<Self, GpuError> {
        Self::beside(checkpoint, None)
    }

    /// Places every tensor by the wanted route, or by the one that there is.
    ///
    /// # Errors
    /// As [`WeightPlan::new`], and the device's.
    pub fn routed(
        checkpoint: &'a Checkpoint,
        device: &dyn Device,
        route: WeightRoute,
    ) -> Result<Self, GpuError> {
        let files = match route {
            WeightRoute::Arena => None,
            WeightRoute::Mapped => match MappedFiles::of(checkpoint, device)? {
                Ok(files) => Some(Arc::new(files)),
                Err(reason) => {
                    tracing::info!("weights are copied: {reason}");
                    None
                }
            },
        };
        Self::beside(checkpoint, files)
    }

    fn beside(checkpoint: &'a Checkpoint, files: Option<Arc<MappedFiles>>) -> Result<Self, GpuError> {
        let (weights, config) = (&checkpoint.weights, &checkpoint.config);
        let mut head_arena = Arena::beside(files.as_ref());
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
            let mut arena = Arena::beside(files.as_ref());
            let placed = PlacedLayer::new(&mut arena, index, layer)?;
            Ok((arena, placed))
        });
        let layers = layers.collect::<Result<_, GpuError>>()?;
        Ok(Self { checkpoint, files, embed_tokens, norm, lm_head, rotary, layers, head_arena })
    }

    /// The route taken.
    pub fn route(&self) -> WeightRoute {
        if self.files.is_some() { WeightRoute::Mapped } else { WeightRoute::Arena }
    }

    /// Bytes of files that the device reads itself; 0 on the other route.
    pub fn mapped_bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.bytes())
    }

    /// Bytes of device memory that are allocated.
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
        let (route, bytes, mapped) = (self.route(), self.bytes(), self.mapped_bytes());
        let layer_count = self.checkpoint.config.layers.len();
        let filled = self.head_arena.fill(device, "embedding and head")?;
        let mut layers = Vec::with_capacity(self.layers.len());
        for (index, (arena, placed)) in self.layers.into_iter().enumerate() {
            let filled = arena.fill(device, &format!("layer {index}"))?;
            layers.push(placed.view(&filled));
        }
        tracing::info!(route = route.name(), bytes, mapped, layers = layer_count, took = ?start.elapsed(), "weights loaded");
        Ok(Weights {
            embed_tokens: self.embed_tokens.view(&filled),
            norm: filled.view(self.norm),
            lm_head: self.lm_head.view(&filled),
            rotary: filled.view(self.rotary),
            layers,
        })
    }
}
