//! The model's weights as the CPU uses them.

use crate::{CpuError, Precision, gdn::MAX_CONV, input::Forms, linear::Linear};
use lily_checkpoint::{
    AttentionWeights, Checkpoint, ExpertBank, GatedDeltaNetWeights, LayerWeights, MixerWeights, ModelConfig,
    MoeWeights,
};

/// The whole model.
pub(crate) struct Model {
    pub config: ModelConfig,
    pub embed_tokens: Linear,
    pub layers: Vec<Layer>,
    pub norm: Vec<f32>,
    pub lm_head: Stack,
    /// What the inputs of all layers need: those of hidden width before a mixer and before the experts,
    pub hidden_forms: Forms,
    /// of a mixer's output projection,
    pub mixed_forms: [Forms; 2],
    /// of the routed experts' down projections
    pub inner_forms: Forms,
    /// and of the shared one's.
    pub shared_forms: Forms,
}

/// A decoder layer.
pub(crate) struct Layer {
    pub input_norm: Vec<f32>,
    pub mixer: Mixer,
    pub post_norm: Vec<f32>,
    pub moe: Moe,
}

/// The mixer of a layer.
pub(crate) enum Mixer {
    Gdn(Box<Gdn>),
    Attention(Box<Attention>),
}

/// Gated DeltaNet. The input projections give `[q | k | v | z | b | a]`.
pub(crate) struct Gdn {
    pub in_proj: Stack,
    pub out_proj: Stack,
    /// `[width][channels]`: transposed, so that channels are adjacent.
    pub conv: Vec<f32>,
    /// `-exp(A_log)`.
    pub decay_rate: Vec<f32>,
    pub dt_bias: Vec<f32>,
    pub norm: Vec<f32>,
}

/// Gated attention. The input projections give `[(q | gate) per head | k | v]`.
pub(crate) struct Attention {
    pub in_proj: Stack,
    pub out_proj: Stack,
    pub q_norm: Vec<f32>,
    pub k_norm: Vec<f32>,
}

/// Experts.
pub(crate) struct Moe {
    pub router: Linear,
    pub shared_expert_gate: Linear,
    pub experts: Vec<Expert>,
    pub shared: Expert,
}

/// `down(silu(gate x) * up x)`.
pub(crate) struct Expert {
    pub gate: Linear,
    pub up: Linear,
    pub down: Linear,
}

/// Matrices that share an input, their outputs one after the other.
pub(crate) struct Stack {
    pub parts: Vec<Linear>,
    pub rows: usize,
}

impl Stack {
    fn new(parts: Vec<Linear>) -> Self {
        Self { rows: parts.iter().map(Linear::rows).sum(), parts }
    }

    /// Bytes of all matrices.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(Linear::bytes).sum()
    }
}

impl Model {
    /// Takes shares of a checkpoint's bytes; copies the small vectors.
    pub(crate) fn new(checkpoint: &Checkpoint, precision: Precision) -> Result<Self, CpuError> {
        let config = checkpoint.config.clone();
        let weights = &checkpoint.weights;
        check_dimensions(&config)?;
        let hidden = config.hidden_size;
        let layers: Vec<Layer> = weights
            .layers
            .iter()
            .enumerate()
            .map(|(index, layer)| Layer::new(&config, layer, index))
            .collect::<Result<_, _>>()?;
        if layers.len() != config.layers.len() {
            return Err(CpuError::Dimensions(format!(
                "{} layers of weights, {} in the config",
                layers.len(),
                config.layers.len()
            )));
        }
        let lm_head = Stack::new(vec![linear(&weights.lm_head, "lm_head", config.vocab_size, hidden)?]);
        let mut model = Self {
            embed_tokens: linear(&weights.embed_tokens, "embed_tokens", config.vocab_size, hidden)?,
            norm: vector(&weights.norm, "norm", hidden)?,
            config,
            layers,
            hidden_forms: Forms::of(precision, &lm_head.parts),
            lm_head,
            mixed_forms: Default::default(),
            inner_forms: Forms::default(),
            shared_forms: Forms::default(),
        };
        for layer in &model.layers {
            let (in_proj, out_proj, kind) = match &layer.mixer {
                Mixer::Gdn(gdn) => (&gdn.in_proj, &gdn.out_proj, 0),
                Mixer::Attention(attention) => (&attention.in_proj, &attention.out_proj, 1),
            };
            model.hidden_forms.merge(&Forms::of(precision, &in_proj.parts));
            model.mixed_forms[kind].merge(&Forms::of(precision, &out_proj.parts));
            for expert in layer.moe.experts.iter().chain([&layer.moe.shared]) {
                model.hidden_forms.merge(&Forms::of(precision, [&expert.gate, &expert.up]));
            }
            for expert in &layer.moe.experts {
                model.inner_forms.merge(&Forms::of(precision, [&expert.down]));
            }
            model.shared_forms.merge(&Forms::of(precision, [&layer.moe.shared.down]));
        }
        Ok(model)
    }
}

