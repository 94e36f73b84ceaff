//! A backend over a reference file.

use super::{Comparison, Distribution, Evaluation, Position, ReferenceFile, SequenceKind};
use crate::{Backend, BackendError, DecodeStep, LogitsWanted, TokenId};
use std::fmt;

/// How the tokens reach the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// Through [`Backend::prefill`], in chunks of at most this many tokens (and at most the backend's own chunk).
    Prefill(usize),
    /// Through [`Backend::decode`], token by token.
    Decode,
}

/// Why an evaluation ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// The model has another vocabulary than the reference.
    #[error("the model has {model} logits, the reference file {reference}: it was made with another model")]
    Vocabulary {
        /// Rows of the backend's logits.
        model: usize,
        /// Rows of the file's.
        reference: usize,
    },
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// The outcome of [`evaluate`].
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct EvaluationReport {
    /// Over everything.
    pub all: Evaluation,
    /// Over the text sequences.
    pub text: Evaluation,
    /// Over the chat sequences.
    pub chat: Evaluation,
}

impl fmt::Display for EvaluationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.all)?;
        for (name, part) in [("text", &self.text), ("chat", &self.chat)] {
            if part.positions > 0 && part.positions < self.all.positions {
                write!(f, "\n\n{name} alone\n{part}")?;
            }
        }
        Ok(())
    }
}

/// Feeds every sequence of `file` to `backend`, teacher-forced and each from an empty state, and compares what the
/// backend predicts after each token. `progress` hears `(tokens done, all tokens)`.
///
/// # Errors
/// Another vocabulary, or a fault of the backend.
pub fn evaluate<B: Backend>(
    backend: &mut B,
    file: &ReferenceFile,
    feed: Feed,
    mut progress: impl FnMut(usize, usize),
) -> Result<EvaluationReport, EvaluationError> {
    if backend.vocab_size() != file.vocab_size() {
        return Err(EvaluationError::Vocabulary {
            model: backend.vocab_size(),
            reference: file.vocab_size(),
        });
    }
    let mut parts = Parts::default();
    let mut done = 0;
    for sequence in file.sequences() {
        let mut state = backend.new_state()?;
        each_position(backend, &mut state, file.tokens(sequence), feed, &mut |index, logits| {
            let row = file.row(sequence, index);
            parts.push(sequence.kind, row.distribution(), logits, row.target);
            done += 1;
            progress(done, file.token_count());
        })?;
    }
    Ok(parts.report())
}

/// The same tokens with what `reference` itself predicts: all logits of every position, so that a KL against it is
/// exact. The reference is fed through [`Backend::prefill`]. Holds `tokens * vocab` f32 in memory.
///
/// # Errors
/// As [`evaluate`].
pub fn record<B: Backend>(reference: &mut B, file: &ReferenceFile) -> Result<ReferenceFile, EvaluationError> {
    if reference.vocab_size() != file.vocab_size() {
        return Err(EvaluationError::Vocabulary {
            model: reference.vocab_size(),
            reference: file.vocab_size(),
        });
    }
    let mut all = Vec::with_capacity(file.token_count() * file.vocab_size());
    for sequence in file.sequences() {
        let mut state = reference.new_state()?;
        let mut each = |_, logits: &[f32]| all.extend_from_slice(logits);
        each_position(reference, &mut state, file.tokens(sequence), Feed::Prefill(usize::MAX), &mut each)?;
    }
    Ok(file.with_logits(all))
}

/// One comparison for everything, one for each kind.
#[derive(Default)]
struct Parts {
    all: Comparison,
    text: Comparison,
    chat: Comparison,
}

impl Parts {
    fn push(
        &mut self,
        kind: SequenceKind,
        reference: Distribution<'_>,
        logits: &[f32],
        target: Option<(TokenId, f32)>,
    ) {
        let part = match kind {
            SequenceKind::Text => &mut self.text,
            SequenceKind::Chat => &mut self.chat,
        };
        let position = Position::measure(reference, logits, target);
        part.push(&position);
        self.all.push(&position);
    }

