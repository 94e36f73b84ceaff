//! From tensors by name to weights by role.

use crate::{
    AttentionWeights, CheckpointError, DenseMatrix, ExpertBank, GatedDeltaNetWeights, Hint, LayerKind,
    LayerWeights, Matrix, MixerWeights, ModelConfig, ModelWeights, MoeWeights, TensorData,
    error::LISTED,
    matrices::{FLOATS, Reader, part},
    names::{self, Name},
    quant_config::QuantizationConfig,
    table::TensorTable,
};

/// How a checkpoint's small tensors are stored, which the convolutions' shapes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// As published: convolutions `[channels, 1, width]`, a norm's gain is one plus the stored value.
    HuggingFace,
    /// Converted by MLX: convolutions `[channels, width, 1]`, gains as they are.
    Mlx,
}

/// Everything that assembling finds.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) weights: ModelWeights,
    pub(crate) layout: Layout,
    pub(crate) warnings: Vec<String>,
}

/// Gives every tensor of the table its role.
pub(crate) fn assemble(
    config: &ModelConfig,
    quantization: QuantizationConfig,
    table: TensorTable,
) -> Result<Assembled, CheckpointError> {
    let layout = layout(config, &table)?;
    let reader = Reader { table, quantization, missing: Vec::new(), quantised: 0 };
    let mut assembler = Assembler { config, layout, reader };
    let weights = assembler.model()?;
    let Reader { mut table, quantization, missing, quantised } = assembler.reader;
    // Names that are there and not understood explain those that are missing.
    table.refuse_rest(|name| unknown_hint(config, name, missing.len()))?;
    if !missing.is_empty() {
        return Err(CheckpointError::MissingTensors {
            total: missing.len(),
            names: missing.into_iter().take(LISTED).collect(),
            hint: "names are given without their prefix; download the checkpoint again, or see whether config.json \
                   belongs to it"
                .into(),
        });
    }
    let mut warnings = std::mem::take(&mut table.warnings);
    if table.skipped.tensors > 0 {
        let (tensors, megabytes) = (table.skipped.tensors, table.skipped.bytes as f64 / 1e6);
        warnings.push(format!(
            "{tensors} tensors of the vision tower and of multi-token prediction ({megabytes:.1} MB) are not read"
        ));
    }
    if quantization.is_some() && quantised == 0 {
        warnings.push("config.json has `quantization`, but no tensor is quantised".to_owned());
    }
    warnings.extend(quantization.into_warnings());
    Ok(Assembled { weights, layout, warnings })
}

/// Decides the layout by the convolutions alone: nothing else in a checkpoint tells.
fn layout(config: &ModelConfig, table: &TensorTable) -> Result<Layout, CheckpointError> {
    let width = config.gated_delta_net.conv_width;
    let (mut converted, mut raw) = (None, None);
    for conv in table.ending_with(".linear_attn.conv1d.weight") {
        match conv.stored.shape[..] {
            [_, taps, 1] if taps == width => converted = converted.or(Some(&conv.stored.name)),
            [_, 1, taps] if taps == width => raw = raw.or(Some(&conv.stored.name)),
            _ => {
                let channels = config.gated_delta_net.channels();
                return Err(
                    conv.shape_error(format!("[{channels}, {width}, 1] or [{channels}, 1, {width}]"), "")
                );
            }
        }
    }
    match (converted, raw) {
        (Some(converted), Some(raw)) => {
            Err(CheckpointError::MixedLayouts { converted: converted.clone(), raw: raw.clone() })
        }
        (None, Some(_)) => Ok(Layout::HuggingFace),
        // Without any convolution the missing ones will be listed.
        (_, None) => Ok(Layout::Mlx),
    }
}

