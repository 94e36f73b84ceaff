//! What a checkpoint is, in numbers.

use crate::{
    Checkpoint, Dtype, ExpertBank, LayerWeights, Matrix, MixerWeights, ModelConfig, ModelWeights, MoeWeights,
    Quantization,
};
use std::{collections::BTreeMap, fmt};

/// A part of the model that costs memory and bandwidth of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Token embedding.
    Embedding,
    /// Gated DeltaNet mixers, with their convolutions, gates and norms.
    GatedDeltaNetMixers,
    /// Attention mixers, with the norms of queries and keys.
    AttentionMixers,
    /// Routed experts.
    RoutedExperts,
    /// Shared experts.
    SharedExperts,
    /// Routers and the shared experts' gates.
    Routers,
    /// Norms of the residual stream.
    Norms,
    /// Output head; without parameters of its own where it is the embedding.
    Head,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Embedding => "embedding",
            Self::GatedDeltaNetMixers => "GDN mixers",
            Self::AttentionMixers => "attention mixers",
            Self::RoutedExperts => "routed experts",
            Self::SharedExperts => "shared experts",
            Self::Routers => "routers",
            Self::Norms => "norms",
            Self::Head => "head",
        })
    }
}

/// How matrices are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// Affine codes.
    Affine(Quantization),
    /// Plain elements.
    Dense(Dtype),
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affine(q) => write!(f, "{}-bit, groups of {}", q.bits.get(), q.group_size.get()),
            Self::Dense(dtype) => f.pad(dtype.name()),
        }
    }
}

/// Size of a part or of a kind of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Matrices and vectors.
    pub tensors: u64,
    /// Weights, whatever their width.
    pub parameters: u64,
    /// Bytes that they take: matrices as stored, vectors as f32.
    pub bytes: u64,
    /// Parameters that one decoded token uses.
    pub active_parameters: u64,
    /// Bytes that one decoded token reads.
    pub active_bytes: u64,
}

impl std::ops::AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.tensors += other.tensors;
        self.parameters += other.parameters;
        self.bytes += other.bytes;
        self.active_parameters += other.active_parameters;
        self.active_bytes += other.active_bytes;
    }
}

/// Sizes of a checkpoint's weights, for `lily info` and for bandwidth floors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// By part, each part once.
    pub parts: Vec<(Part, Size)>,
    /// Matrices by how they are stored, widest use first.
    pub storage: Vec<(Storage, Size)>,
}

impl Checkpoint {
    /// Counts parameters and bytes.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.config, &self.weights)
    }
}

impl Summary {
    /// Counts parameters and bytes of a model's weights.
    pub fn of(config: &ModelConfig, weights: &ModelWeights) -> Self {
        let mut count = Count { config, parts: BTreeMap::new(), storage: BTreeMap::new() };
        count.model(weights);
        let mut storage: Vec<_> = count.storage.into_iter().collect();
        storage.sort_by_key(|(_, size)| std::cmp::Reverse(size.parameters));
        Self { parts: count.parts.into_iter().collect(), storage }
    }

    /// All parts together.
    pub fn total(&self) -> Size {
        let mut total = Size::default();
        for (_, size) in &self.parts {
            total += *size;
        }
        total
    }
}

impl ModelConfig {
    /// Elements that the KV cache gains with each token of context, over all attention layers.
    pub fn kv_elements_per_token(&self) -> usize {
        let layers = self.layers.iter().filter(|kind| **kind == crate::LayerKind::Attention).count();
        layers * 2 * self.attention.kv_heads * self.attention.head_dim
    }

    /// Elements of all recurrent states of one sequence, whatever its length.
    pub fn recurrent_state_elements(&self) -> usize {
        let net = &self.gated_delta_net;
        self.gated_delta_net_layers() * net.value_heads * net.key_head_dim * net.value_head_dim
    }

    /// Elements of all convolution windows of one sequence: the inputs that the next token's convolution looks back on.
    pub fn conv_state_elements(&self) -> usize {
        self.gated_delta_net_layers()
            * self.gated_delta_net.channels()
            * (self.gated_delta_net.conv_width - 1)
    }

    fn gated_delta_net_layers(&self) -> usize {
        self.layers.iter().filter(|kind| **kind == crate::LayerKind::GatedDeltaNet).count()
    }
}

