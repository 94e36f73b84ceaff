//! The dimensions of a small model and its checkpoints.

use super::{Draft, Tensor};
use serde_json::{Value, json};

/// A small model: the layer kinds of the family, dims small enough to test in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Tiny {
    pub(crate) hidden: usize,
    pub(crate) vocab: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) key_heads: usize,
    pub(crate) value_heads: usize,
    pub(crate) linear_dim: usize,
    pub(crate) experts: usize,
    pub(crate) inner: usize,
    /// Type of scales, biases and plain weights.
    pub(crate) dtype: &'static str,
}

impl Tiny {
    /// Every input width is a multiple of 128, so that it can be quantised in any group size.
    pub(crate) fn new() -> Self {
        Self {
            hidden: 128,
            vocab: 24,
            layers: 4,
            heads: 2,
            kv_heads: 1,
            head_dim: 64,
            key_heads: 1,
            value_heads: 2,
            linear_dim: 64,
            experts: 3,
            inner: 128,
            dtype: "BF16",
        }
    }

    /// With a convolution of 32 channels; too narrow for groups, so not to be quantised.
    pub(crate) fn narrow() -> Self {
        Self { linear_dim: 8, hidden: 16, inner: 12, head_dim: 8, ..Self::new() }
    }

    pub(crate) fn channels(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * self.linear_dim
    }

