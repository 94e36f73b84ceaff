//! The dimensions of a model, from `config.json`.

use crate::{
    CheckpointError, Hint,
    json::{self, Fields},
    rope,
};

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

// Bounds far above any model of the family: with them no product of two or three dimensions can overflow, and nothing
// is allocated in proportion to a number that a damaged file made up.
const MAX_WIDTH: usize = 1 << 20;
const MAX_VOCAB: usize = 1 << 24;
const MAX_HEADS: usize = 1 << 12;
const MAX_HEAD_DIM: usize = 1 << 12;
const MAX_LAYERS: usize = 1 << 10;
const MAX_EXPERTS: usize = 1 << 14;
const MAX_POSITIONS: usize = 1 << 28;
const MAX_CONV_WIDTH: usize = 64;

const FAMILY_HINT: &str = "Lily runs the mixture-of-experts models of the Qwen3.5/3.6 family (`model_type` qwen3_5_moe), \
                           such as Qwen3.6-35B-A3B";

impl ModelConfig {
    /// Reads the text of a `config.json`: a wrapper with `text_config`, or flat.
    ///
    /// # Errors
    /// [`CheckpointError::Json`] and [`CheckpointError::Config`], with the field.
    pub fn from_json(text: &[u8]) -> Result<Self, CheckpointError> {
        let value = json::parse("config.json", text)?;
        Self::from_fields(&Fields::root("config.json", &value)?)
    }

    pub(crate) fn from_fields(top: &Fields<'_>) -> Result<Self, CheckpointError> {
        let model_type = top.text("model_type")?.ok_or_else(|| {
            top.error(
                "model_type",
                "is missing",
                format!("is this the config.json of a model? {FAMILY_HINT}"),
            )
        })?;
        check_family(top, model_type)?;
        let text = match top.object("text_config")? {
            Some(text) => {
                if let Some(inner) = text.text("model_type")? {
                    check_family(&text, inner)?;
                }
                text
            }
            None => top.clone(),
        };
        refuse_variants(&text)?;

        let hidden_size = text.required_count("hidden_size", 1..=MAX_WIDTH)?;
        let tie = [top.flag("tie_word_embeddings")?, text.flag("tie_word_embeddings")?];
        let mut eos_token_ids = top.token_ids("eos_token_id")?;
        for id in text.token_ids("eos_token_id")? {
            if !eos_token_ids.contains(&id) {
                eos_token_ids.push(id);
            }
        }
        Ok(Self {
            hidden_size,
            vocab_size: text.required_count("vocab_size", 1..=MAX_VOCAB)?,
            max_position_embeddings: text.required_count("max_position_embeddings", 1..=MAX_POSITIONS)?,
            rms_norm_eps: text
                .number("rms_norm_eps", "a number above 0 and below 1", |n| n as f32 > 0.0 && n < 1.0)?
                .ok_or_else(|| text.missing("rms_norm_eps"))? as f32,
            tie_word_embeddings: tie.contains(&Some(true)),
            layers: layers(&text)?,
            attention: attention(&text, hidden_size)?,
            gated_delta_net: gated_delta_net(&text)?,
            moe: moe(&text)?,
            eos_token_ids,
        })
    }
}

impl GatedDeltaNetConfig {
    /// Elements of all keys (and of all queries) of a token.
    pub const fn key_width(&self) -> usize {
        self.key_heads * self.key_head_dim
    }

    /// Elements of all values of a token.
    pub const fn value_width(&self) -> usize {
        self.value_heads * self.value_head_dim
    }

    /// Channels of the convolution, rows of `in_proj_qkv`: all queries, all keys, all values.
    pub const fn channels(&self) -> usize {
        2 * self.key_width() + self.value_width()
    }

    /// The key head that a value head uses.
    pub const fn key_head_of(&self, value_head: usize) -> usize {
        value_head / (self.value_heads / self.key_heads)
    }
}

fn check_family(place: &Fields<'_>, model_type: &str) -> Result<(), CheckpointError> {
    match model_type {
        "qwen3_5_moe" | "qwen3_5_moe_text" => Ok(()),
        "qwen3_5" | "qwen3_5_text" => Err(place.error(
            "model_type",
            format!("is `{model_type}`, a dense model without experts, which is not supported"),
            FAMILY_HINT,
        )),
        other => Err(place.error("model_type", format!("is `{other}`, which is not supported"), FAMILY_HINT)),
    }
}

/// Switches of the architecture that no model of the family sets otherwise.
fn refuse_variants(text: &Fields<'_>) -> Result<(), CheckpointError> {
    for (name, only) in [("attention_bias", false), ("attn_output_gate", true)] {
        if text.flag(name)?.unwrap_or(only) != only {
            return Err(text.error(name, format!("is {}, only {only} is supported", !only), Hint::NONE));
        }
    }
    match text.text("hidden_act")? {
        None | Some("silu" | "swish") => {}
        Some(other) => {
            return Err(text.error(
                "hidden_act",
                format!("is `{other}`, only silu is supported"),
                Hint::NONE,
            ));
        }
    }
    // Named by Qwen3-Next, the family's ancestor: layers with a plain feed-forward instead of experts.
    if text.get("mlp_only_layers").is_some_and(|v| v.as_array().is_none_or(|layers| !layers.is_empty())) {
        return Err(text.error(
            "mlp_only_layers",
            "is not empty, layers without experts are not supported",
            Hint::NONE,
        ));
    }
    if text.count("decoder_sparse_step", 0..=MAX_LAYERS)?.unwrap_or(1) != 1 {
        return Err(text.error(
            "decoder_sparse_step",
            "is not 1: layers without experts are not supported",
            Hint::NONE,
        ));
    }
    Ok(())
}

