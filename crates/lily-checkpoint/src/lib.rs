//! What is on disk: `config.json`, safetensors (with or without an index) and quantised tensors of the
//! `qwen3_5_moe` family. Nothing here computes; a tensor is a range of bytes with a type and a shape.
//!
//! ```
//! use lily_checkpoint::{Checkpoint, Matrix};
//!
//! let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
//! let checkpoint = Checkpoint::open(folder.as_ref())?;
//! assert_eq!(checkpoint.weights.layers.len(), checkpoint.config.layers.len());
//! let mut row = vec![0.0; checkpoint.config.hidden_size];
//! checkpoint.weights.embed_tokens.dequantize_row(7, &mut row);
//! # Ok::<(), lily_checkpoint::CheckpointError>(())
//! ```
//!
//! # What is read
//!
//! - **Weight files**: with `model.safetensors.index.json` exactly the files that it names, all of which must be there;
//!   without, `model.safetensors`, or else the whole set of `model-0000k-of-0000n.safetensors`. Other `*.safetensors` are
//!   mentioned in [`Checkpoint::warnings`] and never merged. An index that names files which are not there is an error
//!   even beside a `model.safetensors`: which of the two is left over cannot be known.
//! - **Headers** are the truth about tensors. An index that puts a tensor into a file which does not hold it is an error;
//!   a tensor that the index leaves out is read, with a warning. Holes, overlaps and trailing bytes are errors, as the
//!   format says. A type that no weight may have is an error only where the tensor has a role.
//! - **Names**: `language_model.model.*`, `model.language_model.*` and `model.*` mean the same; the vision tower and
//!   multi-token prediction (`vision_tower.*`, `model.visual.*`, `visual.*`, `mtp.*`, `language_model.mtp.*`) are skipped;
//!   all else must have a role. Experts are read stacked (`switch_mlp`) or fused (`experts.gate_up_proj`), not one by one.
//! - **Layout**: `conv1d.weight` of `[channels, 1, width]` means as published, where a norm's gain is one plus the stored
//!   value; `[channels, width, 1]` means converted, where it is the stored value. Nothing else decides.
//! - **Quantisation**: a module is quantised when it has `.scales`, and then the config must say with how many bits and in
//!   what groups; one that the config names as quantised must have them. `quantization` wins over `quantization_config`.

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
