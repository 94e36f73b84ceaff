//! `model.safetensors.index.json`: which file holds which tensor.

use crate::{CheckpointError, Hint, files::is_file_name, json};
use serde_json::Value;
use std::collections::BTreeSet;

/// The name of the index file.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// A read and checked index.
#[derive(Debug)]
pub(crate) struct Index {
    /// `(tensor, file)` in the file's order.
    pub(crate) weight_map: Vec<(String, String)>,
}

impl Index {
    /// Reads an index; `label` names it in errors.
    pub(crate) fn parse(label: &str, text: &[u8]) -> Result<Self, CheckpointError> {
        let error =
            |problem: String, hint: Hint| CheckpointError::Index { file: label.to_owned(), problem, hint };
        let Value::Object(mut root) = json::parse(label, text)? else {
            return Err(error("expected an object".to_owned(), Hint::NONE));
        };
        let Some(Value::Object(map)) = root.remove("weight_map") else {
            return Err(error(
                "`weight_map` must be an object of file names by tensor".to_owned(),
                Hint::NONE,
            ));
        };
        if map.is_empty() {
            return Err(error("`weight_map` is empty".to_owned(), Hint::NONE));
        }
        let mut weight_map = Vec::with_capacity(map.len());
        for (tensor, file) in map {
            match file {
                Value::String(file) if is_file_name(&file) => weight_map.push((tensor, file)),
                other => {
                    return Err(error(
                        format!(
                            "`weight_map` puts `{tensor}` in {}, expected the name of a file in the same folder",
                            json::brief(&other)
                        ),
                        "an index may not lead out of its folder".into(),
                    ));
                }
            }
        }
        Ok(Self { weight_map })
    }

    /// The named files, sorted, each once.
    pub(crate) fn files(&self) -> Vec<String> {
        self.weight_map.iter().map(|(_, file)| file.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }
}