fn unknown_hint(config: &ModelConfig, name: &str, missing: usize) -> Hint {
    let bare = match names::normalize(name) {
        Name::Model(bare) => bare,
        Name::Skipped | Name::Unknown => name,
    };
    let layer = bare.strip_prefix("layers.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    let mut hint = if layer.is_some_and(|layer| layer >= config.layers.len()) {
        format!("config.json has {} layers (`num_hidden_layers`)", config.layers.len())
    } else if bare.contains(".mlp.experts.") {
        "experts are read stacked: `mlp.switch_mlp.{gate,up,down}_proj`, or `mlp.experts.gate_up_proj` and \
         `mlp.experts.down_proj`"
            .to_owned()
    } else {
        "the checkpoint is not of this architecture, or holds more than the model".to_owned()
    };
    if missing > 0 {
        hint += &format!("; {missing} tensors that the model needs are missing");
    }
    hint.into()
}

struct Assembler<'a> {
    config: &'a ModelConfig,
    layout: Layout,
    reader: Reader,
}

impl Assembler<'_> {
    fn model(&mut self) -> Result<ModelWeights, CheckpointError> {
        let (vocab, hidden) = (self.config.vocab_size, self.config.hidden_size);
        let embed_tokens = self.reader.matrix("embed_tokens", vocab, hidden)?;
        let lm_head = if self.config.tie_word_embeddings {
            self.reader.table.skip("lm_head.", "`tie_word_embeddings` makes the embedding the head");
            let _ = self.reader.quantization.scheme_of("lm_head");
            embed_tokens.clone()
        } else {
            self.reader.matrix("lm_head", vocab, hidden)?
        };
        let norm = self.gain("norm.weight", hidden)?;
        let layers =
            (0..self.config.layers.len()).map(|index| self.layer(index)).collect::<Result<_, _>>()?;
        Ok(ModelWeights { embed_tokens, layers, norm, lm_head })
    }

    fn layer(&mut self, index: usize) -> Result<LayerWeights, CheckpointError> {
        let hidden = self.config.hidden_size;
        let layer = format!("layers.{index}");
        Ok(LayerWeights {
            input_layernorm: self.gain(&format!("{layer}.input_layernorm.weight"), hidden)?,
            post_attention_layernorm: self
                .gain(&format!("{layer}.post_attention_layernorm.weight"), hidden)?,
            mixer: match self.config.layers[index] {
                LayerKind::GatedDeltaNet => {
                    MixerWeights::GatedDeltaNet(self.gated_delta_net(&format!("{layer}.linear_attn"))?)
                }
                LayerKind::Attention => {
                    MixerWeights::Attention(self.attention(&format!("{layer}.self_attn"))?)
                }
            },
            moe: self.moe(&format!("{layer}.mlp"))?,
        })
    }

    /// A norm's gain, as a factor.
    fn gain(&mut self, name: &str, len: usize) -> Result<Vec<f32>, CheckpointError> {
        let mut gain = self.reader.vector(name.to_owned(), &[len])?;
        if self.layout == Layout::HuggingFace {
            gain.iter_mut().for_each(|g| *g += 1.0);
        }
        Ok(gain)
    }

    fn gated_delta_net(&mut self, path: &str) -> Result<GatedDeltaNetWeights, CheckpointError> {
        let (config, hidden) = (&self.config.gated_delta_net, self.config.hidden_size);
        let (channels, width) = (config.channels(), config.conv_width);
        // Both layouts hold the same elements in the same order: one of the dims is 1.
        let conv = match self.layout {
            Layout::HuggingFace => [channels, 1, width],
            Layout::Mlx => [channels, width, 1],
        };
        let reader = &mut self.reader;
        Ok(GatedDeltaNetWeights {
            in_proj_qkv: reader.matrix(&format!("{path}.in_proj_qkv"), channels, hidden)?,
            in_proj_z: reader.matrix(&format!("{path}.in_proj_z"), config.value_width(), hidden)?,
            in_proj_b: reader.matrix(&format!("{path}.in_proj_b"), config.value_heads, hidden)?,
            in_proj_a: reader.matrix(&format!("{path}.in_proj_a"), config.value_heads, hidden)?,
            out_proj: reader.matrix(&format!("{path}.out_proj"), hidden, config.value_width())?,
            conv1d: reader.vector(format!("{path}.conv1d.weight"), &conv)?,
            a_log: reader.vector(format!("{path}.A_log"), &[config.value_heads])?,
            dt_bias: reader.vector(format!("{path}.dt_bias"), &[config.value_heads])?,
            // A plain gain in both layouts.
            norm: reader.vector(format!("{path}.norm.weight"), &[config.value_head_dim])?,
        })
    }

    fn attention(&mut self, path: &str) -> Result<AttentionWeights, CheckpointError> {
        let (config, hidden) = (&self.config.attention, self.config.hidden_size);
        let (queries, keys) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let head_dim = config.head_dim;
        Ok(AttentionWeights {
            q_proj: self.reader.matrix(&format!("{path}.q_proj"), 2 * queries, hidden)?,
            k_proj: self.reader.matrix(&format!("{path}.k_proj"), keys, hidden)?,
            v_proj: self.reader.matrix(&format!("{path}.v_proj"), keys, hidden)?,
            o_proj: self.reader.matrix(&format!("{path}.o_proj"), hidden, queries)?,
            q_norm: self.gain(&format!("{path}.q_norm.weight"), head_dim)?,
            k_norm: self.gain(&format!("{path}.k_norm.weight"), head_dim)?,
        })
    }

    fn moe(&mut self, path: &str) -> Result<MoeWeights, CheckpointError> {
        let (config, hidden) = (&self.config.moe, self.config.hidden_size);
        let shared = config.shared_inner;
        let [gate_proj, up_proj, down_proj] = self.experts(path)?;
        let reader = &mut self.reader;
        Ok(MoeWeights {
            gate: reader.matrix(&format!("{path}.gate"), config.experts, hidden)?,
            gate_proj,
            up_proj,
            down_proj,
            shared_gate_proj: reader.matrix(&format!("{path}.shared_expert.gate_proj"), shared, hidden)?,
            shared_up_proj: reader.matrix(&format!("{path}.shared_expert.up_proj"), shared, hidden)?,
            shared_down_proj: reader.matrix(&format!("{path}.shared_expert.down_proj"), hidden, shared)?,
            shared_expert_gate: reader.matrix(&format!("{path}.shared_expert_gate"), 1, hidden)?,
        })
    }

    /// Gate, up and down matrices of all routed experts: apart (`switch_mlp`), or as Hugging Face fuses them.
    fn experts(&mut self, path: &str) -> Result<[ExpertBank; 3], CheckpointError> {
        let (config, hidden) = (&self.config.moe, self.config.hidden_size);
        let (experts, inner) = (config.experts, config.inner);
        let fused = ["gate_up_proj", "down_proj"].map(|name| format!("{path}.experts.{name}"));
        if fused.iter().any(|name| self.reader.table.contains(name)) {
            let [gate_up, down] = fused.map(|name| self.reader.take(name));
            let (Some(gate_up), Some(down)) = (gate_up, down) else {
                return Ok([const { ExpertBank { experts: Vec::new() } }; 3]);
            };
            gate_up.expect_shape(&[experts, 2 * inner, hidden])?;
            down.expect_shape(&[experts, hidden, inner])?;
            let gate_up = gate_up.data(gate_up.dtype(&FLOATS, "")?);
            let down = down.data(down.dtype(&FLOATS, "")?);
            // Per expert all gate rows, then all up rows.
            let bank = |data: &TensorData, rows, cols, index: fn(usize) -> usize| ExpertBank {
                experts: (0..experts)
                    .map(|e| {
                        Matrix::Dense(DenseMatrix { rows, cols, data: part(data, index(e), &[rows, cols]) })
                    })
                    .collect(),
            };
            return Ok([
                bank(&gate_up, inner, hidden, |e| 2 * e),
                bank(&gate_up, inner, hidden, |e| 2 * e + 1),
                bank(&down, hidden, inner, |e| e),
            ]);
        }
        let path = format!("{path}.switch_mlp");
        Ok([
            self.reader.bank(&format!("{path}.gate_proj"), experts, inner, hidden)?,
            self.reader.bank(&format!("{path}.up_proj"), experts, inner, hidden)?,
            self.reader.bank(&format!("{path}.down_proj"), experts, hidden, inner)?,
        ])
    }
}