fn layers(text: &Fields<'_>) -> Result<Vec<LayerKind>, CheckpointError> {
    let count = text.required_count("num_hidden_layers", 1..=MAX_LAYERS)?;
    let interval = text.count("full_attention_interval", 1..=MAX_LAYERS)?;
    let layers: Vec<LayerKind> = match (text.get("layer_types"), interval) {
        (Some(value), _) => {
            let wrong = |problem: String| text.error("layer_types", problem, Hint::NONE);
            let names = value.as_array().ok_or_else(|| wrong("must be a list".to_owned()))?;
            if names.len() != count {
                return Err(wrong(format!(
                    "has {} entries for {count} layers (`num_hidden_layers`)",
                    names.len()
                )));
            }
            let kind = |(layer, name): (usize, &serde_json::Value)| match name.as_str() {
                Some("linear_attention") => Ok(LayerKind::GatedDeltaNet),
                Some("full_attention") => Ok(LayerKind::Attention),
                _ => Err(wrong(format!(
                    "has {} for layer {layer}, expected \"linear_attention\" or \"full_attention\"",
                    json::brief(name)
                ))),
            };
            names.iter().enumerate().map(kind).collect::<Result<_, _>>()?
        }
        (None, Some(interval)) => {
            let kind = |layer: usize| match (layer + 1).is_multiple_of(interval) {
                true => LayerKind::Attention,
                false => LayerKind::GatedDeltaNet,
            };
            (0..count).map(kind).collect()
        }
        (None, None) => {
            return Err(text.error(
                "layer_types",
                "is missing, and so is `full_attention_interval`",
                Hint::NONE,
            ));
        }
    };
    if !layers.contains(&LayerKind::GatedDeltaNet) {
        let problem = "has no linear_attention layer; the family has them, and their convolution tells how norms are stored";
        return Err(text.error("layer_types", problem, Hint::NONE));
    }
    Ok(layers)
}

fn attention(text: &Fields<'_>, hidden_size: usize) -> Result<AttentionConfig, CheckpointError> {
    let heads = text.required_count("num_attention_heads", 1..=MAX_HEADS)?;
    let kv_heads = text.count("num_key_value_heads", 1..=MAX_HEADS)?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        let problem = format!("is {kv_heads}, which does not divide the {heads} of `num_attention_heads`");
        return Err(text.error("num_key_value_heads", problem, Hint::NONE));
    }
    let head_dim = match text.count("head_dim", 1..=MAX_HEAD_DIM)? {
        Some(head_dim) => head_dim,
        None if hidden_size.is_multiple_of(heads) && hidden_size / heads <= MAX_HEAD_DIM => {
            hidden_size / heads
        }
        None => return Err(text.missing("head_dim")),
    };
    let rope = rope::read(text, head_dim)?;
    Ok(AttentionConfig { heads, kv_heads, head_dim, rotary_dim: rope.rotary_dim, rope_theta: rope.theta })
}

fn gated_delta_net(text: &Fields<'_>) -> Result<GatedDeltaNetConfig, CheckpointError> {
    let config = GatedDeltaNetConfig {
        key_heads: text.required_count("linear_num_key_heads", 1..=MAX_HEADS)?,
        value_heads: text.required_count("linear_num_value_heads", 1..=MAX_HEADS)?,
        key_head_dim: text.required_count("linear_key_head_dim", 1..=MAX_HEAD_DIM)?,
        value_head_dim: text.required_count("linear_value_head_dim", 1..=MAX_HEAD_DIM)?,
        // A width of one would leave the stored layout, and with it the norms, undecided.
        conv_width: text.required_count("linear_conv_kernel_dim", 2..=MAX_CONV_WIDTH)?,
    };
    if !config.value_heads.is_multiple_of(config.key_heads) {
        let problem = format!(
            "is {}, not a multiple of the {} of `linear_num_key_heads`",
            config.value_heads, config.key_heads
        );
        return Err(text.error("linear_num_value_heads", problem, Hint::NONE));
    }
    Ok(config)
}

fn moe(text: &Fields<'_>) -> Result<MoeConfig, CheckpointError> {
    let experts = text.required_count("num_experts", 1..=MAX_EXPERTS)?;
    Ok(MoeConfig {
        experts,
        experts_per_token: text.required_count("num_experts_per_tok", 1..=experts)?,
        inner: text.required_count("moe_intermediate_size", 1..=MAX_WIDTH)?,
        shared_inner: text.required_count("shared_expert_intermediate_size", 1..=MAX_WIDTH)?,
        norm_topk_prob: text.flag("norm_topk_prob")?.unwrap_or(true),
    })
}
