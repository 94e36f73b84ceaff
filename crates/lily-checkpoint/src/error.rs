//! Everything that can be wrong with a checkpoint, each with its place.

use std::{fmt, path::PathBuf};

/// Why a checkpoint was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A file could not be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that every checkpoint has is not there.
    #[error("{place}: no {file}{hint}")]
    MissingFile {
        /// The folder, or "the files in memory".
        place: String,
        /// The missing file.
        file: String,
        /// What to do.
        hint: Hint,
    },
    /// A file is there but is not what its name says (a git-lfs pointer, empty, too large, a name with a path).
    #[error("{file}: {problem}{hint}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: Hint,
    },
    /// A file is not JSON.
    #[error("{file}: not valid JSON: {message}")]
    Json {
        /// The file.
        file: String,
        /// What the parser said, with line and column.
        message: String,
    },
    /// A value of `config.json` or `generation_config.json` cannot be.
    #[error("{file}: `{field}` {problem}{hint}")]
    Config {
        /// The file.
        file: String,
        /// The field, by its full path.
        field: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        hint: Hint,
    },
    /// Files of the model are not in the folder.
    #[error(
        "{place}: incomplete download, {count} of the model's files missing: {list}{hint}",
        count = missing.len(),
        list = listed(missing, missing.len())
    )]
    IncompleteDownload {
        /// The folder.
        place: String,
        /// The missing files.
        missing: Vec<String>,
        /// What to do.
        hint: Hint,
    },
    /// A weight file ends too early.
    #[error(
        "{file}: incomplete download: the file has {found} bytes and its header describes {expected}\nhint: download this \
         file again"
    )]
    Truncated {
        /// The file.
        file: String,
        /// Bytes that it has.
        found: u64,
        /// Bytes that it should have.
        expected: u64,
    },
    /// No file that may hold the weights.
    #[error(
        "{place}: no weights: needed is model.safetensors, or model-00001-of-0000N.safetensors to \
         model-0000N-of-0000N.safetensors, or a model.safetensors.index.json that names the files; found {found}"
    )]
    NoWeights {
        /// The folder.
        place: String,
        /// What is there instead.
        found: String,
    },
    /// `model.safetensors.index.json` cannot be used.
    #[error("{file}: {problem}{hint}")]
    Index {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: Hint,
    },
    /// The header of a safetensors file is damaged.
    #[error("{file}: damaged safetensors header: {problem}")]
    Header {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// Tensors that this architecture does not have.
    #[error(
        "unknown tensor{plural} in {file}: {list}{hint}",
        plural = if *total == 1 { "" } else { "s" },
        list = listed(names, *total)
    )]
    UnknownTensors {
        /// The file of the first one.
        file: String,
        /// The first few, as stored.
        names: Vec<String>,
        /// How many in all.
        total: usize,
        /// What to do.
        hint: Hint,
    },
    /// Tensors that the config calls for are in no file.
    #[error("{total} tensor{plural} missing: {list}{hint}",
        plural = if *total == 1 { "" } else { "s" },
        list = listed(names, *total))]
    MissingTensors {
        /// The first few.
        names: Vec<String>,
        /// How many in all.
        total: usize,
        /// What to do.
        hint: Hint,
    },
    /// One tensor twice: in two files, or under two prefixes.
    #[error("the same tensor twice: `{first}` in {first_file} and `{second}` in {second_file}")]
    DuplicateTensor {
        /// Its name at the first place.
        first: String,
        /// The first place.
        first_file: String,
        /// Its name at the second place.
        second: String,
        /// The second place.
        second_file: String,
    },
    /// A tensor's shape is not what the config calls for.
    #[error("{file}: tensor `{tensor}` has shape {found:?}, config.json calls for {expected}{hint}")]
    Shape {
        /// The file.
        file: String,
        /// The tensor, as stored.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape or shapes that would fit.
        expected: String,
        /// What to do.
        hint: Hint,
    },
    /// A tensor's element type cannot be used for its role.
    #[error("{file}: tensor `{tensor}` has elements of type {found}, expected {expected}{hint}")]
    Dtype {
        /// The file.
        file: String,
        /// The tensor, as stored.
        tensor: String,
        /// Its element type as the file names it.
        found: String,
        /// The types that would fit.
        expected: String,
        /// What to do.
        hint: Hint,
    },
    /// `quantization` in the config and the tensors of a module disagree, or the scheme is not supported.
    #[error("{file}: {module}: {problem}{hint}")]
    Quantization {
        /// The file.
        file: String,
        /// The module, or the field of the config.
        module: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: Hint,
    },
    /// The convolutions' layouts do not tell whether gains are stored shifted.
    #[error(
        "mixed layouts: `{converted}` is stored as converted by MLX ([channels, width, 1]), `{raw}` as by Hugging Face \
         ([channels, 1, width]); the gains of the norms would be wrong in one of them\nhint: the folder mixes files of \
         two checkpoints; download or convert it again"
    )]
    MixedLayouts {
        /// A converted convolution.
        converted: String,
        /// A raw one.
        raw: String,
    },
}

/// Advice that ends an error's message: nothing, or a line of its own that starts with `hint:`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hint(Option<Box<str>>);

impl Hint {
    /// No advice.
    pub const NONE: Self = Self(None);

    /// The advice.
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self((!text.is_empty()).then(|| text.into()))
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self((!text.is_empty()).then(|| text.into()))
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().map_or(Ok(()), |text| write!(f, "\nhint: {text}"))
    }
}

/// The most names that one message lists.
pub(crate) const LISTED: usize = 8;

/// `a, b, c and 5 more`.
pub(crate) fn listed(names: &[impl AsRef<str>], total: usize) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED).map(AsRef::as_ref).collect();
    let rest = total.saturating_sub(shown.len());
    let mut text = shown.join(", ");
    if rest > 0 {
        text += &format!(" and {rest} more");
    }
    text
}
