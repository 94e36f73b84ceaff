//! The chunks of a stream in OpenAI's older formats: what every one of them has around its choices.

use super::usage::Counts;
use super::{FINGERPRINT, Head};
use crate::request::Request;
use crate::sse;
use serde_json::{Value, json};

/// What a stream carries beside the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamExtras {
    /// A usage chunk at the end.
    usage: bool,
    /// Comments on the progress of prefill.
    progress: bool,
}

impl StreamExtras {
    pub(crate) fn of(request: &Request) -> Self {
        Self { usage: request.include_usage, progress: request.include_progress }
    }
}

/// Writes chunks.
pub(super) struct Chunks {
    head: Head,
    object: &'static str,
    extras: StreamExtras,
}

impl Chunks {
    /// Chunks of a kind (`chat.completion.chunk`).
    pub(super) fn new(head: Head, object: &'static str, extras: StreamExtras) -> Self {
        Self { head, object, extras }
    }

    fn write(&self, choices: &Value, usage: Value, out: &mut Vec<u8>) {
        let mut chunk = json!({
            "id": self.head.id,
            "object": self.object,
            "created": self.head.created,
            "model": self.head.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        if self.extras.usage {
            chunk["usage"] = usage;
        }
        sse::data(out, &chunk);
    }

    /// A chunk with one choice.
    pub(super) fn choice(&self, choice: Value, out: &mut Vec<u8>) {
        self.write(&Value::Array(vec![choice]), Value::Null, out);
    }

    /// How far the reading of the prompt is, if that was asked for.
    pub(super) fn progress(&self, done: usize, total: usize, out: &mut Vec<u8>) {
        if self.extras.progress {
            sse::comment(out, &format!("prefill {done}/{total}"));
        }
    }

    /// The end: a chunk with the usage and no choice, if it was asked for, and the end marker.
    pub(super) fn end(&self, counts: &Counts, out: &mut Vec<u8>) {
        if self.extras.usage {
            self.write(&json!([]), counts.to_json(), out);
        }
        out.extend_from_slice(sse::DONE);
    }
}
