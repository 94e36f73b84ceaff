//! The weights of one layer.

use super::{
    arena::{Arena, Filled, Place},
    matrix::{MatrixGroup, MatrixView},
    placing::{PlacedGroup, PlacedMatrix, group, place, stack},
};
use crate::{GpuError, View};
use lily_checkpoint as file;

/// A decoder layer.
#[derive(Debug)]
pub struct LayerWeights {
    /// Gain before the mixer, f32 `[hidden]`.
    pub input_norm: View,
    /// The mixer.
    pub mixer: MixerWeights,
    /// Gain before the experts, f32 `[hidden]`.
    pub post_norm: View,
    /// The experts.
    pub moe: MoeWeights,
}

/// The mixer of a layer.
#[derive(Debug)]
pub enum MixerWeights {
    /// Gated DeltaNet.
    Gdn(Box<GdnWeights>),
    /// Softmax attention.
    Attention(Box<AttentionWeights>),
}

/// Gated DeltaNet: `K` key heads of `dk`, `V` value heads of `dv`.
#[derive(Debug)]
pub struct GdnWeights {
    /// `[q | k | v | z | b | a]`, `[2 K dk + 2 V dv + 2 V, hidden]`.
    pub in_proj: MatrixGroup,
    /// `[hidden, V dv]`.
    pub out_proj: MatrixView,
    /// f32 `[channels, width]`, oldest tap first; channels are `[q | k | v]`.
    pub conv: View,
    /// f32 `[V]`.
    pub a_log: View,
    /// `-exp(A_log)`, f32 `[V]`.
    pub decay_rate: View,
    /// f32 `[V]`.
    pub dt_bias: View,
    /// Gain of the gated head norm, f32 `[dv]`.
    pub norm: View,
}

/// Gated attention.
#[derive(Debug)]
pub struct AttentionWeights {
    /// `[(q | gate) of each head | k | v]`, `[(2 heads + 2 kv_heads) * head_dim, hidden]`.
    pub in_proj: MatrixGroup,
    /// `[hidden, heads * head_dim]`.
    pub out_proj: MatrixView,
    /// f32 `[head_dim]`.
    pub q_norm: View,
    /// f32 `[head_dim]`.
    pub k_norm: View,
}

/// The mixture of experts.
#[derive(Debug)]
pub struct MoeWeights {
    /// `[router | shared expert's gate]`, `[experts + 1, hidden]`.
    pub router: MatrixGroup,
    /// `[gate | up]` of the shared expert, `[2 * shared_inner, hidden]`.
    pub shared_in: MatrixGroup,
    /// `[hidden, shared_inner]`.
    pub shared_down: MatrixView,
    /// The routed experts.
    pub experts: ExpertWeights,
}

/// Matrices of all routed experts; those of expert `e` are rows `e * n .. (e + 1) * n` of each.
#[derive(Debug)]
pub struct ExpertWeights {
    /// `[experts * inner, hidden]`.
    pub gate: MatrixView,
    /// `[experts * inner, hidden]`.
    pub up: MatrixView,
    /// `[experts * hidden, inner]`.
    pub down: MatrixView,
}

/// A layer with its places.
pub(super) struct PlacedLayer {
    input_norm: Place,
    mixer: PlacedMixer,
    post_norm: Place,
    router: PlacedGroup,
    shared_in: PlacedGroup,
    shared_down: PlacedMatrix,
    experts: [PlacedMatrix; 3],
}

enum PlacedMixer {
    Gdn {
        in_proj: PlacedGroup,
        out_proj: PlacedMatrix,
        conv: Place,
        a_log: Place,
        decay_rate: Place,
        dt_bias: Place,
        norm: Place,
    },
    Attention {
        in_proj: PlacedGroup,
        out_proj: PlacedMatrix,
        q_norm: Place,
        k_norm: Place,
    },
}

