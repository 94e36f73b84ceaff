//! Backends, sampling, sessions and the generation loop.

mod answer;
mod backend;
mod constraint;
mod engine;
pub mod evaluation;
mod event;
mod guarded_backend;
mod metrics;
mod penalties;
mod prefix_cache;
mod queue;
mod random;
mod reply;
mod request;
mod sampler;
mod sampling_params;
mod scheduler;
mod selection;
mod sequence;
mod stop_matcher;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod token_mask;

pub use backend::{
    Backend, BackendError, ChoicePlan, ChoiceStep, Chosen, DecodeStep, LogitsWanted, SequenceState,
};
pub use constraint::{ConstraintError, TokenConstraint};
pub use engine::{Engine, EngineOptions, Generation, SubmitError};
pub use event::{Event, FinishReason, GenerationError, TokenLogprob, Usage};
pub use lily_text::TokenId;
pub use metrics::{Metrics, Round};
pub use request::{CancelToken, GenerationRequest};
pub use sampler::{Choice, Sampler};
pub use sampling_params::{SamplingError, SamplingParams};
pub use token_mask::TokenMask;
