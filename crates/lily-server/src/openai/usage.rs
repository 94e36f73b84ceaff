//! Token counts of an answer.

use crate::turn::Finish;
use serde_json::{Value, json};

/// The counts of one request: its prompt once, all its choices together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) prompt: usize,
    pub(crate) cached: usize,
    pub(crate) completion: usize,
    pub(crate) reasoning: usize,
}

impl Counts {
    /// Adds a choice. `new_prompt` is false for further choices of a prompt that has been counted.
    pub(crate) fn add(&mut self, finish: &Finish, new_prompt: bool) {
        if new_prompt {
            self.prompt += finish.usage.prompt_tokens;
            self.cached += finish.usage.cached_tokens;
        }
        self.completion += finish.usage.completion_tokens;
        self.reasoning += finish.reasoning_tokens;
    }

    /// The `usage` object of chat completions and completions.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        })
    }
}
