//! The model's weights by role. Large matrices stay as bytes in the file; small vectors (gains, gates, the
//! convolution) are widened to f32 at load, with the norm shift of raw Hugging Face checkpoints applied.

use crate::{Quantization, TensorData};

/// A matrix `[rows, cols]` that multiplies a vector of `cols` elements from the left: `y = W x`.
#[derive(Debug, Clone)]
pub enum Matrix {
    /// MLX affine quantisation.
    Affine(AffineMatrix),
    /// Plain floating-point rows.
    Dense(DenseMatrix),
}

/// `w[r][c] = scale[r][c / group] * code[r][c] + bias[r][c / group]`.
#[derive(Debug, Clone)]
pub struct AffineMatrix {
    /// Output dimension.
    pub rows: usize,
    /// Input dimension, a multiple of the group size.
    pub cols: usize,
    /// Code width and group size.
    pub quantization: Quantization,
    /// `U32 [rows, cols * bits / 32]`, codes packed low bits first along the row.
    pub codes: TensorData,
    /// `[rows, cols / group]`, bf16, f16 or f32.
    pub scales: TensorData,
    /// `[rows, cols / group]`, bf16, f16 or f32.
    pub biases: TensorData,
}

/// Unquantised rows, bf16, f16 or f32.
#[derive(Debug, Clone)]
pub struct DenseMatrix {
    /// Output dimension.
    pub rows: usize,
    /// Input dimension.
    pub cols: usize,
    /// `[rows, cols]`.
    pub data: TensorData,
}

/// One matrix per routed expert, all of one shape and one quantisation.
#[derive(Debug, Clone)]
pub struct ExpertBank {
    /// Matrix `e` belongs to expert `e`.
    pub experts: Vec<Matrix>,
}

/// All weights of a model.
#[derive(Debug, Clone)]
pub struct ModelWeights {
    /// `[vocab, hidden]`.
    pub embed_tokens: Matrix,
    /// One entry per layer.
    pub layers: Vec<LayerWeights>,
    /// Gain of the final RMSNorm, `[hidden]`.
    pub norm: Vec<f32>,
    /// `[vocab, hidden]`; the embedding again when the checkpoint ties them.
    pub lm_head: Matrix,
}

/// One decoder layer: `h = x + mixer(norm(x)); out = h + moe(norm(h))`.
#[derive(Debug, Clone)]
pub struct LayerWeights {
    /// Gain before the mixer, `[hidden]`.
    pub input_layernorm: Vec<f32>,
    /// Gain before the mixture of experts, `[hidden]`.
    pub post_attention_layernorm: Vec<f32>,
    /// Attention or Gated DeltaNet.
    pub mixer: MixerWeights,
    /// The mixture of experts.
    pub moe: MoeWeights,
}

/// The token mixer of a layer.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a few dozen of them exist, all live as long as the model")]
pub enum MixerWeights {
    /// Linear attention.
    GatedDeltaNet(GatedDeltaNetWeights),
    /// Softmax attention.
    Attention(AttentionWeights),
}

/// Gated DeltaNet. `K` key heads, `V` value heads, head dims `dk` and `dv`.
#[derive(Debug, Clone)]
pub struct GatedDeltaNetWeights {
    /// `[2 K dk + V dv, hidden]`: all q rows, all k rows, all v rows.
    pub in_proj_qkv: Matrix,
    /// `[V dv, hidden]`.
    pub in_proj_z: Matrix,
    /// `[V, hidden]`: beta before its sigmoid.
    pub in_proj_b: Matrix,
    /// `[V, hidden]`: decay before softplus.
    pub in_proj_a: Matrix,
    /// `[hidden, V dv]`.
    pub out_proj: Matrix,
    /// Depthwise causal convolution, `[channels, width]`, oldest tap first.
    pub conv1d: Vec<f32>,
    /// `[V]`.
    pub a_log: Vec<f32>,
    /// `[V]`.
    pub dt_bias: Vec<f32>,
    /// Plain gain of the gated head norm, `[dv]`.
    pub norm: Vec<f32>,
}

/// Gated grouped-query attention.
#[derive(Debug, Clone)]
pub struct AttentionWeights {
    /// `[heads * 2 * head_dim, hidden]`; per head its query rows, then its gate rows.
    pub q_proj: Matrix,
    /// `[kv_heads * head_dim, hidden]`.
    pub k_proj: Matrix,
    /// `[kv_heads * head_dim, hidden]`.
    pub v_proj: Matrix,
    /// `[hidden, heads * head_dim]`.
    pub o_proj: Matrix,
    /// Gain over a query head, `[head_dim]`.
    pub q_norm: Vec<f32>,
    /// Gain over a key head, `[head_dim]`.
    pub k_norm: Vec<f32>,
}

/// Routed experts and the shared expert.
#[derive(Debug, Clone)]
pub struct MoeWeights {
    /// Router, `[experts, hidden]`.
    pub gate: Matrix,
    /// Per expert `[inner, hidden]`.
    pub gate_proj: ExpertBank,
    /// Per expert `[inner, hidden]`.
    pub up_proj: ExpertBank,
    /// Per expert `[hidden, inner]`.
    pub down_proj: ExpertBank,
    /// `[shared_inner, hidden]`.
    pub shared_gate_proj: Matrix,
    /// `[shared_inner, hidden]`.
    pub shared_up_proj: Matrix,
    /// `[hidden, shared_inner]`.
    pub shared_down_proj: Matrix,
    /// `[1, hidden]`.
    pub shared_expert_gate: Matrix,
}

impl Matrix {
    /// Output dimension.
    pub fn rows(&self) -> usize {
        match self {
            Self::Affine(m) => m.rows,
            Self::Dense(m) => m.rows,
        }
    }

    /// Input dimension.
    pub fn cols(&self) -> usize {
        match self {
            Self::Affine(m) => m.cols,
            Self::Dense(m) => m.cols,
        }
    }
}
