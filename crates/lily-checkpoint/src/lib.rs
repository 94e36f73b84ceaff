//! What is on disk: `config.json`, safetensors (with or without an index) and quantised tensors of the
//! `qwen3_5_moe` family. Nothing here computes; a tensor is a range of bytes with a type and a shape.

mod checkpoint;
mod config;
mod error;
mod quant;
mod tensor;
mod weights;

pub use checkpoint::Checkpoint;
pub use config::{AttentionConfig, GatedDeltaNetConfig, GenerationConfig, LayerKind, ModelConfig, MoeConfig};
pub use error::CheckpointError;
pub use quant::{Bits, GroupSize, Quantization};
pub use tensor::{Bytes, Dtype, TensorData};
pub use weights::{
    AffineMatrix, AttentionWeights, DenseMatrix, ExpertBank, GatedDeltaNetWeights, LayerWeights, Matrix, MixerWeights,
    ModelWeights, MoeWeights,
};
