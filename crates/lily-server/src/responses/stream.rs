//! A response as a stream of events.

use super::builder::{Builder, Event};
use crate::error::ApiError;
use crate::sse;
use crate::streaming::Encoder;
use crate::turn::TurnEvent;
use serde_json::json;

/// Numbers the events and frames them.
pub(super) struct ResponseStream {
    builder: Builder,
    sequence: u64,
    incomplete: bool,
}

impl ResponseStream {
    pub(super) fn new(builder: Builder) -> Self {
        Self { builder, sequence: 0, incomplete: false }
    }

    fn send(&mut self, (name, fields): Event, out: &mut Vec<u8>) {
        let mut event = json!({"type": name, "sequence_number": self.sequence});
        if let serde_json::Value::Object(fields) = fields {
            for (key, value) in fields {
                event[key] = value;
            }
        }
        self.sequence += 1;
        sse::named(out, name, &event);
    }

    fn send_response(&mut self, name: &'static str, out: &mut Vec<u8>) {
        // The object may be large: it is text already, and stays that.
        let (sequence, response) = (self.sequence, self.builder.response());
        self.sequence += 1;
        let event = format!(r#"{{"type":"{name}","sequence_number":{sequence},"response":{response}}}"#);
        sse::named_text(out, name, &event);
    }

    fn send_all(&mut self, events: Vec<Event>, out: &mut Vec<u8>) {
        for event in events {
            self.send(event, out);
        }
    }
}

impl Encoder for ResponseStream {
    fn start(&mut self, out: &mut Vec<u8>) {
        self.send_response("response.created", out);
        self.send_response("response.in_progress", out);
    }

    fn event(&mut self, _choice: usize, event: TurnEvent, out: &mut Vec<u8>) {
        match event {
            TurnEvent::Prefill { .. } => {}
            TurnEvent::Token { pieces, logprob } => {
                let events = self.builder.add(pieces, logprob);
                self.send_all(events, out);
            }
            TurnEvent::Finish(finish) => {
                self.incomplete = finish.end == crate::turn::End::Length;
                let events = self.builder.finish(finish);
                self.send_all(events, out);
            }
        }
    }

    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        self.builder.fail(error);
        self.send_response("response.failed", out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.builder.keep();
        self.send_response(if self.incomplete { "response.incomplete" } else { "response.completed" }, out);
    }
}
