//! The messages so far, as the chat template wants them.

use crate::{answer::Answer, json};
use lily_text::{RenderRequest, json::Value};

/// A conversation in turns.
#[derive(Debug, Clone, Default)]
pub(super) struct Conversation {
    pub(super) system: Option<String>,
    /// `None` leaves it to the template.
    pub(super) thinking: Option<bool>,
    /// User and assistant messages.
    messages: Vec<Value>,
}

impl Conversation {
    /// A conversation without messages.
    pub(super) fn new(system: Option<String>, thinking: Option<bool>) -> Self {
        Self { system, thinking, messages: Vec::new() }
    }

    /// Adds a user's message.
    pub(super) fn ask(&mut self, text: &str) {
        self.messages.push(json::message("user", text));
    }

    /// Adds the answer. Its thinking goes along as `reasoning_content`: the template decides what becomes of it.
    pub(super) fn answered(&mut self, answer: &Answer) {
        let mut message = json::message("assistant", &answer.text);
        if let Value::Object(entries) = &mut message
            && !answer.reasoning.is_empty()
        {
            entries.push(("reasoning_content".to_owned(), Value::from(answer.reasoning.as_str())));
        }
        self.messages.push(message);
    }

    /// Takes the last user message back, and the answer to it; `None` if there is none.
    pub(super) fn take_back(&mut self) -> Option<String> {
        while let Some(message) = self.messages.pop() {
            let field = |name: &str| message.get(name).and_then(Value::as_str);
            if field("role") == Some("user") {
                return field("content").map(str::to_owned);
            }
        }
        None
    }

    /// Forgets all messages.
    pub(super) fn reset(&mut self) {
        self.messages.clear();
    }

    /// What the template is rendered with.
    pub(super) fn request(&self) -> RenderRequest {
        let system = self.system.as_deref().map(|text| json::message("system", text));
        RenderRequest {
            messages: system.into_iter().chain(self.messages.iter().cloned()).collect(),
            tools: Vec::new(),
            kwargs: self
                .thinking
                .map(|on| ("enable_thinking".to_owned(), Value::Bool(on)))
                .into_iter()
                .collect(),
            add_generation_prompt: true,
        }
    }
}
