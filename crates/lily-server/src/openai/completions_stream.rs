//! Completions as a stream of chunks.

use super::chunks::{Chunks, StreamExtras};
use super::completions::finish_reason;
use super::usage::Counts;
use super::{Head, logprobs};
use crate::error::ApiError;
use crate::sse;
use crate::state::Server;
use crate::streaming::Encoder;
use crate::turn::TurnEvent;
use lily_engine::TokenLogprob;
use lily_text::parser::Event as Piece;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Chunks with text, for each choice one with the reason for its end, a usage chunk if asked for, and `[DONE]`.
pub(crate) struct CompletionsStream {
    server: Arc<Server>,
    chunks: Chunks,
    /// Choices of each prompt.
    choices: usize,
    counts: Counts,
    /// How far each text is, for `logprobs.text_offset`.
    offsets: HashMap<usize, logprobs::Offset>,
}

impl CompletionsStream {
    pub(crate) fn new(server: Arc<Server>, head: Head, choices: usize, extras: StreamExtras) -> Self {
        let chunks = Chunks::new(head, "text_completion", extras);
        Self { server, chunks, choices, counts: Counts::default(), offsets: HashMap::new() }
    }

    fn choice(
        &self,
        index: usize,
        text: &str,
        logprobs: Option<&Value>,
        finish: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let choice = json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish});
        self.chunks.choice(choice, out);
    }

    fn logprobs(&mut self, choice: usize, logprob: Option<TokenLogprob>) -> Option<Value> {
        let offset = self.offsets.entry(choice).or_default();
        logprob.map(|logprob| logprobs::legacy(&self.server.model.tokenizer, &[logprob], offset))
    }
}

impl Encoder for CompletionsStream {
    fn event(&mut self, choice: usize, event: TurnEvent, out: &mut Vec<u8>) {
        match event {
            TurnEvent::Prefill { done, total } => self.chunks.progress(done, total, out),
            TurnEvent::Token { pieces, logprob } => {
                let (text, logprobs) = (text_of(pieces), self.logprobs(choice, logprob));
                if logprobs.is_some() || !text.is_empty() {
                    self.choice(choice, &text, logprobs.as_ref(), None, out);
                }
            }
            TurnEvent::Finish(finish) => {
                self.counts.add(&finish, choice.is_multiple_of(self.choices));
                self.choice(choice, &text_of(finish.pieces), None, Some(finish_reason(finish.end)), out);
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

/// Plain completions have content only.
fn text_of(pieces: Vec<Piece>) -> String {
    let texts = pieces.into_iter().filter_map(|piece| match piece {
        Piece::Content(text) => Some(text),
        _ => None,
    });
    texts.collect()
}
