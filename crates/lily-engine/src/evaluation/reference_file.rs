//! The reference file: a safetensors file with the tensors that `docs/evaluation.md` lists.

use super::{Distribution, log_sum_exp};
use crate::TokenId;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::{
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
};

/// Why a reference file was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceFileError {
    /// It could not be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not a safetensors file.
    #[error(
        "not a reference file: {0}\nhint: docs/evaluation.md describes the format; tools/parity writes it"
    )]
    Container(String),
    /// A tensor is missing, or has another type, shape or content than the format says.
    #[error("reference file: tensor `{tensor}`: {reason}")]
    Tensor {
        /// Its name.
        tensor: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A version that this program does not know.
    #[error("reference file of version {0:?}; this program reads version {FORMAT_VERSION:?}")]
    Version(String),
}

const FORMAT: &str = "lily-reference";
const FORMAT_VERSION: &str = "1";

/// What a sequence is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SequenceKind {
    /// Running text.
    Text,
    /// A chat prompt and its answer.
    Chat,
}

/// One sequence: it starts from an empty state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceSequence {
    /// What it is made of.
    pub kind: SequenceKind,
    /// Its rows in the file, one per token.
    pub rows: Range<usize>,
}

/// What the reference predicted after one token.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceRow<'a> {
    /// `ln Σ exp(logit)`, so that logits can be had back from log-probabilities.
    pub log_sum_exp: f32,
    /// Best tokens, best first.
    pub top_ids: &'a [TokenId],
    /// Their natural log-probabilities.
    pub top_logprobs: &'a [f32],
    /// The token that follows in the sequence, with its log-probability; `None` after the last.
    pub target: Option<(TokenId, f32)>,
    /// All logits, stored for a few rows.
    pub logits: Option<&'a [f32]>,
}

impl<'a> ReferenceRow<'a> {
    /// The fullest distribution that is stored.
    pub fn distribution(&self) -> Distribution<'a> {
        match self.logits {
            Some(logits) => Distribution::Full(logits),
            None => Distribution::Top { ids: self.top_ids, logprobs: self.top_logprobs },
        }
    }
}

/// A reference file, read and checked.
#[derive(Debug, Clone)]
pub struct ReferenceFile {
    metadata: Vec<(String, String)>,
    vocab_size: usize,
    tokens: Vec<TokenId>,
    sequences: Vec<ReferenceSequence>,
    log_sum_exp: Vec<f32>,
    top: usize,
    top_ids: Vec<TokenId>,
    top_logprobs: Vec<f32>,
    target_logprobs: Vec<f32>,
    logits: Vec<f32>,
    logits_of_row: HashMap<usize, usize>,
}

impl ReferenceFile {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(path: &Path) -> Result<Self, ReferenceFileError> {
        let bytes =
            std::fs::read(path).map_err(|source| ReferenceFileError::Io { path: path.into(), source })?;
        Self::parse(&bytes)
    }

