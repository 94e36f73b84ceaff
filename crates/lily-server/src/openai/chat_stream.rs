//! Chat completions as a stream of chunks.

use super::chat::finish_reason;
use super::chunks::{Chunks, StreamExtras};
use super::usage::Counts;
use super::{Head, logprobs};
use crate::error::ApiError;
use crate::sse;
use crate::state::Server;
use crate::streaming::Encoder;
use crate::turn::TurnEvent;
use lily_text::parser::Event as Piece;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// For each choice a chunk with the role, chunks with what is new, and one with the reason for its end; then, if asked
/// for, one with the usage and no choice; then `[DONE]`. After a fault an error object, and nothing more.
pub(crate) struct ChatStream {
    server: Arc<Server>,
    chunks: Chunks,
    counts: Counts,
    started: Vec<bool>,
}

impl ChatStream {
    pub(crate) fn new(server: Arc<Server>, head: Head, choices: usize, extras: StreamExtras) -> Self {
        let chunks = Chunks::new(head, "chat.completion.chunk", extras);
        Self { server, chunks, counts: Counts::default(), started: vec![false; choices] }
    }

    fn choice(
        &self,
        index: usize,
        delta: &Value,
        logprobs: Option<&Value>,
        finish: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let choice = json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish});
        self.chunks.choice(choice, out);
    }

    /// The chunk that opens a choice.
    fn open(&mut self, index: usize, out: &mut Vec<u8>) {
        if let Some(started @ false) = self.started.get_mut(index) {
            *started = true;
            self.choice(index, &json!({"role": "assistant", "content": ""}), None, None, out);
        }
    }

    /// What is new, as one delta.
    fn delta(&self, pieces: Vec<Piece>) -> Value {
        let (mut reasoning, mut content) = (String::new(), String::new());
        let mut calls: Vec<(usize, Map<String, Value>, String)> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) => reasoning.push_str(&text),
                Piece::Content(text) | Piece::Incomplete(text) => content.push_str(&text),
                Piece::CallStart { call, name } => {
                    let mut head = Map::new();
                    head.insert("id".to_owned(), Value::String(self.server.fresh_id("call_")));
                    head.insert("type".to_owned(), Value::String("function".to_owned()));
                    head.insert("name".to_owned(), Value::String(name));
                    calls.push((call, head, String::new()));
                }
                Piece::CallArguments { call, json } => match calls.last_mut() {
                    Some((last, _, arguments)) if *last == call => arguments.push_str(&json),
                    _ => calls.push((call, Map::new(), json)),
                },
                Piece::CallEnd { .. } => {}
            }
        }
        let mut delta = json!({});
        if !reasoning.is_empty() {
            delta["reasoning_content"] = Value::String(reasoning);
        }
        if !content.is_empty() {
            delta["content"] = Value::String(content);
        }
        if !calls.is_empty() {
            delta["tool_calls"] = calls.into_iter().map(call_delta).collect();
        }
        delta
    }
}

fn call_delta((index, mut head, arguments): (usize, Map<String, Value>, String)) -> Value {
    let mut function = json!({"arguments": arguments});
    if let Some(name) = head.remove("name") {
        function["name"] = name;
    }
    let mut call = json!({"index": index});
    for (key, value) in head {
        call[key] = value;
    }
    call["function"] = function;
    call
}

impl Encoder for ChatStream {
    fn event(&mut self, choice: usize, event: TurnEvent, out: &mut Vec<u8>) {
        match event {
            TurnEvent::Prefill { done, total } => self.chunks.progress(done, total, out),
            TurnEvent::Token { pieces, logprob } => {
                self.open(choice, out);
                let delta = self.delta(pieces);
                let logprobs = logprob.map(|logprob| {
                    json!({"content": [logprobs::entry(&self.server.model.tokenizer, &logprob)], "refusal": null})
                });
                if logprobs.is_some() || delta.as_object().is_some_and(|delta| !delta.is_empty()) {
                    self.choice(choice, &delta, logprobs.as_ref(), None, out);
                }
            }
            TurnEvent::Finish(finish) => {
                self.open(choice, out);
                self.counts.add(&finish, choice == 0);
                let delta = self.delta(finish.pieces);
                if delta.as_object().is_some_and(|delta| !delta.is_empty()) {
                    self.choice(choice, &delta, None, None, out);
                }
                self.choice(choice, &json!({}), None, Some(finish_reason(finish.end)), out);
            }
        }
    }

    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        sse::data(out, &error.body());
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.chunks.end(&self.counts, out);
    }
}
