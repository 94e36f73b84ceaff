//! Constrained decoding: which tokens may come next, so that an answer has the form that was asked for.
//!
//! A [`Constrainer`] holds a tokenizer's vocabulary as a prefix tree; it turns [`Rules`] into a [`Guide`], which a
//! generation asks for a mask before each token and tells of each token chosen. Grammars are run by the `llguidance`
//! crate; what is free (thinking, and text before a call) is followed here, where a mask costs nothing.
//!
//! What a guide holds to:
//!
//! - **Thinking is free** until `</think>`; the answer cannot end before that. Only then the grammar begins.
//! - **Control tokens** (every added token: `<|im_end|>`, `<think>`, `<tool_call>`) are no text: strings of an answer
//!   may spell them in ordinary tokens, but never hold them. A stop id is allowed only where the answer may end, an id
//!   without a token never.
//! - **Calls** have the form that the template shows, and no other. [`MessageParser::exact`] reads just that form.
//! - **JSON** is as the schema says, its properties in the schema's order, with white space of at most a line's end and
//!   an indentation in each place. A schema that cannot be held to is an error that names the place.
//!
//! [`MessageParser::exact`]: crate::parser::MessageParser::exact

mod arguments;
mod calls;
mod constrainer;
mod finite;
mod flatten;
mod guide;
mod json;
mod lark;
mod marker;
mod reason;
mod schema;
mod soundness;
mod value;
mod vocabulary;

pub use constrainer::Constrainer;
pub use guide::{Guide, GuideError};

use crate::json::Value;
use crate::parser::Start;

/// The form of an answer.
#[derive(Debug, Clone)]
pub struct Rules<'a> {
    /// Where the answer begins.
    pub start: Start,
    /// The form of an answer that is no call: a JSON schema, or free text.
    pub answer: Option<&'a Value>,
    /// The functions that may be called; none if no call may be made.
    pub functions: Vec<Function<'a>>,
    /// The answer must be a call.
    pub required: bool,
    /// More than one call may be made.
    pub parallel: bool,
}

/// A function as the rules know it.
#[derive(Debug, Clone, Copy)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// The schema of its arguments; absent, it has none.
    pub parameters: Option<&'a Value>,
    /// Its arguments are held to the schema, or the rules are refused. Else a call that is required follows the schema
    /// as far as that can be said, and others may have any arguments.
    pub strict: bool,
}

impl Rules<'_> {
    /// True if any text keeps these rules.
    pub fn are_free(&self) -> bool {
        self.answer.is_none() && !self.required && !self.functions.iter().any(|function| function.strict)
    }
}

/// Why rules cannot be held to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// The schema of the answer.
    #[error("{0}")]
    Answer(SchemaError),
    /// The schema of a function's arguments.
    #[error("function {index}: {error}")]
    Function {
        /// Index among the rules' functions.
        index: usize,
        /// What is wrong with it.
        error: SchemaError,
    },
    /// A call is required, and there is no function.
    #[error("a call is required, and there is no function to call")]
    NothingToCall,
    /// Something beyond a single schema.
    #[error("{0}")]
    Other(String),
}

/// What is wrong with a schema, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// The place, as a path of keys (`properties.city.pattern`); empty for the schema as a whole.
    pub path: String,
    /// What is wrong there.
    pub reason: String,
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "at {path}: {}", self.reason),
        }
    }
}

impl std::error::Error for SchemaError {}

impl SchemaError {
    fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}