impl Model {
    /// Every matrix that is read as a whole, in the order in which a token meets them: all but the embedding, of which a
    /// token takes one row.
    pub(crate) fn linears_mut(&mut self) -> impl Iterator<Item = &mut Linear> {
        let layers = self.layers.iter_mut().flat_map(|layer| {
            let (in_proj, out_proj) = match &mut layer.mixer {
                Mixer::Gdn(gdn) => (&mut gdn.in_proj, &mut gdn.out_proj),
                Mixer::Attention(attention) => (&mut attention.in_proj, &mut attention.out_proj),
            };
            let moe = &mut layer.moe;
            let routers = [&mut moe.router, &mut moe.shared_expert_gate];
            let experts = moe.experts.iter_mut().chain([&mut moe.shared]);
            let experts = experts.flat_map(|expert| [&mut expert.gate, &mut expert.up, &mut expert.down]);
            in_proj.parts.iter_mut().chain(&mut out_proj.parts).chain(routers).chain(experts)
        });
        layers.chain(&mut self.lm_head.parts)
    }
}

/// What the kernels need of the dimensions beyond what a config is checked for.
fn check_dimensions(config: &ModelConfig) -> Result<(), CpuError> {
    let gdn = &config.gated_delta_net;
    let attention = &config.attention;
    let moe = &config.moe;
    let positive = [
        config.hidden_size,
        config.vocab_size,
        gdn.key_heads,
        gdn.value_heads,
        gdn.key_head_dim,
        gdn.value_head_dim,
        gdn.conv_width,
        attention.heads,
        attention.kv_heads,
        attention.head_dim,
        moe.experts,
        moe.experts_per_token,
        moe.inner,
        moe.shared_inner,
    ];
    let fits = positive.iter().all(|&dimension| dimension > 0)
        && gdn.value_heads.is_multiple_of(gdn.key_heads)
        && attention.heads.is_multiple_of(attention.kv_heads)
        && attention.rotary_dim <= attention.head_dim
        && attention.rotary_dim.is_multiple_of(2)
        && moe.experts_per_token <= moe.experts
        && gdn.conv_width <= MAX_CONV;
    if fits {
        Ok(())
    } else {
        Err(CpuError::Dimensions(format!("dimensions that do not fit each other: {config:?}")))
    }
}

fn linear(
    matrix: &lily_checkpoint::Matrix,
    name: &str,
    rows: usize,
    cols: usize,
) -> Result<Linear, CpuError> {
    if (matrix.rows(), matrix.cols()) != (rows, cols) {
        let what = format!("[{}, {}], [{rows}, {cols}] expected", matrix.rows(), matrix.cols());
        return Err(CpuError::Weights { name: name.to_owned(), what });
    }
    Linear::new(matrix, name)
}

fn vector(values: &[f32], name: &str, len: usize) -> Result<Vec<f32>, CpuError> {
    if values.len() == len {
        return Ok(values.to_vec());
    }
    Err(CpuError::Weights { name: name.to_owned(), what: format!("{} values, {len} expected", values.len()) })
}

impl Layer {
    fn new(config: &ModelConfig, weights: &LayerWeights, index: usize) -> Result<Self, CpuError> {
        let name = |part: &str| format!("layers.{index}.{part}");
        let hidden = config.hidden_size;
        Ok(Self {
            input_norm: vector(&weights.input_layernorm, &name("input_layernorm"), hidden)?,
            post_norm: vector(&weights.post_attention_layernorm, &name("post_attention_layernorm"), hidden)?,
            mixer: match &weights.mixer {
                MixerWeights::GatedDeltaNet(w) => Mixer::Gdn(Box::new(Gdn::new(config, w, &name)?)),
                MixerWeights::Attention(w) => Mixer::Attention(Box::new(Attention::new(config, w, &name)?)),
            },
            moe: Moe::new(config, &weights.moe, &name)?,
        })
    }
}

