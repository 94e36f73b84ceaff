//! An answer in Anthropic's format as a stream of events.

use super::answer::{stop_reason, usage};
use super::errors::error_body;
use crate::error::ApiError;
use crate::request::thinking::CARRIED;
use crate::sse;
use crate::state::Server;
use crate::streaming::Encoder;
use crate::turn::TurnEvent;
use lily_text::parser::Event as Piece;
use serde_json::{Value, json};
use std::sync::Arc;

/// Opens a block for each stretch of thinking and text and for each call, fills it, and closes it before the next.
pub(super) struct MessageStream {
    server: Arc<Server>,
    id: String,
    prompt_tokens: usize,
    /// Index of the open block, or of the next.
    index: usize,
    open: Option<Open>,
    /// What was thought and is not shown, if it is to be hidden.
    hidden: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Thinking,
    Text,
    Call(usize),
}

impl MessageStream {
    pub(super) fn new(server: Arc<Server>, id: String, prompt_tokens: usize, hide_thinking: bool) -> Self {
        let hidden = hide_thinking.then(String::new);
        Self { server, id, prompt_tokens, index: 0, open: None, hidden }
    }

    fn pieces(&mut self, pieces: Vec<Piece>, out: &mut Vec<u8>) {
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) => {
                    self.enter(
                        Open::Thinking,
                        &json!({"type": "thinking", "thinking": "", "signature": ""}),
                        out,
                    );
                    match &mut self.hidden {
                        Some(hidden) => hidden.push_str(&text),
                        None => self.delta(&json!({"type": "thinking_delta", "thinking": text}), out),
                    }
                }
                Piece::Content(text) | Piece::Incomplete(text) => {
                    self.enter(Open::Text, &json!({"type": "text", "text": ""}), out);
                    self.delta(&json!({"type": "text_delta", "text": text}), out);
                }
                Piece::CallStart { call, name } => {
                    let id = self.server.fresh_id("toolu_");
                    self.enter(
                        Open::Call(call),
                        &json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                        out,
                    );
                }
                Piece::CallArguments { json, .. } => {
                    self.delta(&json!({"type": "input_json_delta", "partial_json": json}), out);
                }
                Piece::CallEnd { .. } => self.close(out),
            }
        }
    }

    /// Makes sure that the right block is open.
    fn enter(&mut self, block: Open, start: &Value, out: &mut Vec<u8>) {
        if self.open != Some(block) {
            self.close(out);
            self.open = Some(block);
            let event = json!({"type": "content_block_start", "index": self.index, "content_block": start});
            sse::named(out, "content_block_start", &event);
        }
    }

    fn delta(&self, delta: &Value, out: &mut Vec<u8>) {
        let event = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        sse::named(out, "content_block_delta", &event);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(open) = self.open.take() {
            if let (Open::Thinking, Some(hidden)) = (open, &mut self.hidden) {
                let signature = format!("{CARRIED}{}", std::mem::take(hidden));
                self.delta(&json!({"type": "signature_delta", "signature": signature}), out);
            }
            sse::named(
                out,
                "content_block_stop",
                &json!({"type": "content_block_stop", "index": self.index}),
            );
            self.index += 1;
        }
    }
}

impl Encoder for MessageStream {
    fn start(&mut self, out: &mut Vec<u8>) {
        // How much of the prompt was cached is known later; the last event has the exact counts.
        let message = json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.server.model.id,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {"input_tokens": self.prompt_tokens, "output_tokens": 0},
        });
        sse::named(out, "message_start", &json!({"type": "message_start", "message": message}));
    }

    fn event(&mut self, _choice: usize, event: TurnEvent, out: &mut Vec<u8>) {
        match event {
            TurnEvent::Prefill { .. } => {}
            TurnEvent::Token { pieces, .. } => self.pieces(pieces, out),
            TurnEvent::Finish(mut finish) => {
                self.pieces(std::mem::take(&mut finish.pieces), out);
                self.close(out);
                let delta = json!({"stop_reason": stop_reason(finish.end), "stop_sequence": finish.stop});
                let event = json!({"type": "message_delta", "delta": delta, "usage": usage(&finish)});
                sse::named(out, "message_delta", &event);
            }
        }
    }

    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        sse::named(out, "error", &error_body(error));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        sse::named(out, "message_stop", &json!({"type": "message_stop"}));
    }
}
