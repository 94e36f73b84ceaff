//! All tensors of a checkpoint by name, taken out one by one as their roles are found.

use crate::{
    Bytes, CheckpointError, Dtype, Hint, TensorData,
    error::LISTED,
    files::Files,
    header::{HeaderError, SafetensorsHeader, StoredTensor},
    names::{self, Name},
    shards::Shards,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

/// A weight file, mapped.
#[derive(Debug)]
pub(crate) struct WeightFile {
    /// Its name for messages.
    pub(crate) label: String,
    bytes: Bytes,
}

/// A tensor with the file that it lies in.
#[derive(Debug, Clone)]
pub(crate) struct TableTensor {
    pub(crate) file: Arc<WeightFile>,
    pub(crate) stored: StoredTensor,
}

/// What a table holds besides.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    pub(crate) tensors: usize,
    pub(crate) bytes: u64,
}

/// The tensors that have no role yet, by name without the prefix.
#[derive(Debug)]
pub(crate) struct TensorTable {
    tensors: BTreeMap<String, TableTensor>,
    unknown: Vec<TableTensor>,
    pub(crate) skipped: Skipped,
    pub(crate) warnings: Vec<String>,
}

impl TensorTable {
    /// Reads the headers of all weight files and checks them against the index.
    pub(crate) fn read(files: &Files, shards: &Shards) -> Result<Self, CheckpointError> {
        let mut table = Self {
            tensors: BTreeMap::new(),
            unknown: Vec::new(),
            skipped: Skipped::default(),
            warnings: Vec::new(),
        };
        let mut held: HashMap<&str, HashSet<String>> = HashMap::new();
        for name in &shards.names {
            let label = files.label(name);
            let Some(bytes) = files.map(name)? else {
                // It was there a moment ago.
                return Err(CheckpointError::IncompleteDownload {
                    place: files.place(),
                    missing: vec![name.clone()],
                    hint: Hint::NONE,
                });
            };
            let header = SafetensorsHeader::parse(&bytes).map_err(|error| match error {
                HeaderError::Truncated { found, expected } => {
                    CheckpointError::Truncated { file: label.clone(), found, expected }
                }
                HeaderError::Damaged(problem) => CheckpointError::Header { file: label.clone(), problem },
            })?;
            if shards.index.is_some() {
                held.insert(name, header.tensors.iter().map(|t| t.name.clone()).collect());
            }
            let file = Arc::new(WeightFile { label, bytes });
            for stored in header.tensors {
                table.add(TableTensor { file: file.clone(), stored })?;
            }
        }
        table.check_index(files, shards, held)?;
        Ok(table)
    }

    fn add(&mut self, tensor: TableTensor) -> Result<(), CheckpointError> {
        match names::normalize(&tensor.stored.name) {
            Name::Skipped => {
                self.skipped.tensors += 1;
                self.skipped.bytes += tensor.stored.range.len() as u64;
            }
            Name::Unknown => self.unknown.push(tensor),
            Name::Model(name) => {
                if let Some(first) = self.tensors.get(name) {
                    return Err(CheckpointError::DuplicateTensor {
                        first: first.stored.name.clone(),
                        first_file: first.file.label.clone(),
                        second: tensor.stored.name,
                        second_file: tensor.file.label.clone(),
                    });
                }
                self.tensors.insert(name.to_owned(), tensor);
            }
        }
        Ok(())
    }

    /// The headers are the truth; an index that promises a tensor which its file does not hold is an error, and one
    /// that leaves tensors out is odd but harmless.
    fn check_index(
        &mut self,
        files: &Files,
        shards: &Shards,
        mut held: HashMap<&str, HashSet<String>>,
    ) -> Result<(), CheckpointError> {
        let Some(index) = &shards.index else { return Ok(()) };
        for (tensor, file) in &index.weight_map {
            if !held.get_mut(file.as_str()).is_some_and(|names| names.remove(tensor)) {
                return Err(CheckpointError::Index {
                    file: files.label(crate::index::INDEX),
                    problem: format!("`weight_map` puts `{tensor}` in {file}, which does not hold it"),
                    hint: "the index or that file belongs to another version of the checkpoint; download both again"
                        .into(),
                });
            }
        }
        let mut extra: Vec<&String> = held.values().flatten().collect();
        extra.sort();
        if let [first, ..] = extra[..] {
            self.warnings.push(format!(
                "{}: the index does not name {} tensors that its files hold, such as `{first}`",
                files.place(),
                extra.len()
            ));
        }
        Ok(())
    }

    /// Whether a tensor is there.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Takes a tensor out.
    pub(crate) fn take(&mut self, name: &str) -> Option<TableTensor> {
        self.tensors.remove(name)
    }

    /// Takes out tensors whose names begin so and that are known but not needed; a warning says why.
    pub(crate) fn skip(&mut self, start: &str, why: &str) {
        let names: Vec<String> =
            self.tensors.keys().filter(|name| name.starts_with(start)).cloned().collect();
        for name in names {
            if let Some(tensor) = self.take(&name) {
                self.warnings
                    .push(format!("{}: `{}` is not read: {why}", tensor.file.label, tensor.stored.name));
            }
        }
    }

    /// All tensors left whose names end so.
    pub(crate) fn ending_with<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a TableTensor> {
        self.tensors.iter().filter(move |(name, _)| name.ends_with(end)).map(|(_, tensor)| tensor)
    }

    /// An error that names every tensor for which no role was found.
    pub(crate) fn refuse_rest(&self, hint: impl Fn(&str) -> Hint) -> Result<(), CheckpointError> {
        let rest: Vec<&TableTensor> = self.unknown.iter().chain(self.tensors.values()).collect();
        let Some(first) = rest.first() else { return Ok(()) };
        Err(CheckpointError::UnknownTensors {
            file: first.file.label.clone(),
            names: rest.iter().take(LISTED).map(|t| t.stored.name.clone()).collect(),
            total: rest.len(),
            hint: hint(&first.stored.name),
        })
    }
}

impl TableTensor {
    /// Where messages say that it is.
    pub(crate) fn shape_error(&self, expected: impl Into<String>, hint: impl Into<Hint>) -> CheckpointError {
        CheckpointError::Shape {
            file: self.file.label.clone(),
            tensor: self.stored.name.clone(),
            found: self.stored.shape.clone(),
            expected: expected.into(),
            hint: hint.into(),
        }
    }

    /// An error unless the shape is this.
    pub(crate) fn expect_shape(&self, expected: &[usize]) -> Result<(), CheckpointError> {
        if self.stored.shape == expected {
            Ok(())
        } else {
            Err(self.shape_error(format!("{expected:?}"), ""))
        }
    }

    /// The element type, if it is one of these.
    pub(crate) fn dtype(&self, accepted: &[Dtype], hint: &str) -> Result<Dtype, CheckpointError> {
        self.stored.dtype.as_dtype().filter(|dtype| accepted.contains(dtype)).ok_or_else(|| {
            CheckpointError::Dtype {
                file: self.file.label.clone(),
                tensor: self.stored.name.clone(),
                found: self.stored.dtype.name().to_owned(),
                expected: accepted.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", "),
                hint: hint.into(),
            }
        })
    }

    /// Its bytes with a type.
    pub(crate) fn data(&self, dtype: Dtype) -> TensorData {
        TensorData {
            dtype,
            shape: self.stored.shape.clone(),
            bytes: self.file.bytes.slice(self.stored.range.clone()),
        }
    }
}