impl Gdn {
    fn new(
        config: &ModelConfig,
        w: &GatedDeltaNetWeights,
        name: &impl Fn(&str) -> String,
    ) -> Result<Self, CpuError> {
        let (dims, hidden) = (&config.gated_delta_net, config.hidden_size);
        let heads = dims.value_heads;
        let values = heads * dims.value_head_dim;
        let channels = 2 * dims.key_heads * dims.key_head_dim + values;
        let taps = vector(&w.conv1d, &name("conv1d"), channels * dims.conv_width)?;
        let mut conv = vec![0.0; taps.len()];
        for (channel, taps) in taps.chunks_exact(dims.conv_width).enumerate() {
            for (tap, value) in taps.iter().enumerate() {
                conv[tap * channels + channel] = *value;
            }
        }
        Ok(Self {
            in_proj: Stack::new(vec![
                linear(&w.in_proj_qkv, &name("in_proj_qkv"), channels, hidden)?,
                linear(&w.in_proj_z, &name("in_proj_z"), values, hidden)?,
                linear(&w.in_proj_b, &name("in_proj_b"), heads, hidden)?,
                linear(&w.in_proj_a, &name("in_proj_a"), heads, hidden)?,
            ]),
            out_proj: Stack::new(vec![linear(&w.out_proj, &name("out_proj"), hidden, values)?]),
            conv,
            decay_rate: vector(&w.a_log, &name("A_log"), heads)?.iter().map(|a| -a.exp()).collect(),
            dt_bias: vector(&w.dt_bias, &name("dt_bias"), heads)?,
            norm: vector(&w.norm, &name("norm"), dims.value_head_dim)?,
        })
    }
}

impl Attention {
    fn new(
        config: &ModelConfig,
        w: &AttentionWeights,
        name: &impl Fn(&str) -> String,
    ) -> Result<Self, CpuError> {
        let (dims, hidden) = (&config.attention, config.hidden_size);
        let (queries, keys) = (dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim);
        Ok(Self {
            in_proj: Stack::new(vec![
                linear(&w.q_proj, &name("q_proj"), 2 * queries, hidden)?,
                linear(&w.k_proj, &name("k_proj"), keys, hidden)?,
                linear(&w.v_proj, &name("v_proj"), keys, hidden)?,
            ]),
            out_proj: Stack::new(vec![linear(&w.o_proj, &name("o_proj"), hidden, queries)?]),
            q_norm: vector(&w.q_norm, &name("q_norm"), dims.head_dim)?,
            k_norm: vector(&w.k_norm, &name("k_norm"), dims.head_dim)?,
        })
    }
}

impl Moe {
    fn new(config: &ModelConfig, w: &MoeWeights, name: &impl Fn(&str) -> String) -> Result<Self, CpuError> {
        let (dims, hidden) = (&config.moe, config.hidden_size);
        let expert = |bank: &ExpertBank, index: usize, part: &str, rows, cols| {
            let name = name(&format!("experts.{index}.{part}"));
            match bank.experts.get(index) {
                Some(matrix) => linear(matrix, &name, rows, cols),
                None => Err(CpuError::Weights { name, what: "is missing".to_owned() }),
            }
        };
        let experts = (0..dims.experts)
            .map(|index| {
                Ok(Expert {
                    gate: expert(&w.gate_proj, index, "gate_proj", dims.inner, hidden)?,
                    up: expert(&w.up_proj, index, "up_proj", dims.inner, hidden)?,
                    down: expert(&w.down_proj, index, "down_proj", hidden, dims.inner)?,
                })
            })
            .collect::<Result<_, CpuError>>()?;
        let inner = dims.shared_inner;
        Ok(Self {
            router: linear(&w.gate, &name("mlp.gate"), dims.experts, hidden)?,
            shared_expert_gate: linear(&w.shared_expert_gate, &name("mlp.shared_expert_gate"), 1, hidden)?,
            experts,
            shared: Expert {
                gate: linear(&w.shared_gate_proj, &name("mlp.shared_expert.gate_proj"), inner, hidden)?,
                up: linear(&w.shared_up_proj, &name("mlp.shared_expert.up_proj"), inner, hidden)?,
                down: linear(&w.shared_down_proj, &name("mlp.shared_expert.down_proj"), hidden, inner)?,
            },
        })
    }
}
