//! How close a path through the model is to a reference: teacher-forced log-probabilities, compared position by
//! position.
//!
//! A [`ReferenceFile`] holds token sequences and what a trusted implementation (mlx-lm in f32, the plain reference)
//! predicted after each token. [`evaluate`] runs a backend over the same tokens and answers an
//! [`EvaluationReport`]: Kullback-Leibler divergence, top-1 agreement and perplexity with its standard error.
//! [`record`] makes a backend the reference, over the whole vocabulary; [`Bounds`] says what is allowed.
//! `docs/evaluation.md` describes the file and the metrics.

mod bounds;
mod expert_choices;
mod metrics;
mod reference_file;
mod run;

pub use bounds::Bounds;
pub use expert_choices::ExpertChoices;
pub use metrics::{Agreement, CLEAR_MARGIN, Comparison, Distribution, Evaluation, Position, log_sum_exp};
pub use reference_file::{ReferenceFile, ReferenceFileError, ReferenceRow, ReferenceSequence, SequenceKind};
pub use run::{EvaluationError, EvaluationReport, Feed, evaluate, record};
