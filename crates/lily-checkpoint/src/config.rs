//! `config.json` and `generation_config.json`.

/// The dimensions of a model, all read from `config.json` and checked against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Rows of the embedding and of the head (at least the tokenizer's ids).
    pub vocab_size: usize,
    /// Longest context that the model was made for.
    pub max_position_embeddings: usize,
    /// Epsilon of every RMSNorm.
    pub rms_norm_eps: f32,
    /// The head is the embedding.
    pub tie_word_embeddings: bool,
    /// The mixer of each layer.
    pub layers: Vec<LayerKind>,
    /// Full attention's dimensions.
    pub attention: AttentionConfig,
    /// Gated DeltaNet's dimensions.
    pub gated_delta_net: GatedDeltaNetConfig,
    /// The mixture of experts' dimensions.
    pub moe: MoeConfig,
    /// Ids that end a generation, as `config.json` alone names them (union of top level and `text_config`).
    pub eos_token_ids: Vec<u32>,
}

/// Which mixer a layer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// Gated DeltaNet (`linear_attention`).
    GatedDeltaNet,
    /// Softmax attention (`full_attention`).
    Attention,
}

/// Dimensions of gated grouped-query attention.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionConfig {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Leading dims of a head that are rotated (even).
    pub rotary_dim: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
}

/// Dimensions of Gated DeltaNet.
#[derive(Debug, Clone, PartialEq)]
pub struct GatedDeltaNetConfig {
    /// Query and key heads.
    pub key_heads: usize,
    /// Value heads; a multiple of `key_heads`. Value head `h` uses key head `h / (value_heads / key_heads)`.
    pub value_heads: usize,
    /// Elements per query and key head.
    pub key_head_dim: usize,
    /// Elements per value head.
    pub value_head_dim: usize,
    /// Taps of the causal convolution.
    pub conv_width: usize,
}

/// Dimensions of the mixture of experts.
#[derive(Debug, Clone, PartialEq)]
pub struct MoeConfig {
    /// Routed experts.
    pub experts: usize,
    /// Routed experts per token.
    pub experts_per_token: usize,
    /// Inner width of a routed expert.
    pub inner: usize,
    /// Inner width of the shared expert.
    pub shared_inner: usize,
    /// Renormalise the chosen scores to sum to one (default true for this family).
    pub norm_topk_prob: bool,
}

/// Sampling defaults of a checkpoint.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GenerationConfig {
    /// False means greedy.
    pub do_sample: Option<bool>,
    /// Softmax temperature.
    pub temperature: Option<f32>,
    /// Nucleus mass.
    pub top_p: Option<f32>,
    /// Candidates kept; 0 is off.
    pub top_k: Option<usize>,
    /// Smallest kept share of the best candidate's probability.
    pub min_p: Option<f32>,
    /// Divides (positive) or multiplies (negative) logits of seen tokens.
    pub repetition_penalty: Option<f32>,
    /// Ids that end a generation.
    pub eos_token_ids: Vec<u32>,
}
