//! The checkpoint's own Jinja chat template.

mod arguments;
mod environment;
mod filters;
mod guard;
mod methods;
mod python;
mod strftime;
mod tojson;
mod values;

use std::ops::Range;
use std::sync::Arc;

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

/// A rendered prompt that still knows which spans are control tokens that the template itself wrote; everywhere else,
/// spellings of special tokens are plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub(crate) text: String,
    /// Spans of `text`, in order, that spell a control token and came wholly from the template's own text.
    pub(crate) control: Vec<Range<usize>>,
}

impl Prompt {
    /// The exact text.
    pub fn text(&self) -> String {
        self.text.clone()
    }

    /// The exact text, borrowed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The spans of the text that are control tokens: those whose spelling came wholly from the template.
    pub fn control_spans(&self) -> &[Range<usize>] {
        &self.control
    }
}

/// A compiled chat template; cheap to clone.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    inner: Arc<guard::GuardedTemplate>,
}

impl ChatTemplate {
    /// Compiles a template (`chat_template.jinja`, or the `chat_template` string of `tokenizer_config.json`).
    ///
    /// # Errors
    /// [`TemplateError::Broken`].
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        if source.trim().is_empty() {
            // It would render every conversation to nothing.
            return Err(TemplateError::Broken { line: 1, message: "the template is empty".to_owned() });
        }
        Ok(ChatTemplate { inner: Arc::new(guard::GuardedTemplate::new(source)?) })
    }

    /// Renders a request.
    ///
    /// # Errors
    /// The template's own refusal, or its fault.
    pub fn render(&self, request: &RenderRequest) -> Result<Prompt, TemplateError> {
        self.inner.render(request)
    }
}
