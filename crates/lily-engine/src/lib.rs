//! Backends, sampling, sessions and the generation loop.

mod backend;
mod engine;
mod request;

pub use backend::{Backend, BackendError, DecodeStep, LogitsWanted, SequenceState};
pub use engine::{Engine, EngineOptions, Generation, SubmitError};
pub use lily_text::TokenId;
pub use request::{
    Event, FinishReason, GenerationError, GenerationRequest, SamplingError, SamplingParams, TokenLogprob, Usage,
};
