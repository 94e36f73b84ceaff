//! Backends, sampling, sessions and the generation loop.

mod backend;
mod constraint;
mod engine;
pub mod evaluation;
mod event;
mod metrics;
mod request;
mod sampling_params;
mod token_mask;

pub use backend::{Backend, BackendError, DecodeStep, LogitsWanted, SequenceState};
pub use constraint::{ConstraintError, TokenConstraint};
pub use engine::{Engine, EngineOptions, Generation, SubmitError};
pub use event::{Event, FinishReason, GenerationError, TokenLogprob, Usage};
pub use lily_text::TokenId;
pub use metrics::Metrics;
pub use request::{CancelToken, GenerationRequest};
pub use sampling_params::{SamplingError, SamplingParams};
pub use token_mask::TokenMask;