impl PlacedLayer {
    pub(super) fn new(arena: &mut Arena, index: usize, layer: &file::LayerWeights) -> Result<Self, GpuError> {
        let name = |part: &str| format!("layers.{index}.{part}");
        let input_norm = arena.place_f32(&layer.input_layernorm);
        let mixer = match &layer.mixer {
            file::MixerWeights::GatedDeltaNet(w) => {
                let decay_rate: Vec<f32> = w.a_log.iter().map(|a_log| -a_log.exp()).collect();
                let parts = [&w.in_proj_qkv, &w.in_proj_z, &w.in_proj_b, &w.in_proj_a];
                PlacedMixer::Gdn {
                    in_proj: group(arena, &name("linear_attn.in_proj"), &parts)?,
                    out_proj: place(arena, &name("linear_attn.out_proj"), &w.out_proj)?,
                    conv: arena.place_f32(&w.conv1d),
                    a_log: arena.place_f32(&w.a_log),
                    decay_rate: arena.place_f32(&decay_rate),
                    dt_bias: arena.place_f32(&w.dt_bias),
                    norm: arena.place_f32(&w.norm),
                }
            }
            file::MixerWeights::Attention(w) => PlacedMixer::Attention {
                in_proj: group(arena, &name("self_attn.qkv_proj"), &[&w.q_proj, &w.k_proj, &w.v_proj])?,
                out_proj: place(arena, &name("self_attn.o_proj"), &w.o_proj)?,
                q_norm: arena.place_f32(&w.q_norm),
                k_norm: arena.place_f32(&w.k_norm),
            },
        };
        let post_norm = arena.place_f32(&layer.post_attention_layernorm);
        let moe = &layer.moe;
        let router = group(arena, &name("mlp.gate"), &[&moe.gate, &moe.shared_expert_gate])?;
        let shared = [&moe.shared_gate_proj, &moe.shared_up_proj];
        let shared_in = group(arena, &name("mlp.shared_expert"), &shared)?;
        let mut bank = |part: &str, bank: &file::ExpertBank| {
            let matrices: Vec<&file::Matrix> = bank.experts.iter().collect();
            stack(arena, &name(part), &matrices)
        };
        let experts = [
            bank("mlp.experts.gate_proj", &moe.gate_proj)?,
            bank("mlp.experts.up_proj", &moe.up_proj)?,
            bank("mlp.experts.down_proj", &moe.down_proj)?,
        ];
        let shared_down = place(arena, &name("mlp.shared_expert.down_proj"), &moe.shared_down_proj)?;
        Ok(Self { input_norm, mixer, post_norm, router, shared_in, shared_down, experts })
    }

    /// In the arena, now that it exists.
    pub(super) fn view(&self, filled: &Filled) -> LayerWeights {
        let view = |place: &Place| filled.view(*place);
        let mixer = match &self.mixer {
            PlacedMixer::Gdn { in_proj, out_proj, conv, a_log, decay_rate, dt_bias, norm } => {
                MixerWeights::Gdn(Box::new(GdnWeights {
                    in_proj: in_proj.view(filled),
                    out_proj: out_proj.view(filled),
                    conv: view(conv),
                    a_log: view(a_log),
                    decay_rate: view(decay_rate),
                    dt_bias: view(dt_bias),
                    norm: view(norm),
                }))
            }
            PlacedMixer::Attention { in_proj, out_proj, q_norm, k_norm } => {
                MixerWeights::Attention(Box::new(AttentionWeights {
                    in_proj: in_proj.view(filled),
                    out_proj: out_proj.view(filled),
                    q_norm: view(q_norm),
                    k_norm: view(k_norm),
                }))
            }
        };
        let [gate, up, down] = self.experts.each_ref().map(|matrix| matrix.view(filled));
        LayerWeights {
            input_norm: view(&self.input_norm),
            mixer,
            post_norm: view(&self.post_norm),
            moe: MoeWeights {
                router: self.router.view(filled),
                shared_in: self.shared_in.view(filled),
                shared_down: self.shared_down.view(filled),
                experts: ExpertWeights { gate, up, down },
            },
        }
    }
}
