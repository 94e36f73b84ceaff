//! A checkpoint folder, opened.

use crate::{
    Bytes, CheckpointError, GenerationConfig, Layout, ModelConfig, ModelWeights,
    assemble::{Assembled, assemble},
    files::Files,
    json::{self, Fields},
    quant_config::QuantizationConfig,
    shards::Shards,
    table::TensorTable,
};
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
    /// How the small tensors were stored; `weights` no longer depends on it.
    pub layout: Layout,
    /// What is odd but harmless (stray files, skipped tensors), for the user to read.
    pub warnings: Vec<String>,
    files: Files,
}

impl Checkpoint {
    /// Opens a folder: reads and validates the configs and every tensor's header, maps the files, reads no weight but the
    /// small vectors.
    ///
    /// The weight files stay mapped while any of the weights lives: they must not be changed or cut short in place
    /// meanwhile. Cutting one short ends the process at the next read (SIGBUS); replacing it by renaming is safe.
    ///
    /// # Errors
    /// Whatever is wrong with the folder, with its place.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        Self::read(Files::Folder(folder.to_owned()))
    }

    /// The same from files held in memory, as `(file name, contents)`.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn from_files(files: &[(&str, &'static [u8])]) -> Result<Self, CheckpointError> {
        Self::from_contents(
            files.iter().map(|&(name, contents)| (name.to_owned(), Bytes::new(contents))).collect(),
        )
    }

    /// The same from files in buffers of any owner.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn from_contents(files: Vec<(String, Bytes)>) -> Result<Self, CheckpointError> {
        Self::read(Files::Memory(files))
    }

    fn read(files: Files) -> Result<Self, CheckpointError> {
        files.check_place()?;
        let text = files.read_json("config.json")?.ok_or_else(|| CheckpointError::MissingFile {
            place: files.place(),
            file: "config.json".to_owned(),
            hint: "a checkpoint is a folder with config.json, tokenizer.json and *.safetensors".into(),
        })?;
        let label = files.label("config.json");
        let value = json::parse(&label, &text)?;
        let fields = Fields::root(&label, &value)?;
        let config = ModelConfig::from_fields(&fields)?;
        let quantization = QuantizationConfig::from_fields(&fields)?;
        let generation = match files.read_json("generation_config.json")? {
            Some(text) => GenerationConfig::parse(&files.label("generation_config.json"), &text)?,
            None => GenerationConfig::default(),
        };

        let shards = Shards::find(&files)?;
        let table = TensorTable::read(&files, &shards)?;
        let mut warnings = shards.warnings;
        let Assembled { weights, layout, warnings: found } = assemble(&config, quantization, table)?;
        warnings.extend(found);
        for warning in &warnings {
            tracing::debug!("{warning}");
        }
        Ok(Self { config, generation, weights, layout, warnings, files })
    }

    /// The contents of another file of the checkpoint, such as `tokenizer.json` or `chat_template.jinja`; `None` when it
    /// is not there. Read anew at each call; not for weights.
    ///
    /// # Errors
    /// The file cannot be read, is a git-lfs pointer or larger than 256 MiB, or `name` is not a plain file name.
    pub fn file(&self, name: &str) -> Result<Option<Bytes>, CheckpointError> {
        self.files.read(name)
    }

    /// The folder that the checkpoint was opened from; `None` for one in memory.
    pub fn folder(&self) -> Option<&Path> {
        match &self.files {
            Files::Folder(folder) => Some(folder),
            Files::Memory(_) => None,
        }
    }
}