    /// The same from bytes in memory.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReferenceFileError> {
        let container = |e: safetensors::SafeTensorError| ReferenceFileError::Container(e.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(container)?;
        let mut metadata: Vec<(String, String)> =
            header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        metadata.sort();
        let value = |key: &str| metadata.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        if value("format") != Some(FORMAT) {
            return Err(ReferenceFileError::Container(format!("its metadata `format` is not {FORMAT:?}")));
        }
        match value("format_version") {
            Some(FORMAT_VERSION) => {}
            other => return Err(ReferenceFileError::Version(other.unwrap_or_default().into())),
        }
        let vocab_size =
            value("vocab_size").and_then(|v| v.parse().ok()).filter(|&v| v > 1).ok_or_else(|| {
                ReferenceFileError::Container("its metadata `vocab_size` is not a number above 1".into())
            })?;

        let file = SafeTensors::deserialize(bytes).map_err(container)?;
        let tokens = ids(&file, "tokens", vocab_size)?;
        let count = tokens.shape[0];
        let sequences = sequences(&file, count)?;
        let top_ids = ids(&file, "top_ids", vocab_size)?;
        let [_, top] = top_ids.shape[..] else { return wrong("top_ids", "is not [tokens, top]") };
        if top < 2 {
            return wrong("top_ids", "names fewer than two tokens a row");
        }
        shape("tokens", &tokens.shape, &[count])?;
        shape("top_ids", &top_ids.shape, &[count, top])?;
        let top_logprobs = floats(&file, "top_logprobs", &[count, top])?;
        for (row, values) in top_logprobs.chunks_exact(top).enumerate() {
            if values.iter().any(|v| !v.is_finite()) || values.windows(2).any(|w| w[0] < w[1]) {
                return wrong("top_logprobs", &format!("row {row} is not finite and descending"));
            }
        }
        let target_logprobs = floats(&file, "target_logprobs", &[count])?;
        for sequence in &sequences {
            let targets = sequence.rows.start..sequence.rows.end - 1;
            if let Some(row) = targets.into_iter().find(|&row| !target_logprobs[row].is_finite()) {
                return wrong("target_logprobs", &format!("row {row} is not finite"));
            }
        }
        let (logits_of_row, logits) = match file.tensor("full_rows") {
            Err(_) => (HashMap::new(), Vec::new()),
            Ok(_) => {
                let rows = integers(&file, "full_rows")?;
                let [stored] = rows.shape[..] else { return wrong("full_rows", "is not [rows]") };
                if let Some(row) = rows.values.iter().find(|&&r| r as usize >= count) {
                    return wrong("full_rows", &format!("row {row} of {count} tokens"));
                }
                let logits = floats(&file, "full_logits", &[stored, vocab_size])?;
                (rows.values.iter().enumerate().map(|(i, &r)| (r as usize, i)).collect(), logits)
            }
        };
        Ok(Self {
            log_sum_exp: floats(&file, "log_sum_exp", &[count])?,
            metadata,
            vocab_size,
            tokens: tokens.values.into_iter().map(TokenId).collect(),
            sequences,
            top,
            top_ids: top_ids.values.into_iter().map(TokenId).collect(),
            top_logprobs,
            target_logprobs,
            logits,
            logits_of_row,
        })
    }

    /// The same tokens with other logits `[tokens, vocab]`, all of them stored.
    pub(super) fn with_logits(&self, logits: Vec<f32>) -> Self {
        assert_eq!(logits.len(), self.tokens.len() * self.vocab_size, "logits of every token");
        let mut file = Self {
            log_sum_exp: Vec::new(),
            top_ids: Vec::new(),
            top_logprobs: Vec::new(),
            target_logprobs: Vec::new(),
            logits_of_row: (0..self.tokens.len()).map(|row| (row, row)).collect(),
            logits: Vec::new(),
            ..self.clone()
        };
        for (row, logits) in logits.chunks_exact(self.vocab_size).enumerate() {
            let normaliser = log_sum_exp(logits);
            let logprob = |id: usize| (f64::from(logits[id]) - normaliser) as f32;
            let mut order: Vec<usize> = (0..logits.len()).collect();
            let descending = |a: &usize, b: &usize| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b));
            order.select_nth_unstable_by(self.top - 1, descending);
            order.truncate(self.top);
            order.sort_by(descending);
            file.top_ids.extend(order.iter().map(|&id| TokenId(id as u32)));
            file.top_logprobs.extend(order.iter().map(|&id| logprob(id)));
            // After a sequence's last token this is the next sequence's first: never read.
            file.target_logprobs.push(self.tokens.get(row + 1).map_or(f32::NAN, |id| logprob(id.0 as usize)));
            file.log_sum_exp.push(normaliser as f32);
        }
        file.logits = logits;
        file
    }

    /// Where the file comes from: the header's free text (`model`, `producer`, `precision`, ...), sorted by key.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// Rows of the reference's logits.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Tokens over all sequences.
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// The sequences in order.
    pub fn sequences(&self) -> &[ReferenceSequence] {
        &self.sequences
    }

    /// The tokens of a sequence.
    pub fn tokens(&self, sequence: &ReferenceSequence) -> &[TokenId] {
        &self.tokens[sequence.rows.clone()]
    }

    /// What the reference predicted after token `index` of `sequence`.
    ///
    /// # Panics
    /// If `index` lies outside the sequence.
    pub fn row(&self, sequence: &ReferenceSequence, index: usize) -> ReferenceRow<'_> {
        let row = sequence.rows.start + index;
        assert!(row < sequence.rows.end, "token {index} of a sequence of {}", sequence.rows.len());
        let top = row * self.top..(row + 1) * self.top;
        let next = row + 1;
        ReferenceRow {
            log_sum_exp: self.log_sum_exp[row],
            top_ids: &self.top_ids[top.clone()],
            top_logprobs: &self.top_logprobs[top],
            target: (next < sequence.rows.end).then(|| (self.tokens[next], self.target_logprobs[row])),
            logits: self
                .logits_of_row
                .get(&row)
                .map(|&i| &self.logits[i * self.vocab_size..(i + 1) * self.vocab_size]),
        }
    }
}