    fn report(&self) -> EvaluationReport {
        EvaluationReport {
            all: self.all.evaluation(),
            text: self.text.evaluation(),
            chat: self.chat.evaluation(),
        }
    }
}

/// Hands out `(index into tokens, logits)` for each token, in order.
fn each_position<B: Backend>(
    backend: &mut B,
    state: &mut B::State,
    tokens: &[TokenId],
    feed: Feed,
    each: &mut dyn FnMut(usize, &[f32]),
) -> Result<(), BackendError> {
    match feed {
        Feed::Prefill(chunk) => {
            let chunk = chunk.clamp(1, backend.prefill_chunk().max(1));
            for (i, part) in tokens.chunks(chunk).enumerate() {
                let mut shifted = |index: usize, logits: &[f32]| each(i * chunk + index, logits);
                backend.prefill(state, part, LogitsWanted::Each(&mut shifted))?;
            }
        }
        Feed::Decode => {
            let mut logits = Vec::new();
            for (index, &token) in tokens.iter().enumerate() {
                backend.decode(&mut [DecodeStep { state: &mut *state, token, logits: &mut logits }])?;
                each(index, &logits);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SequenceState;
    use safetensors::{Dtype, tensor::TensorView};

    /// Predicts, with logit 2 against 0, the token after the one it saw; wraps around at 4.
    struct Successor {
        chunk: usize,
        off_by: u32,
    }

    #[derive(Clone)]
    struct Count(usize);

    impl SequenceState for Count {
        fn position(&self) -> usize {
            self.0
        }
        fn bytes(&self) -> usize {
            0
        }
    }

    impl Successor {
        fn logits(&self, token: TokenId) -> Vec<f32> {
            (0..4).map(|id| if id == (token.0 + 1 + self.off_by) % 4 { 2.0 } else { 0.0 }).collect()
        }
    }

    impl Backend for Successor {
        type State = Count;
        type Snapshot = Count;
        fn describe(&self) -> String {
            "successor".into()
        }
        fn vocab_size(&self) -> usize {
            4
        }
        fn max_context(&self) -> usize {
            1000
        }
        fn prefill_chunk(&self) -> usize {
            self.chunk
        }
        fn new_state(&mut self) -> Result<Count, BackendError> {
            Ok(Count(0))
        }
        fn prefill(
            &mut self,
            state: &mut Count,
            tokens: &[TokenId],
            logits: LogitsWanted<'_>,
        ) -> Result<(), BackendError> {
            assert!(tokens.len() <= self.chunk, "a chunk larger than the backend takes");
            state.0 += tokens.len();
            if let LogitsWanted::Each(each) = logits {
                tokens.iter().enumerate().for_each(|(i, &t)| each(i, &self.logits(t)));
            }
            Ok(())
        }
        fn decode(&mut self, steps: &mut [DecodeStep<'_, Count>]) -> Result<(), BackendError> {
            for step in steps {
                step.state.0 += 1;
                *step.logits = self.logits(step.token);
            }
            Ok(())
        }
        fn snapshot(&mut self, state: &Count) -> Result<Count, BackendError> {
            Ok(state.clone())
        }
        fn restore(&mut self, snapshot: &Count) -> Result<Count, BackendError> {
            Ok(snapshot.clone())
        }
        fn snapshot_bytes(&self, _: &Count) -> usize {
            0
        }
    }

    /// Sequences 0 1 2 3 0 (text) and 2 3 (chat), as `Successor` predicts them.
    fn file(vocab: &str) -> ReferenceFile {
        let tokens = [0_u32, 1, 2, 3, 0, 2, 3];
        let normaliser = (2.0_f32.exp() + 3.0).ln();
        let best = tokens.map(|t| (t + 1) % 4);
        let u32s = |v: &[u32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let f32s = |v: &[f32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let tensors = [
            ("tokens", Dtype::U32, vec![7], u32s(&tokens)),
            ("sequence_lengths", Dtype::U32, vec![2], u32s(&[5, 2])),
            ("sequence_kinds", Dtype::U32, vec![2], u32s(&[0, 1])),
            ("log_sum_exp", Dtype::F32, vec![7], f32s(&[normaliser; 7])),
            ("top_ids", Dtype::U32, vec![7, 2], u32s(&best.map(|b| [b, (b + 1) % 4]).concat())),
            ("top_logprobs", Dtype::F32, vec![7, 2], f32s(&[2.0 - normaliser, -normaliser].repeat(7))),
            ("target_logprobs", Dtype::F32, vec![7], f32s(&[2.0 - normaliser; 7])),
        ];
        let views =
            tensors.iter().map(|(n, d, s, b)| (*n, TensorView::new(*d, s.clone(), b).expect("a view")));
        let metadata = [("format", "lily-reference"), ("format_version", "1"), ("vocab_size", vocab)];
        let metadata = metadata.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        ReferenceFile::parse(&safetensors::serialize(views, Some(metadata)).expect("serialised"))
            .expect("a good file")
    }

    #[test]
    fn the_same_model_agrees_however_it_is_fed() {
        for (chunk, feed) in
            [(64, Feed::Prefill(64)), (2, Feed::Prefill(64)), (64, Feed::Prefill(3)), (1, Feed::Decode)]
        {
            let mut heard = Vec::new();
            let mut backend = Successor { chunk, off_by: 0 };
            let report =
                evaluate(&mut backend, &file("4"), feed, |done, all| heard.push((done, all))).expect("runs");
            assert_eq!((report.all.positions, report.text.positions, report.chat.positions), (7, 5, 2));
            assert_eq!((report.all.targets, report.all.top1.share()), (5, 1.0));
            assert!(report.all.mean_kl.abs() < 1e-6 && report.all.max_logprob_difference < 1e-6);
            assert_eq!(heard.last(), Some(&(7, 7)));
        }
    }

    #[test]
    fn another_model_does_not() {
        let report =
            evaluate(&mut Successor { chunk: 4, off_by: 1 }, &file("4"), Feed::Prefill(4), |_, _| {})
                .expect("runs");
        assert_eq!(report.all.top1_clear.equal, 0);
        assert!(report.all.mean_kl > 0.5 && report.all.mean_nll_difference > 1.0);
    }

    #[test]
    fn a_backend_as_the_reference() {
        let recorded = record(&mut Successor { chunk: 3, off_by: 1 }, &file("4")).expect("runs");
        let report = evaluate(&mut Successor { chunk: 4, off_by: 1 }, &recorded, Feed::Prefill(2), |_, _| {});
        let report = report.expect("runs");
        assert_eq!((report.all.positions, report.chat.positions, report.all.targets), (7, 2, 5));
        assert_eq!((report.all.mean_kl, report.all.top1.equal), (0.0, 7));
        assert!((report.all.reference_mean_nll - report.all.mean_nll).abs() < 1e-6);
        assert!(report.all.mean_nll > 2.0, "this reference predicts the wrong token");
        let report = evaluate(&mut Successor { chunk: 4, off_by: 0 }, &recorded, Feed::Decode, |_, _| {});
        assert_eq!(report.expect("runs").all.top1.equal, 0);
        let first = recorded.row(&recorded.sequences()[0], 0);
        assert_eq!(first.top_ids, [TokenId(2), TokenId(0)], "its best tokens, ties in order");
        assert!((f64::from(first.top_logprobs[0]) - (2.0 - f64::from(first.log_sum_exp))).abs() < 1e-6);
    }

    #[test]
    fn another_vocabulary_is_refused() {
        let error = evaluate(&mut Successor { chunk: 4, off_by: 0 }, &file("5"), Feed::Decode, |_, _| {});
        assert!(matches!(error, Err(EvaluationError::Vocabulary { model: 4, reference: 5 })));
    }
}
