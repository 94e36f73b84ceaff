//! What tests need to run an engine without a model: a backend that plays a script, and a small tokenizer.

mod byte_tokenizer;
mod scripted_backend;

pub use byte_tokenizer::{END, TOOL, WORD, byte_tokenizer, bytes};
pub use scripted_backend::{Call, CallKind, Fault, ScriptedBackend, ScriptedState};
