//! A response while it grows: pieces of an answer in, events out, and the object as it stands.
//!
//! Streamed and whole responses come from here, so they always agree.

use super::request::Terms;
use super::store::Stored;
use crate::elsewhere::drop_elsewhere;
use crate::error::ApiError;
use crate::openai::logprobs;
use crate::request::system::{call, message};
use crate::request::thinking::CARRIED;
use crate::state::{Server, unix_time};
use crate::turn::{End, Finish};
use lily_engine::TokenLogprob;
use lily_text::parser::Event as Piece;
use serde_json::{Value, json};
use std::sync::Arc;

/// What ends thinking and calls, and is no text of the answer behind it.
const MARKUP: [&str; 2] = ["</think>", "</tool_call>"];

/// An event: its type and its fields.
pub(super) type Event = (&'static str, Value);

/// A response.
pub(super) struct Builder {
    server: Arc<Server>,
    id: String,
    created: u64,
    terms: Terms,
    status: &'static str,
    details: Value,
    error: Value,
    usage: Value,
    items: Vec<Item>,
    /// Log-probabilities of tokens whose text has not come yet, each with its bytes.
    held: Vec<(Vec<u8>, Value)>,
}

/// An item of the output.
struct Item {
    id: String,
    kind: Kind,
    /// Thinking, answer or arguments.
    text: String,
    logprobs: Vec<Value>,
    complete: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call { index: usize, call_id: String, name: String },
}

impl Builder {
    pub(super) fn new(server: Arc<Server>, terms: Terms) -> Self {
        Self {
            id: server.fresh_id("resp_"),
            created: unix_time(),
            terms,
            status: "in_progress",
            details: Value::Null,
            error: Value::Null,
            usage: Value::Null,
            items: Vec::new(),
            held: Vec::new(),
            server,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Takes in new pieces.
    pub(super) fn add(&mut self, pieces: Vec<Piece>, logprob: Option<TokenLogprob>) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(logprob) = logprob.filter(|_| self.terms.logprobs) {
            let tokenizer = &self.server.model.tokenizer;
            let bytes = tokenizer.token_bytes(logprob.id).unwrap_or_default();
            self.held.push((bytes.to_vec(), logprobs::entry(tokenizer, &logprob)));
        }
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) => {
                    self.held.clear();
                    self.open(&Kind::Reasoning, &mut events);
                    self.grow(&text, Vec::new(), &mut events);
                }
                Piece::Content(text) | Piece::Incomplete(text) => {
                    self.open(&Kind::Message, &mut events);
                    let logprobs = self.logprobs_of(&text);
                    self.grow(&text, logprobs, &mut events);
                }
                Piece::CallStart { call, name } => {
                    self.held.clear();
                    let call_id = self.server.fresh_id("call_");
                    self.open(&Kind::Call { index: call, call_id, name }, &mut events);
                }
                Piece::CallArguments { json, .. } => {
                    self.held.clear();
                    self.grow(&json, Vec::new(), &mut events);
                }
                Piece::CallEnd { .. } => self.close(true, &mut events),
            }
        }
        events
    }

    /// Takes in the end.
    pub(super) fn finish(&mut self, mut finish: Finish) -> Vec<Event> {
        let mut events = self.add(std::mem::take(&mut finish.pieces), None);
        let cut = finish.end == End::Length;
        self.status = if cut { "incomplete" } else { "completed" };
        self.close(!cut, &mut events);
        // A call that was cut off is no call: its arguments are not JSON.
        self.items.retain(|item| item.complete || !matches!(item.kind, Kind::Call { .. }));
        let usage = &finish.usage;
        self.usage = json!({
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": finish.reasoning_tokens},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        });
        if cut {
            self.details = json!({"reason": "max_output_tokens"});
        }
        events
    }

    /// Takes in a fault.
    pub(super) fn fail(&mut self, error: &ApiError) {
        self.status = "failed";
        self.error = json!({"code": error.code.unwrap_or("server_error"), "message": error.text()});
    }

    /// The object as it stands, as JSON text.
    pub(super) fn response(&self) -> String {
        let output: Value = self.items.iter().map(|item| self.item_json(item)).collect();
        let own = [
            ("id", self.id.as_str().into()),
            ("object", "response".into()),
            ("created_at", self.created.into()),
            ("status", self.status.into()),
            ("background", false.into()),
            ("error", self.error.clone()),
            ("incomplete_details", self.details.clone()),
            ("model", self.server.model.id.as_str().into()),
            ("output", output),
            ("truncation", "disabled".into()),
            ("usage", self.usage.clone()),
        ];
        let mut text = String::from("{");
        for (name, value) in own {
            write_field(&mut text, name, &value.to_string());
        }
        for (name, value) in &self.terms.echo {
            write_field(&mut text, name, value.get());
        }
        text.push('}');
        text
    }

    /// Puts a complete response into the store, if it was asked to.
    pub(super) fn keep(&mut self) {
        if !self.terms.store {
            return;
        }
        let answer = self.message();
        let text = self.terms.bytes + answer.to_python_json().len();
        let (mut messages, input) =
            (std::mem::take(&mut self.terms.messages), std::mem::take(&mut self.terms.input));
        messages.push(answer);
        let response = self.response();
        // Messages as text are about as large as what holds them here.
        let items: usize = input.iter().map(super::items::Item::bytes).sum();
        let bytes = text + items + response.len() + 4096;
        self.server.responses.insert(&self.id, Stored { response, input, messages, bytes });
    }

    /// The answer as a message of chat completions.
    fn message(&self) -> lily_text::json::Value {
        use lily_text::json::Value;
        let join = |kind: &Kind| -> String {
            self.items.iter().filter(|item| item.kind == *kind).map(|item| item.text.as_str()).collect()
        };
        let calls = self.items.iter().filter_map(|item| match &item.kind {
            Kind::Call { call_id, name, .. } => {
                Some(call(call_id.clone(), name.clone(), Value::String(item.text.clone())))
            }
            _ => None,
        });
        let calls: Vec<Value> = calls.collect();
        let mut fields = vec![("content", Value::String(join(&Kind::Message)))];
        let reasoning = join(&Kind::Reasoning);
        if !reasoning.is_empty() {
            fields.push(("reasoning_content", Value::String(reasoning)));
        }
        if !calls.is_empty() {
            fields.push(("tool_calls", Value::Array(calls)));
        }
        message("assistant", fields)
    }

    /// Makes sure that the last item is one of this kind and open.
    fn open(&mut self, kind: &Kind, events: &mut Vec<Event>) {
        if self.items.last().is_some_and(|item| !item.complete && item.kind == *kind) {
            return;
        }
        self.close(true, events);
        let prefix = match kind {
            Kind::Reasoning => "rs_",
            Kind::Message => "msg_",
            Kind::Call { .. } => "fc_",
        };
        let id = self.server.fresh_id(prefix);
        let item =
            Item { id, kind: kind.clone(), text: String::new(), logprobs: Vec::new(), complete: false };
        let index = self.items.len();
        events.push((
            "response.output_item.added",
            json!({"output_index": index, "item": self.item_json(&item)}),
        ));
        if let Some(part) = part(&item, "") {
            let place = json!({"item_id": item.id, "output_index": index, "content_index": 0, "part": part});
            events.push(("response.content_part.added", place));
        }
        self.items.push(item);
    }

    /// The log-probabilities of the tokens of a text. Those of markup before it are let go, those behind it are still held.
    fn logprobs_of(&mut self, text: &str) -> Vec<Value> {
        let bytes: Vec<u8> = self.held.iter().flat_map(|(bytes, _)| bytes).copied().collect();
        let begins = self.items.last().is_some_and(|item| item.text.is_empty());
        let markup = |tag: &str| last(&bytes, tag).filter(|_| begins).map_or(0, |at| at + tag.len());
        let skipped = MARKUP.map(markup).into_iter().max().unwrap_or(0);
        let begin = first(&bytes[skipped..], text).map(|at| skipped + at);
        // Text that is not in the tokens' bytes has broken ones, or was begun by a token that is gone.
        let (begin, end) = begin.map_or((0, bytes.len()), |begin| (begin, begin + text.len()));
        let mut at = 0;
        let places = self.held.iter().map(|(bytes, _)| {
            let from = at;
            at += bytes.len();
            (from, at)
        });
        let places: Vec<(usize, usize)> = places.collect();
        let before = places.iter().take_while(|(_, to)| *to <= begin).count();
        let taken = places[before..].iter().take_while(|(from, _)| *from < end).count();
        self.held.drain(..before);
        self.held.drain(..taken).map(|(_, entry)| entry).collect()
    }

    /// Adds text to the open item.
    fn grow(&mut self, text: &str, logprobs: Vec<Value>, events: &mut Vec<Event>) {
        let index = self.items.len().saturating_sub(1);
        let Some(item) = self.items.last_mut().filter(|item| !item.complete) else { return };
        item.text.push_str(text);
        let mut event = json!({"item_id": item.id, "output_index": index, "delta": text});
        let name = match item.kind {
            Kind::Call { .. } => "response.function_call_arguments.delta",
            Kind::Reasoning => {
                event["content_index"] = 0.into();
                "response.reasoning_text.delta"
            }
            Kind::Message => {
                event["content_index"] = 0.into();
                event["logprobs"] = Value::Array(logprobs.clone());
                item.logprobs.extend(logprobs);
                "response.output_text.delta"
            }
        };
        events.push((name, event));
    }

    /// Ends the open item.
    fn close(&mut self, complete: bool, events: &mut Vec<Event>) {
        let index = self.items.len().saturating_sub(1);
        let Some(item) = self.items.last_mut().filter(|item| !item.complete) else { return };
        item.complete = complete;
        let place = |extra: Value| {
            let mut event = json!({"item_id": item.id, "output_index": index});
            if let Value::Object(extra) = extra {
                for (key, value) in extra {
                    event[key] = value;
                }
            }
            event
        };
        match &item.kind {
            Kind::Call { name, .. } => {
                // What was cut off is not announced as done.
                if !complete {
                    return;
                }
                let event = place(json!({"arguments": item.text, "name": name}));
                events.push(("response.function_call_arguments.done", event));
            }
            Kind::Reasoning => {
                let event = place(json!({"content_index": 0, "text": item.text}));
                events.push(("response.reasoning_text.done", event));
            }
            Kind::Message => {
                let event = place(json!({"content_index": 0, "text": item.text, "logprobs": item.logprobs}));
                events.push(("response.output_text.done", event));
            }
        }
        if let Some(part) = part(item, &item.text) {
            events.push(("response.content_part.done", place(json!({"content_index": 0, "part": part}))));
        }
        let item = self.items.last().map(|item| self.item_json(item));
        events.push(("response.output_item.done", json!({"output_index": index, "item": item})));
    }

    fn item_json(&self, item: &Item) -> Value {
        let status = match (item.complete, self.status) {
            (true, _) => "completed",
            (false, "in_progress") => "in_progress",
            (false, _) => "incomplete",
        };
        let content: Vec<Value> =
            part(item, &item.text).filter(|_| !item.text.is_empty()).into_iter().collect();
        match &item.kind {
            Kind::Reasoning => {
                let carried =
                    (self.terms.carry_reasoning && item.complete).then(|| format!("{CARRIED}{}", item.text));
                json!({
                    "id": item.id, "type": "reasoning", "summary": [], "content": content,
                    "encrypted_content": carried, "status": status,
                })
            }
            Kind::Message => {
                json!({"id": item.id, "type": "message", "role": "assistant", "content": content, "status": status})
            }
            Kind::Call { call_id, name, .. } => json!({
                "id": item.id, "type": "function_call", "call_id": call_id, "name": name,
                "arguments": item.text, "status": status,
            }),
        }
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        drop_elsewhere(std::mem::take(&mut self.terms));
    }
}

/// Adds a field to the text of an object.
fn write_field(text: &mut String, name: &str, value: &str) {
    if !text.ends_with('{') {
        text.push(',');
    }
    text.push('"');
    text.push_str(name);
    text.push_str("\":");
    text.push_str(value);
}

/// Where a text first stands in some bytes.
fn first(bytes: &[u8], text: &str) -> Option<usize> {
    bytes.windows(text.len().max(1)).position(|window| window == text.as_bytes())
}

/// Where a text last stands in some bytes.
fn last(bytes: &[u8], text: &str) -> Option<usize> {
    bytes.windows(text.len().max(1)).rposition(|window| window == text.as_bytes())
}

/// The one content part of an item, with some text.
fn part(item: &Item, text: &str) -> Option<Value> {
    match item.kind {
        Kind::Reasoning => Some(json!({"type": "reasoning_text", "text": text})),
        Kind::Message => {
            Some(json!({"type": "output_text", "text": text, "annotations": [], "logprobs": item.logprobs}))
        }
        Kind::Call { .. } => None,
    }
}
