//! An answer in Anthropic's format.

use crate::error::ApiError;
use crate::message::Message;
use crate::request::thinking::CARRIED;
use crate::state::Server;
use crate::turn::{End, Finish};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A message.
#[derive(Serialize)]
pub(super) struct Answer {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: String,
    content: Vec<Block>,
    stop_reason: &'static str,
    stop_sequence: Option<String>,
    usage: Value,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    /// The signature of the original proves that it wrote the thinking, and carries what is not shown; there is nothing
    /// to prove here.
    Thinking {
        thinking: String,
        signature: String,
    },
    Text {
        text: String,
    },
    /// `input` is passed on as it was written, so that no number loses digits.
    ToolUse {
        id: String,
        name: String,
        input: Box<RawValue>,
    },
}

/// A message; `hide_thinking` carries what was thought in the signature.
pub(super) fn answer(
    server: &Server,
    id: &str,
    message: Message,
    hide_thinking: bool,
) -> Result<Answer, ApiError> {
    let Message { reasoning, content, calls, finish, .. } = message;
    let mut blocks = Vec::new();
    if !reasoning.is_empty() {
        blocks.push(match hide_thinking {
            true => Block::Thinking { thinking: String::new(), signature: format!("{CARRIED}{reasoning}") },
            false => Block::Thinking { thinking: reasoning, signature: String::new() },
        });
    }
    if !content.is_empty() {
        blocks.push(Block::Text { text: content });
    }
    for call in calls {
        let input = RawValue::from_string(call.arguments).map_err(|_| {
            ApiError::internal("the arguments of a call are not JSON; this is a fault of the server")
        })?;
        blocks.push(Block::ToolUse { id: server.fresh_id("toolu_"), name: call.name, input });
    }
    Ok(Answer {
        id: id.to_owned(),
        kind: "message",
        role: "assistant",
        model: server.model.id.clone(),
        content: blocks,
        stop_reason: stop_reason(finish.end),
        usage: usage(&finish),
        stop_sequence: finish.stop,
    })
}

/// The end, in this format's words.
pub(super) fn stop_reason(end: End) -> &'static str {
    match end {
        End::Stop => "end_turn",
        End::StopString => "stop_sequence",
        End::Length => "max_tokens",
        End::ToolCalls => "tool_use",
    }
}

/// Token counts; here the cached part of the prompt is not part of `input_tokens`.
pub(super) fn usage(finish: &Finish) -> Value {
    let usage = &finish.usage;
    json!({
        "input_tokens": usage.prompt_tokens - usage.cached_tokens.min(usage.prompt_tokens),
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.completion_tokens,
    })
}
