//! What is on disk: `config.json`, safetensors (with or without an index) and quantised tensors of the
//! `qwen3_5_moe` family. Nothing here computes; a tensor is a range of bytes with a type and a shape.

mod assemble;
mod checkpoint;
mod config;
mod dtype;
mod error;
mod files;
mod generation;
mod header;
mod index;
mod json;
mod mapped;
mod matrices;
mod names;
mod quant;
mod quant_config;
mod rope;
mod shards;
mod summary;
mod table;
mod tensor;
mod unpack;
mod weights;

pub use assemble::Layout;
pub use checkpoint::Checkpoint;
pub use config::{AttentionConfig, GatedDeltaNetConfig, LayerKind, ModelConfig, MoeConfig};
pub use dtype::{Dtype, StoredDtype};
pub use error::{CheckpointError, Hint};
pub use generation::GenerationConfig;
pub use header::{HeaderError, SafetensorsHeader, StoredTensor};
pub use quant::{Bits, GroupSize, Quantization};
pub use summary::{Part, Size, Storage, Summary};
pub use tensor::{Bytes, TensorData};
pub use unpack::unpack_codes;
pub use weights::{
    AffineMatrix, AttentionWeights, DenseMatrix, ExpertBank, GatedDeltaNetWeights, LayerWeights, Matrix,
    MixerWeights, ModelWeights, MoeWeights,
};
