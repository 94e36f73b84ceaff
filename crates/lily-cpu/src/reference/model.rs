//! From a checkpoint's weights to the reference's.

use super::MatrixRows;
use lily_checkpoint as checkpoint;
use lily_kernels::reference::{
    AttentionShape, AttentionWeights, ExpertWeights, GatedDeltaNetShape, GatedDeltaNetWeights, Layer, Mixer,
    Model, MoeShape, MoeWeights, Rotary, RowSource, Shape,
};

/// The reference model on a checkpoint's weights, which stay packed: bytes are shared, not copied.
pub fn reference_model(checkpoint: &checkpoint::Checkpoint) -> Model {
    let weights = &checkpoint.weights;
    Model {
        shape: shape(&checkpoint.config),
        embed_tokens: rows(&weights.embed_tokens),
        layers: weights.layers.iter().map(layer).collect(),
        norm: weights.norm.clone(),
        lm_head: rows(&weights.lm_head),
    }
}

fn shape(config: &checkpoint::ModelConfig) -> Shape {
    let (a, g, m) = (&config.attention, &config.gated_delta_net, &config.moe);
    let eps = config.rms_norm_eps;
    Shape {
        hidden: config.hidden_size,
        eps,
        attention: AttentionShape {
            heads: a.heads,
            kv_heads: a.kv_heads,
            head_dim: a.head_dim,
            rotary: Rotary { dim: a.rotary_dim, theta: f64::from(a.rope_theta) },
            eps,
        },
        gated_delta_net: GatedDeltaNetShape {
            key_heads: g.key_heads,
            value_heads: g.value_heads,
            key_dim: g.key_head_dim,
            value_dim: g.value_head_dim,
            conv_width: g.conv_width,
            eps,
        },
        moe: MoeShape {
            experts: m.experts,
            experts_per_token: m.experts_per_token,
            renormalise: m.norm_topk_prob,
        },
    }
}

fn rows(matrix: &checkpoint::Matrix) -> Box<dyn RowSource> {
    Box::new(MatrixRows(matrix.clone()))
}

fn layer(w: &checkpoint::LayerWeights) -> Layer {
    Layer {
        input_layernorm: w.input_layernorm.clone(),
        post_attention_layernorm: w.post_attention_layernorm.clone(),
        mixer: match &w.mixer {
            checkpoint::MixerWeights::Attention(w) => Mixer::Attention(AttentionWeights {
                q_proj: rows(&w.q_proj),
                k_proj: rows(&w.k_proj),
                v_proj: rows(&w.v_proj),
                o_proj: rows(&w.o_proj),
                q_norm: w.q_norm.clone(),
                k_norm: w.k_norm.clone(),
            }),
            checkpoint::MixerWeights::GatedDeltaNet(w) => Mixer::GatedDeltaNet(GatedDeltaNetWeights {
                in_proj_qkv: rows(&w.in_proj_qkv),
                in_proj_z: rows(&w.in_proj_z),
                in_proj_b: rows(&w.in_proj_b),
                in_proj_a: rows(&w.in_proj_a),
                out_proj: rows(&w.out_proj),
                conv1d: w.conv1d.clone(),
                a_log: w.a_log.clone(),
                dt_bias: w.dt_bias.clone(),
                norm: w.norm.clone(),
            }),
        },
        moe: moe(&w.moe),
    }
}

fn moe(w: &checkpoint::MoeWeights) -> MoeWeights {
    let banks = w.gate_proj.experts.iter().zip(&w.up_proj.experts).zip(&w.down_proj.experts);
    let expert =
        |gate, up, down| ExpertWeights { gate_proj: rows(gate), up_proj: rows(up), down_proj: rows(down) };
    MoeWeights {
        gate: rows(&w.gate),
        experts: banks.map(|((gate, up), down)| expert(gate, up, down)).collect(),
        shared_expert: expert(&w.shared_gate_proj, &w.shared_up_proj, &w.shared_down_proj),
        shared_expert_gate: rows(&w.shared_expert_gate),
    }
}