struct Integers {
    shape: Vec<usize>,
    values: Vec<u32>,
}

fn wrong<T>(tensor: &'static str, reason: &str) -> Result<T, ReferenceFileError> {
    Err(ReferenceFileError::Tensor { tensor, reason: reason.into() })
}

fn shape(tensor: &'static str, found: &[usize], wanted: &[usize]) -> Result<(), ReferenceFileError> {
    if found == wanted { Ok(()) } else { wrong(tensor, &format!("has shape {found:?}, wanted {wanted:?}")) }
}

fn view<'a>(file: &SafeTensors<'a>, name: &'static str) -> Result<TensorView<'a>, ReferenceFileError> {
    file.tensor(name).map_err(|_| ReferenceFileError::Tensor { tensor: name, reason: "is missing".into() })
}

/// An unsigned integer tensor, u16 or u32.
fn integers(file: &SafeTensors<'_>, name: &'static str) -> Result<Integers, ReferenceFileError> {
    let view = view(file, name)?;
    let values = match view.dtype() {
        Dtype::U16 => {
            view.data().chunks_exact(2).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]]))).collect()
        }
        Dtype::U32 => {
            view.data().chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
        }
        other => return wrong(name, &format!("has type {other:?}, wanted U16 or U32")),
    };
    Ok(Integers { shape: view.shape().to_vec(), values })
}

/// Token ids, each inside the vocabulary.
fn ids(
    file: &SafeTensors<'_>,
    name: &'static str,
    vocab_size: usize,
) -> Result<Integers, ReferenceFileError> {
    let ids = integers(file, name)?;
    if ids.values.is_empty() {
        return wrong(name, "is empty");
    }
    match ids.values.iter().find(|&&id| id as usize >= vocab_size) {
        Some(id) => wrong(name, &format!("id {id} is outside the vocabulary of {vocab_size}")),
        None => Ok(ids),
    }
}

