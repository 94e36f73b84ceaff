//! What a sequence remembers.

use super::{GatedDeltaNetState, KvRows};

/// One layer's part.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerState {
    /// Rows of the KV cache.
    Attention(KvRows),
    /// Convolution window and S.
    GatedDeltaNet(GatedDeltaNetState),
}

/// A sequence's state: a plain value.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Tokens consumed.
    pub position: usize,
    /// One per layer.
    pub layers: Vec<LayerState>,
}

impl State {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let elements = |layer: &LayerState| match layer {
            LayerState::Attention(kv) => kv.keys.len() + kv.values.len(),
            LayerState::GatedDeltaNet(state) => state.window.len() + state.memory.len(),
        };
        self.layers.iter().map(elements).sum::<usize>() * size_of::<f32>()
    }
}
