//! One sequence's memory on the device: KV rows, Gated DeltaNet state, convolution windows, step words. And its frozen
//! copies.

use crate::{Buffer, Device, GpuError, View};
use lily_checkpoint::{LayerKind, ModelConfig};
use lily_kernels::step;
use std::sync::Arc;

/// KV rows that a new sequence has room for.
const FIRST_CAPACITY: usize = 1024;

/// The state of one sequence, as kernels are bound to it.
pub struct StateBuffers {
    /// `u32 [step::WORDS]`: see [`lily_kernels::step`].
    pub step: View,
    /// In order.
    pub layers: Vec<LayerState>,
    /// Positions that the KV buffers have room for.
    pub capacity: usize,
    /// Everything but KV rows and step words, for one copy.
    recurrent: Buffer,
}

/// The state of one layer.
#[derive(Debug, Clone)]
pub enum LayerState {
    /// Gated DeltaNet.
    Gdn(GdnState),
    /// Softmax attention.
    Attention(KvState),
}

/// The state of a Gated DeltaNet layer; zeros before the first token.
#[derive(Debug, Clone)]
pub struct GdnState {
    /// `S`, f32 `[value_heads, value_head_dim, key_head_dim]`.
    pub memory: View,
    /// Inputs of the convolution, f32, a ring `[conv_width, channels]`: token `t` is in slot `t % conv_width`.
    pub window: View,
}

/// The KV rows of an attention layer, bf16 `[kv_heads, capacity, head_dim]` each.
#[derive(Debug, Clone)]
pub struct KvState {
    /// Normed and rotated.
    pub keys: View,
    /// As projected.
    pub values: View,
}

/// Bytes that a sequence takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSize {
    /// Recurrent state and convolution windows of all layers.
    pub recurrent: usize,
    /// KV rows of one position in all layers.
    pub kv_per_token: usize,
}

impl StateSize {
    /// Of a model's sequences.
    pub fn of(config: &ModelConfig) -> Self {
        let (memory, window) = gdn_bytes(config);
        let attention = config.layers.iter().filter(|&&kind| kind == LayerKind::Attention).count();
        Self {
            recurrent: (config.layers.len() - attention) * (memory + window),
            kv_per_token: attention * 2 * config.attention.kv_heads * row_bytes(config),
        }
    }

    /// With room for so many positions.
    pub fn bytes(self, capacity: usize) -> usize {
        self.recurrent + self.kv_per_token * capacity + step::WORDS * 4
    }
}

/// Bytes of a layer's recurrent state and of its window.
fn gdn_bytes(config: &ModelConfig) -> (usize, usize) {
    let gdn = &config.gated_delta_net;
    let values = gdn.value_heads * gdn.value_head_dim;
    let channels = 2 * gdn.key_heads * gdn.key_head_dim + values;
    let align = |bytes: usize| bytes.next_multiple_of(256);
    (align(values * gdn.key_head_dim * 4), align(gdn.conv_width * channels * 4))
}

/// Bytes of one KV head's row.
fn row_bytes(config: &ModelConfig) -> usize {
    config.attention.head_dim * 2
}

