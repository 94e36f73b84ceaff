//! One sequence's state, and its frozen copies.

use crate::{
    kv::{KvCache, KvShape},
    model::{Mixer, Model},
};
use lily_checkpoint::GatedDeltaNetConfig;
use lily_engine::{BackendError, SequenceState};
use std::sync::Arc;

/// A sequence on a [`crate::CpuBackend`]: KV rows in shared pages, the f32 state and convolution window of each Gated
/// DeltaNet layer, and the position.
#[derive(Debug, Clone)]
pub struct CpuState {
    pub(crate) position: usize,
    pub(crate) layers: Vec<LayerState>,
}

/// A frozen [`CpuState`]. It shares KV pages with the state it was made from until that one writes to them.
#[derive(Debug, Clone)]
pub struct CpuSnapshot(pub(crate) Arc<CpuState>);

/// The state of one layer.
#[derive(Debug, Clone)]
pub(crate) enum LayerState {
    Gdn(GdnState),
    Attention(KvCache),
}

/// The state of a Gated DeltaNet layer.
#[derive(Debug, Clone)]
pub(crate) struct GdnState {
    /// `S` of each value head, in blocks of columns: see [`crate::simd::ops`]' gdn_scan.
    pub memory: Vec<f32>,
    /// Inputs of the convolution, a ring `[conv width][channels]`: token `t` is in slot `t % width`.
    pub window: Vec<f32>,
}

impl CpuState {
    /// An empty sequence.
    pub(crate) fn new(model: &Model, kv: KvShape) -> Result<Self, BackendError> {
        let layers = model.layers.iter().map(|layer| match layer.mixer {
            Mixer::Gdn(_) => GdnState::new(&model.config.gated_delta_net).map(LayerState::Gdn),
            Mixer::Attention(_) => Ok(LayerState::Attention(KvCache::new(kv))),
        });
        Ok(Self { position: 0, layers: layers.collect::<Result<_, _>>()? })
    }

    /// Makes room for KV rows of `tokens` more tokens.
    pub(crate) fn reserve(&mut self, tokens: usize) -> Result<(), BackendError> {
        let wanted = self.position + tokens;
        for layer in &mut self.layers {
            if let LayerState::Attention(kv) = layer
                && !kv.reserve(wanted)
            {
                return Err(BackendError::OutOfMemory(format!("KV rows for {wanted} tokens")));
            }
        }
        Ok(())
    }
}

impl GdnState {
    fn new(dims: &GatedDeltaNetConfig) -> Result<Self, BackendError> {
        let keys = dims.key_heads * dims.key_head_dim;
        let values = dims.value_heads * dims.value_head_dim;
        Ok(Self {
            memory: zeros(values * dims.key_head_dim)?,
            window: zeros(dims.conv_width * (2 * keys + values))?,
        })
    }
}

/// `len` zeros, or an error when memory is out.
pub(crate) fn zeros(len: usize) -> Result<Vec<f32>, BackendError> {
    let mut values = Vec::new();
    values
        .try_reserve_exact(len)
        .map_err(|error| BackendError::OutOfMemory(format!("{} bytes: {error}", len.saturating_mul(4))))?;
    values.resize(len, 0.0);
    Ok(values)
}

impl SequenceState for CpuState {
    fn position(&self) -> usize {
        self.position
    }

    /// Pages that snapshots share are counted in full: they are held by this state too.
    fn bytes(&self) -> usize {
        let layer = |layer: &LayerState| match layer {
            LayerState::Gdn(state) => size_of_val(&*state.memory) + size_of_val(&*state.window),
            LayerState::Attention(kv) => kv.bytes(),
        };
        self.layers.iter().map(layer).sum()
    }
}
