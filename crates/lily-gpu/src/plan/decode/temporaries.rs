//! Buffers between the launches of a step, shared by all sequences.

use super::attention;
use crate::{Device, GpuError, View};
use lily_checkpoint::ModelConfig;

/// Activations of one token, f32 unless it says otherwise.
pub struct DecodeTemporaries {
    /// The residual row, `[hidden]`.
    pub x: View,
    /// A mixer's input projections, one behind the other.
    pub projections: View,
    /// A mixer's result before its output projection.
    pub mixed: View,
    /// What the separate launches of a mixer leave for each other.
    pub parts: View,
    /// Results of attention's blocks, `[blocks, heads, head_dim]`.
    pub partial: View,
    /// Their maxima and sums, `[blocks, heads, 2]`.
    pub partial_ml: View,
    /// `[experts + 1]`: the router's logits, then the shared expert's gate.
    pub router: View,
    /// u32 `[2 * experts_per_token + 1]`: chosen experts, their weights, the shared one's.
    pub routes: View,
    /// `[experts_per_token * inner + shared_inner]`: inner activations.
    pub inner: View,
    /// What the separate launches of the experts leave for each other.
    pub expert_parts: View,
    /// `[vocab]`.
    pub logits: View,
}

/// Floats of each buffer, in the order of the struct.
fn lengths(config: &ModelConfig, max_context: usize) -> [usize; 11] {
    let (gdn, attention, moe) = (&config.gated_delta_net, &config.attention, &config.moe);
    let (keys, values) = (gdn.key_heads * gdn.key_head_dim, gdn.value_heads * gdn.value_head_dim);
    let heads = attention.heads * attention.head_dim;
    let kv = attention.kv_heads * attention.head_dim;
    let blocks = attention::most_blocks(max_context);
    let per_token = moe.experts_per_token;
    [
        config.hidden_size,
        (2 * keys + 2 * values + 2 * gdn.value_heads).max(2 * heads + 2 * kv),
        values.max(heads),
        (2 * keys + 2 * values + 2 * gdn.value_heads).max(heads),
        blocks * heads,
        blocks * attention.heads * 2,
        moe.experts + 1,
        2 * per_token + 1,
        per_token * moe.inner + moe.shared_inner,
        2 * (per_token * moe.inner + moe.shared_inner) + (per_token + 1) * config.hidden_size,
        config.vocab_size,
    ]
}

impl DecodeTemporaries {
    /// For contexts of up to `max_context` tokens.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn new(device: &dyn Device, config: &ModelConfig, max_context: usize) -> Result<Self, GpuError> {
        let view = |floats: usize| -> Result<View, GpuError> {
            Ok(device.allocate(floats.max(4) * 4, "decode temporaries")?.whole())
        };
        let lengths = lengths(config, max_context);
        let [x, projections, mixed, parts, partial, partial_ml, router, routes, inner, expert_parts, logits] =
            lengths.map(view);
        Ok(Self {
            x: x?,
            projections: projections?,
            mixed: mixed?,
            parts: parts?,
            partial: partial?,
            partial_ml: partial_ml?,
            router: router?,
            routes: routes?,
            inner: inner?,
            expert_parts: expert_parts?,
            logits: logits?,
        })
    }

    /// Bytes of all of them.
    pub fn bytes(config: &ModelConfig, max_context: usize) -> u64 {
        lengths(config, max_context).iter().map(|&floats| floats as u64 * 4).sum()
    }
}