/// What share of a matrix one decoded token reads.
#[derive(Clone, Copy)]
enum Use {
    All,
    /// One row: an embedding lookup.
    Row,
    /// Some experts of all.
    Experts {
        used: u64,
        of: u64,
    },
}

impl Use {
    fn of(self, whole: u64, rows: u64) -> u64 {
        match self {
            Self::All => whole,
            Self::Row => whole / rows.max(1),
            Self::Experts { used, of } => whole * used / of.max(1),
        }
    }
}

struct Count<'a> {
    config: &'a ModelConfig,
    parts: BTreeMap<Part, Size>,
    storage: BTreeMap<Storage, Size>,
}

impl Count<'_> {
    fn matrix(&mut self, part: Part, matrix: &Matrix, used: Use) {
        let rows = matrix.rows() as u64;
        let (parameters, bytes) = (rows * matrix.cols() as u64, matrix.stored_bytes() as u64);
        let size = Size {
            tensors: 1,
            parameters,
            bytes,
            active_parameters: used.of(parameters, rows),
            active_bytes: used.of(bytes, rows),
        };
        let storage = match matrix {
            Matrix::Affine(matrix) => Storage::Affine(matrix.quantization),
            Matrix::Dense(matrix) => Storage::Dense(matrix.data.dtype),
        };
        *self.parts.entry(part).or_default() += size;
        *self.storage.entry(storage).or_default() += size;
    }

    fn matrices(&mut self, part: Part, matrices: &[&Matrix]) {
        for matrix in matrices {
            self.matrix(part, matrix, Use::All);
        }
    }

    fn vectors(&mut self, part: Part, vectors: &[&[f32]]) {
        for vector in vectors {
            let (parameters, bytes) = (vector.len() as u64, size_of_val(*vector) as u64);
            let size =
                Size { tensors: 1, parameters, bytes, active_parameters: parameters, active_bytes: bytes };
            *self.parts.entry(part).or_default() += size;
        }
    }

    fn bank(&mut self, bank: &ExpertBank) {
        let used =
            Use::Experts { used: self.config.moe.experts_per_token as u64, of: bank.experts.len() as u64 };
        for matrix in &bank.experts {
            self.matrix(Part::RoutedExperts, matrix, used);
        }
    }

    fn model(&mut self, weights: &ModelWeights) {
        self.matrix(Part::Embedding, &weights.embed_tokens, Use::Row);
        if self.config.tie_word_embeddings {
            let matrix = &weights.lm_head;
            let size = Size {
                active_parameters: (matrix.rows() * matrix.cols()) as u64,
                active_bytes: matrix.stored_bytes() as u64,
                ..Size::default()
            };
            *self.parts.entry(Part::Head).or_default() += size;
        } else {
            self.matrix(Part::Head, &weights.lm_head, Use::All);
        }
        self.vectors(Part::Norms, &[&weights.norm]);
        for layer in &weights.layers {
            self.layer(layer);
        }
    }

    fn layer(&mut self, layer: &LayerWeights) {
        self.vectors(Part::Norms, &[&layer.input_layernorm, &layer.post_attention_layernorm]);
        match &layer.mixer {
            MixerWeights::GatedDeltaNet(m) => {
                let part = Part::GatedDeltaNetMixers;
                self.matrices(part, &[&m.in_proj_qkv, &m.in_proj_z, &m.in_proj_b, &m.in_proj_a, &m.out_proj]);
                self.vectors(part, &[&m.conv1d, &m.a_log, &m.dt_bias, &m.norm]);
            }
            MixerWeights::Attention(m) => {
                let part = Part::AttentionMixers;
                self.matrices(part, &[&m.q_proj, &m.k_proj, &m.v_proj, &m.o_proj]);
                self.vectors(part, &[&m.q_norm, &m.k_norm]);
            }
        }
        self.moe(&layer.moe);
    }

    fn moe(&mut self, moe: &MoeWeights) {
        for bank in [&moe.gate_proj, &moe.up_proj, &moe.down_proj] {
            self.bank(bank);
        }
        self.matrices(
            Part::SharedExperts,
            &[&moe.shared_gate_proj, &moe.shared_up_proj, &moe.shared_down_proj],
        );
        self.matrices(Part::Routers, &[&moe.gate, &moe.shared_expert_gate]);
    }
}
