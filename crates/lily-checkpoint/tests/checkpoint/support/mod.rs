//! Small synthetic checkpoints, in any layout that the crate reads and in many that it must refuse.

mod sparse;
mod tensor;
mod tiny;

pub(crate) use sparse::write_sparse;
pub(crate) use tensor::{Tensor, safetensors};
pub(crate) use tiny::Tiny;

use lily_checkpoint::{Bytes, Checkpoint, CheckpointError};
use serde_json::{Value, json};
use std::path::Path;

/// A checkpoint's files before they are written.
#[derive(Clone)]
pub(crate) struct Draft {
    /// `config.json`.
    pub(crate) config: Value,
    /// All tensors, in file order.
    pub(crate) tensors: Vec<Tensor>,
    /// Padding of headers: real converters leave odd lengths.
    pub(crate) unpadded: bool,
    /// Weight files; with more than one they are numbered and indexed.
    pub(crate) shards: usize,
    /// Further files.
    pub(crate) others: Vec<(String, Vec<u8>)>,
}

impl Draft {
    /// All files by name.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = vec![("config.json".to_owned(), self.config.to_string().into_bytes())];
        if self.shards == 1 {
            files.push(("model.safetensors".to_owned(), safetensors(&self.tensors, self.unpadded)));
        } else {
            let mut map = serde_json::Map::new();
            for (number, tensors) in self.tensors.chunks(self.tensors.len().div_ceil(self.shards)).enumerate()
            {
                let name = format!("model-{:05}-of-{:05}.safetensors", number + 1, self.shards);
                map.extend(tensors.iter().map(|t| (t.name.clone(), json!(name))));
                files.push((name, safetensors(tensors, self.unpadded)));
            }
            files.push((
                "model.safetensors.index.json".to_owned(),
                json!({ "weight_map": map }).to_string().into_bytes(),
            ));
        }
        files.extend(self.others.iter().cloned());
        files
    }

    /// Opens it from memory.
    pub(crate) fn open(&self) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::from_contents(
            self.files().into_iter().map(|(name, bytes)| (name, Bytes::new(bytes))).collect(),
        )
    }

    /// The message with which opening fails.
    pub(crate) fn refusal(&self) -> String {
        refusal(self.open())
    }

    /// Writes it to a folder.
    pub(crate) fn write(&self, folder: &Path) {
        for (name, contents) in self.files() {
            std::fs::write(folder.join(name), contents).unwrap();
        }
    }

    /// The tensor whose name ends so.
    pub(crate) fn tensor(&mut self, end: &str) -> &mut Tensor {
        let tensor = self.tensors.iter_mut().find(|t| t.name.ends_with(end));
        tensor.unwrap_or_else(|| panic!("no tensor ends with {end}"))
    }

    /// Drops the tensors whose names end so.
    pub(crate) fn drop(&mut self, end: &str) {
        self.tensors.retain(|t| !t.name.ends_with(end));
    }

    /// Sets fields of the config's top level.
    pub(crate) fn edit(&mut self, fields: &Value) {
        for (name, value) in fields.as_object().unwrap() {
            self.config[name] = value.clone();
        }
    }
}

/// The message of a failure.
pub(crate) fn refusal(result: Result<Checkpoint, CheckpointError>) -> String {
    match result {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

/// Fails unless the text holds all parts.
#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}