    pub(crate) fn config(&self) -> Value {
        json!({
            "model_type": "qwen3_5_moe",
            "eos_token_id": [3, 2],
            "tie_word_embeddings": false,
            "text_config": {
                "model_type": "qwen3_5_moe_text",
                "hidden_size": self.hidden, "vocab_size": self.vocab, "num_hidden_layers": self.layers,
                "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
                "linear_num_key_heads": self.key_heads, "linear_num_value_heads": self.value_heads,
                "linear_key_head_dim": self.linear_dim, "linear_value_head_dim": self.linear_dim,
                "linear_conv_kernel_dim": 4, "num_experts": self.experts, "num_experts_per_tok": 2,
                "moe_intermediate_size": self.inner, "shared_expert_intermediate_size": self.inner,
                "full_attention_interval": 4, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096,
                "attn_output_gate": true, "attention_bias": false, "hidden_act": "silu", "eos_token_id": 2,
                "rope_parameters": { "rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.25 },
            },
        })
    }

    /// `(module, stack, rows, cols)` of every matrix, names without a prefix.
    fn matrices(&self) -> Vec<(String, Option<usize>, usize, usize)> {
        let (hidden, inner, values) = (self.hidden, self.inner, self.value_heads * self.linear_dim);
        let mut all = vec![("embed_tokens".to_owned(), None, self.vocab, hidden)];
        for layer in 0..self.layers {
            let mut add = |name: &str, stack, rows, cols| {
                all.push((format!("layers.{layer}.{name}"), stack, rows, cols));
            };
            if layer % 4 == 3 {
                add("self_attn.q_proj", None, 2 * self.heads * self.head_dim, hidden);
                add("self_attn.k_proj", None, self.kv_heads * self.head_dim, hidden);
                add("self_attn.v_proj", None, self.kv_heads * self.head_dim, hidden);
                add("self_attn.o_proj", None, hidden, self.heads * self.head_dim);
            } else {
                add("linear_attn.in_proj_qkv", None, self.channels(), hidden);
                add("linear_attn.in_proj_z", None, values, hidden);
                add("linear_attn.in_proj_b", None, self.value_heads, hidden);
                add("linear_attn.in_proj_a", None, self.value_heads, hidden);
                add("linear_attn.out_proj", None, hidden, values);
            }
            add("mlp.gate", None, self.experts, hidden);
            add("mlp.switch_mlp.gate_proj", Some(self.experts), inner, hidden);
            add("mlp.switch_mlp.up_proj", Some(self.experts), inner, hidden);
            add("mlp.switch_mlp.down_proj", Some(self.experts), hidden, inner);
            add("mlp.shared_expert.gate_proj", None, inner, hidden);
            add("mlp.shared_expert.up_proj", None, inner, hidden);
            add("mlp.shared_expert.down_proj", None, hidden, inner);
            add("mlp.shared_expert_gate", None, 1, hidden);
        }
        all.push(("lm_head".to_owned(), None, self.vocab, hidden));
        all
    }

    /// `(name, shape, value)` of every small tensor: constant values, so that a shift shows.
    fn vectors(&self, conv: [usize; 3]) -> Vec<(String, Vec<usize>, f32)> {
        let mut all = vec![("norm.weight".to_owned(), vec![self.hidden], 0.96875)];
        for layer in 0..self.layers {
            let mut add = |name: &str, shape: &[usize], value| {
                all.push((format!("layers.{layer}.{name}"), shape.to_vec(), value));
            };
            add("input_layernorm.weight", &[self.hidden], 0.96875);
            add("post_attention_layernorm.weight", &[self.hidden], 0.96875);
            if layer % 4 == 3 {
                add("self_attn.q_norm.weight", &[self.head_dim], 0.96875);
                add("self_attn.k_norm.weight", &[self.head_dim], 0.96875);
            } else {
                add("linear_attn.conv1d.weight", &conv, 0.5);
                add("linear_attn.A_log", &[self.value_heads], 0.75);
                add("linear_attn.dt_bias", &[self.value_heads], 0.25);
                add("linear_attn.norm.weight", &[self.linear_dim], 1.0);
            }
        }
        all
    }

    /// Converted by MLX and quantised; a different scheme per module where `scheme` says so (`None`: plain).
    pub(crate) fn quantised(&self, scheme: impl Fn(&str) -> Option<(usize, usize)>) -> Draft {
        let mut tensors = Vec::new();
        for (seed, (module, stack, rows, cols)) in self.matrices().into_iter().enumerate() {
            let name = mlx_name(&module);
            let shape = |last| stack.into_iter().chain([rows, last]).collect::<Vec<usize>>();
            let Some((bits, group)) = scheme(&module) else {
                let count = shape(cols).iter().product();
                tensors.push(Tensor::floats(
                    format!("{name}.weight"),
                    self.dtype,
                    &shape(cols),
                    &ramp(seed, count),
                ));
                continue;
            };
            let count = shape(cols).iter().product::<usize>();
            let codes: Vec<u8> = (0..count).map(|i| ((i * 7 + i / 13 + seed) % (1 << bits)) as u8).collect();
            tensors.push(Tensor::codes(format!("{name}.weight"), bits, &shape(cols), &codes));
            for part in ["scales", "biases"] {
                let values = ramp(seed + part.len(), count / group);
                tensors.push(Tensor::floats(
                    format!("{name}.{part}"),
                    self.dtype,
                    &shape(cols / group),
                    &values,
                ));
            }
        }
        for (name, shape, value) in self.vectors([self.channels(), 4, 1]) {
            let dtype = if name.ends_with("A_log") { "F32" } else { self.dtype };
            let count = shape.iter().product();
            tensors.push(Tensor::floats(mlx_name(&name), dtype, &shape, &vec![value; count]));
        }
        // MLX writes its tensors in no order that means anything.
        tensors.reverse();
        Draft { config: self.config(), tensors, unpadded: true, shards: 1, others: Vec::new() }
    }

    /// The usual conversion: 4 bits in groups of 64, routers and shared gates in 8 bits, and a config that says so.
    pub(crate) fn converted(&self) -> Draft {
        let eight = |module: &str| module.ends_with("mlp.gate") || module.ends_with("shared_expert_gate");
        let mut draft = self.quantised(|module| Some((if eight(module) { 8 } else { 4 }, 64)));
        let mut quantization = json!({ "group_size": 64, "bits": 4, "mode": "affine" });
        for (module, ..) in self.matrices().iter().filter(|(module, ..)| eight(module)) {
            quantization[mlx_name(module)] = json!({ "group_size": 64, "bits": 8 });
        }
        draft.edit(&json!({ "quantization": quantization, "quantization_config": quantization }));
        draft
    }

    /// Converted by MLX and not quantised.
    pub(crate) fn plain(&self) -> Draft {
        self.quantised(|_| None)
    }

    /// As published: fused experts, `[channels, 1, width]` convolutions, gains minus one. The same model as
    /// [`Self::plain`], up to the rounding of gains to `dtype`.
    pub(crate) fn raw(&self) -> Draft {
        let mut draft = self.plain();
        let up: Vec<Tensor> =
            draft.tensors.extract_if(.., |t| t.name.ends_with("switch_mlp.up_proj.weight")).collect();
        for tensor in &mut draft.tensors {
            let shifted = ["layernorm.weight", "q_norm.weight", "k_norm.weight", "model.norm.weight"];
            if shifted.iter().any(|end| tensor.name.ends_with(end)) {
                let count = tensor.shape[0];
                *tensor =
                    Tensor::floats(tensor.name.clone(), self.dtype, &[count], &vec![0.96875 - 1.0; count]);
            }
            if tensor.name.ends_with("conv1d.weight") {
                tensor.shape.swap(1, 2);
            }
            if let Some(mlp) = tensor.name.strip_suffix("switch_mlp.gate_proj.weight") {
                let up = up.iter().find(|t| t.name.starts_with(mlp)).unwrap();
                let half = tensor.bytes.len() / self.experts;
                let pairs = tensor.bytes.chunks(half).zip(up.bytes.chunks(half));
                tensor.bytes = pairs.flat_map(|(gate, up)| [gate, up].concat()).collect();
                tensor.shape[1] *= 2;
                tensor.name = format!("{mlp}experts.gate_up_proj");
            }
            if let Some(mlp) = tensor.name.strip_suffix("switch_mlp.down_proj.weight") {
                tensor.name = format!("{mlp}experts.down_proj");
            }
            tensor.name = match tensor.name.strip_prefix("language_model.model.") {
                Some(rest) => format!("model.language_model.{rest}"),
                None => tensor.name.replace("language_model.lm_head", "lm_head"),
            };
        }
        draft
    }
}

fn mlx_name(name: &str) -> String {
    if name.starts_with("lm_head") {
        format!("language_model.{name}")
    } else {
        format!("language_model.model.{name}")
    }
}

/// Values that differ from place to place and are exact in every float type.
fn ramp(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 5 + i / 11 + seed * 3) % 127) as f32 / 64.0 - 1.0).collect()
}