fn floats(
    file: &SafeTensors<'_>,
    name: &'static str,
    wanted: &[usize],
) -> Result<Vec<f32>, ReferenceFileError> {
    let view = view(file, name)?;
    if view.dtype() != Dtype::F32 {
        return wrong(name, &format!("has type {:?}, wanted F32", view.dtype()));
    }
    shape(name, view.shape(), wanted)?;
    Ok(view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

fn sequences(file: &SafeTensors<'_>, count: usize) -> Result<Vec<ReferenceSequence>, ReferenceFileError> {
    let lengths = integers(file, "sequence_lengths")?;
    let kinds = integers(file, "sequence_kinds")?;
    shape("sequence_kinds", &kinds.shape, &[lengths.values.len()])?;
    let mut start = 0_usize;
    let mut sequences = Vec::with_capacity(lengths.values.len());
    for (&length, &kind) in lengths.values.iter().zip(&kinds.values) {
        let kind = match kind {
            0 => SequenceKind::Text,
            1 => SequenceKind::Chat,
            other => {
                return wrong("sequence_kinds", &format!("kind {other} is neither 0 (text) nor 1 (chat)"));
            }
        };
        let end = start.saturating_add(length as usize);
        if length == 0 || end > count {
            return wrong("sequence_lengths", &format!("a length of {length} at token {start} of {count}"));
        }
        sequences.push(ReferenceSequence { kind, rows: start..end });
        start = end;
    }
    if start != count {
        return wrong("sequence_lengths", &format!("sum to {start}, but there are {count} tokens"));
    }
    Ok(sequences)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sequences, three and two tokens, of a vocabulary of four; row 1 with all logits.
    struct Draft {
        metadata: HashMap<String, String>,
        tensors: Vec<(&'static str, Dtype, Vec<usize>, Vec<u8>)>,
    }

    fn u16s(values: &[u16]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn u32s(values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    impl Draft {
        fn new() -> Self {
            let pairs = [("format", FORMAT), ("format_version", FORMAT_VERSION), ("vocab_size", "4")];
            Self {
                metadata: pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
                tensors: vec![
                    ("tokens", Dtype::U16, vec![5], u16s(&[0, 1, 2, 3, 0])),
                    ("sequence_lengths", Dtype::U32, vec![2], u32s(&[3, 2])),
                    ("sequence_kinds", Dtype::U32, vec![2], u32s(&[0, 1])),
                    ("log_sum_exp", Dtype::F32, vec![5], f32s(&[1.0, 2.0, 3.0, 4.0, 5.0])),
                    ("top_ids", Dtype::U16, vec![5, 2], u16s(&[0, 1, 1, 2, 2, 3, 3, 0, 0, 1])),
                    ("top_logprobs", Dtype::F32, vec![5, 2], f32s(&[-0.5, -1.5].repeat(5))),
                    ("target_logprobs", Dtype::F32, vec![5], f32s(&[-1.0, -2.0, f32::NAN, -4.0, f32::NAN])),
                    ("full_rows", Dtype::U32, vec![1], u32s(&[1])),
                    ("full_logits", Dtype::F32, vec![1, 4], f32s(&[0.0, 1.0, 2.0, 3.0])),
                ],
            }
        }

        fn replace(mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Self {
            for tensor in &mut self.tensors {
                if tensor.0 == name {
                    *tensor = (tensor.0, dtype, shape.to_vec(), bytes.to_vec());
                }
            }
            self
        }

        fn parse(&self) -> Result<ReferenceFile, ReferenceFileError> {
            let views = self.tensors.iter().map(|(name, dtype, shape, bytes)| {
                (*name, TensorView::new(*dtype, shape.clone(), bytes).expect("a view"))
            });
            ReferenceFile::parse(
                &safetensors::serialize(views, Some(self.metadata.clone())).expect("serialised"),
            )
        }

        fn error(&self) -> String {
            self.parse().expect_err("refused").to_string()
        }
    }

    #[test]
    fn reads_what_the_format_says() {
        let file = Draft::new().parse().expect("a good file");
        assert_eq!((file.vocab_size(), file.token_count()), (4, 5));
        let [first, second] = file.sequences() else { panic!("two sequences") };
        assert_eq!((first.kind, second.kind), (SequenceKind::Text, SequenceKind::Chat));
        assert_eq!(file.tokens(second), [TokenId(3), TokenId(0)]);
        let row = file.row(first, 0);
        assert_eq!((row.log_sum_exp, row.target, row.logits), (1.0, Some((TokenId(1), -1.0)), None));
        assert_eq!(file.row(first, 1).logits, Some(&[0.0, 1.0, 2.0, 3.0][..]));
        assert_eq!(file.row(first, 2).target, None, "nothing follows the last token of a sequence");
        let row = file.row(second, 0);
        assert_eq!(row.top_ids, [TokenId(3), TokenId(0)]);
        assert_eq!(row.target, Some((TokenId(0), -4.0)));
    }

    #[test]
    fn faults_are_named() {
        let cases = [
            (Draft::new().replace("tokens", Dtype::U16, &[5], &u16s(&[0, 1, 2, 4, 0])), "id 4 is outside"),
            (Draft::new().replace("sequence_lengths", Dtype::U32, &[2], &u32s(&[3, 1])), "sum to 4"),
            (
                Draft::new().replace("sequence_lengths", Dtype::U32, &[2], &u32s(&[u32::MAX, 5])),
                "a length of",
            ),
            (Draft::new().replace("sequence_kinds", Dtype::U32, &[2], &u32s(&[0, 7])), "kind 7"),
            (Draft::new().replace("log_sum_exp", Dtype::U32, &[5], &u32s(&[0; 5])), "wanted F32"),
            (Draft::new().replace("top_ids", Dtype::U16, &[10], &u16s(&[0; 10])), "[tokens, top]"),
            (
                Draft::new().replace("top_logprobs", Dtype::F32, &[5, 2], &f32s(&[-1.5, -0.5].repeat(5))),
                "descending",
            ),
            (Draft::new().replace("target_logprobs", Dtype::F32, &[5], &f32s(&[f32::NAN; 5])), "row 0"),
            (Draft::new().replace("full_rows", Dtype::U32, &[1], &u32s(&[5])), "row 5"),
            (Draft::new().replace("full_logits", Dtype::F32, &[4], &f32s(&[0.0; 4])), "wanted [1, 4]"),
        ];
        for (draft, wanted) in cases {
            let error = draft.error();
            assert!(error.contains(wanted), "{error:?} does not say {wanted:?}");
        }
        let mut draft = Draft::new();
        draft.tensors.remove(0);
        assert!(draft.error().contains("`tokens`: is missing"));
        let mut draft = Draft::new();
        draft.metadata.insert("format_version".into(), "2".into());
        assert!(draft.error().contains("version \"2\""));
        let mut draft = Draft::new();
        draft.metadata.remove("format");
        assert!(draft.error().contains("hint:"));
        assert!(ReferenceFile::parse(b"{}").is_err());
    }
}