impl StateBuffers {
    /// An empty sequence with room for `capacity` positions.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn new(device: &dyn Device, config: &ModelConfig, capacity: usize) -> Result<Self, GpuError> {
        let size = StateSize::of(config);
        let recurrent = device.allocate(size.recurrent.max(256), "recurrent state")?;
        device.zero(&recurrent.whole())?;
        let step = device.allocate(step::WORDS * 4, "step words")?.whole();
        device.zero(&step)?;
        let (memory, window) = gdn_bytes(config);
        let gdn = &config.gated_delta_net;
        let used_memory = gdn.value_heads * gdn.value_head_dim * gdn.key_head_dim * 4;
        let channels = 2 * gdn.key_heads * gdn.key_head_dim + gdn.value_heads * gdn.value_head_dim;
        let mut at = 0;
        let layers = config.layers.iter().map(|kind| match kind {
            LayerKind::GatedDeltaNet => {
                let state = GdnState {
                    memory: recurrent.view(at, used_memory),
                    window: recurrent.view(at + memory, gdn.conv_width * channels * 4),
                };
                at += memory + window;
                Ok(LayerState::Gdn(state))
            }
            LayerKind::Attention => KvState::new(device, config, capacity).map(LayerState::Attention),
        });
        let layers = layers.collect::<Result<_, GpuError>>()?;
        Ok(Self { step, layers, capacity, recurrent })
    }

    /// The room that a sequence of `tokens` tokens gets: a power of two, but no more than the longest context.
    pub fn capacity_for(tokens: usize, max_context: usize) -> usize {
        tokens.max(FIRST_CAPACITY).next_power_of_two().min(max_context.next_multiple_of(64)).max(tokens)
    }

    /// Makes room for more positions; the first `used` keep their rows.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]; the state is as it was then.
    pub fn grow(
        &mut self,
        device: &dyn Device,
        config: &ModelConfig,
        capacity: usize,
        used: usize,
    ) -> Result<(), GpuError> {
        let mut layers = self.layers.clone();
        for layer in &mut layers {
            if let LayerState::Attention(kv) = layer {
                let larger = KvState::new(device, config, capacity)?;
                kv.copy_rows(device, config, used, (self.capacity, capacity), &larger)?;
                *kv = larger;
            }
        }
        (self.layers, self.capacity) = (layers, capacity);
        Ok(())
    }

    /// Copies everything that `used` positions have left behind into `to`, which has room for them.
    ///
    /// # Errors
    /// The device's.
    pub fn copy_to(
        &self,
        device: &dyn Device,
        config: &ModelConfig,
        used: usize,
        to: &Self,
    ) -> Result<(), GpuError> {
        device.copy(&self.recurrent.whole(), &to.recurrent.whole())?;
        device.copy(&self.step, &to.step)?;
        for (from, to_layer) in self.layers.iter().zip(&to.layers) {
            if let (LayerState::Attention(from), LayerState::Attention(to_kv)) = (from, to_layer) {
                from.copy_rows(device, config, used, (self.capacity, to.capacity), to_kv)?;
            }
        }
        Ok(())
    }

    /// Back to an empty sequence.
    ///
    /// # Errors
    /// The device's.
    pub fn clear(&self, device: &dyn Device) -> Result<(), GpuError> {
        device.zero(&self.recurrent.whole())?;
        device.zero(&self.step)
    }
}

impl KvState {
    fn new(device: &dyn Device, config: &ModelConfig, capacity: usize) -> Result<Self, GpuError> {
        let bytes = config.attention.kv_heads * capacity * row_bytes(config);
        Ok(Self {
            keys: device.allocate(bytes, "keys")?.whole(),
            values: device.allocate(bytes, "values")?.whole(),
        })
    }

    /// Copies the first `used` rows of each head, between buffers of the given capacities.
    fn copy_rows(
        &self,
        device: &dyn Device,
        config: &ModelConfig,
        used: usize,
        (from_capacity, to_capacity): (usize, usize),
        to: &Self,
    ) -> Result<(), GpuError> {
        let (row, bytes) = (row_bytes(config), used * row_bytes(config));
        if used == 0 {
            return Ok(());
        }
        for (from, to) in [(&self.keys, &to.keys), (&self.values, &to.values)] {
            for head in 0..config.attention.kv_heads {
                let from = from.slice(head * from_capacity * row, bytes);
                device.copy(&from, &to.slice(head * to_capacity * row, bytes))?;
            }
        }
        Ok(())
    }
}

/// A frozen copy of a sequence's state, on the device.
#[derive(Clone)]
pub struct GpuSnapshot(pub(crate) Arc<Frozen>);

pub(crate) struct Frozen {
    pub(crate) buffers: StateBuffers,
    pub(crate) position: usize,
    pub(crate) bytes: usize,
}
