//! What is text: tokenizer, chat template, incremental detokenizer, parsers and grammar constraints. No tensors.

pub mod constraint;
pub mod json;
mod messages;
pub mod parser;
mod pointer;
mod template;
mod tokenizer;
pub mod word;

pub use messages::{MessageError, prepare_messages};
pub use template::{ChatTemplate, Prompt, RenderRequest, TemplateError};
pub use tokenizer::{Detokenizer, Tokenizer, TokenizerError, Utf8Decoder};

/// A row of the embedding: what the model reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct TokenId(pub u32);
