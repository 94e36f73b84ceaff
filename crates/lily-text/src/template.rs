//! The checkpoint's own Jinja chat template.

use crate::json::Value;

/// Why a prompt could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template refused the request in its own words (`raise_exception`).
    #[error("{0}")]
    Refused(String),
    /// The template does not compile, or failed while it ran.
    #[error("chat template, line {line}: {message}")]
    Broken {
        /// Line in the template, 1-based; 0 when unknown.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

/// What a template is rendered with. `messages` have been through [`crate::prepare_messages`].
#[derive(Debug, Clone, Default)]
pub struct RenderRequest {
    /// The conversation.
    pub messages: Vec<Value>,
    /// Tool definitions as on the wire; empty is none.
    pub tools: Vec<Value>,
    /// Further top-level template variables (`enable_thinking`, `preserve_thinking`).
    pub kwargs: Vec<(String, Value)>,
    /// End with the header of the assistant's turn.
    pub add_generation_prompt: bool,
}

/// A rendered prompt that still knows which spans came from message text: there, spellings of special tokens are
/// plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Pieces in order: template text (control tokens are tokens) or message text (they are plain text).
    pub(crate) pieces: Vec<(bool, String)>,
}

impl Prompt {
    /// The exact text, all pieces joined.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// A compiled chat template.
#[derive(Debug, Clone)]
pub struct ChatTemplate {}

impl ChatTemplate {
    /// Compiles a template (`chat_template.jinja`, or the `chat_template` string of `tokenizer_config.json`).
    ///
    /// # Errors
    /// [`TemplateError::Broken`].
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        let _ = source;
        unreachable!("skeleton")
    }

    /// Renders a request.
    ///
    /// # Errors
    /// The template's own refusal, or its fault.
    pub fn render(&self, request: &RenderRequest) -> Result<Prompt, TemplateError> {
        let _ = request;
        unreachable!("skeleton")
    }
}
