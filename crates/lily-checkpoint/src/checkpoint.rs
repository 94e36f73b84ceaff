//! A checkpoint folder, opened.

use crate::{CheckpointError, GenerationConfig, ModelConfig, ModelWeights};
use std::path::Path;

/// A checkpoint: its config, its weights (memory-mapped or embedded) and its sampling defaults.
#[derive(Debug)]
pub struct Checkpoint {
    /// Dimensions.
    pub config: ModelConfig,
    /// Sampling defaults; empty when the folder has no `generation_config.json`.
    pub generation: GenerationConfig,
    /// Weights by role.
    pub weights: ModelWeights,
    /// What is odd but harmless (stray files, skipped tensors), for the user to read.
    pub warnings: Vec<String>,
}

impl Checkpoint {
    /// Opens a folder: reads and validates the configs and every tensor's header, maps the files, reads no weight.
    ///
    /// # Errors
    /// Whatever is wrong with the folder, with its place.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let _ = folder;
        unreachable!("skeleton")
    }

    /// The same from files held in memory, as `(file name, contents)`.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn from_files(files: &[(&str, &'static [u8])]) -> Result<Self, CheckpointError> {
        let _ = files;
        unreachable!("skeleton")
    }
}
