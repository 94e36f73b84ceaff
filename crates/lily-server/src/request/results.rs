//! Results of calls, which must answer a call: [`Calls`].

use crate::error::ApiError;
use crate::fields::is_word;
use lily_text::json::Value;
use std::collections::HashSet;

/// The calls that a conversation has made so far.
///
/// A result without its call is the mark of a history that was cut in the wrong place, and the model would read an
/// answer to nothing. The reverse is taken: a call without a result is what an interrupted agent leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    ids: HashSet<String>,
}

impl Calls {
    /// Those of messages in the shape of chat completions.
    pub(crate) fn of(messages: &[Value]) -> Self {
        let mut calls = Self::default();
        messages.iter().for_each(|message| calls.see(message));
        calls
    }

    /// Takes note of the calls of a message.
    pub(crate) fn see(&mut self, message: &Value) {
        let Some(Value::Array(calls)) = message.get("tool_calls") else { return };
        let ids = calls.iter().filter_map(|call| call.get("id").and_then(Value::as_str));
        self.ids.extend(ids.map(str::to_owned));
    }

    /// Takes note of a call.
    pub(crate) fn made(&mut self, id: &str) {
        self.ids.insert(id.to_owned());
    }

    /// Checks that a result, whose id stands at `path`, answers one of them.
    pub(crate) fn check(&self, path: &str, id: &str) -> Result<(), ApiError> {
        if self.ids.contains(id) {
            return Ok(());
        }
        let id = if is_word(id) { id } else { "this" };
        Err(ApiError::invalid(
            path,
            format_args!("{id} is not the id of a call that was made before this result"),
        ))
    }
}
