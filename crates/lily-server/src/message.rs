//! A whole answer, collected from a turn.

use crate::error::ApiError;
use crate::turn::{Finish, Turn, TurnEvent};
use futures::future::try_join_all;
use lily_engine::TokenLogprob;
use lily_text::parser::Event as Piece;

/// One choice, complete.
#[derive(Debug)]
pub(crate) struct Message {
    /// Thinking.
    pub(crate) reasoning: String,
    /// Answer.
    pub(crate) content: String,
    /// Calls whose arguments are complete.
    pub(crate) calls: Vec<Call>,
    /// One for each token of the answer, thinking and markup included.
    pub(crate) logprobs: Vec<TokenLogprob>,
    /// How it ended.
    pub(crate) finish: Finish,
}

/// A call of a function.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The function.
    pub(crate) name: String,
    /// JSON text of an object.
    pub(crate) arguments: String,
    complete: bool,
}

/// Runs all turns to their ends; the first error ends them all.
pub(crate) async fn collect(turns: Vec<Turn>) -> Result<Vec<Message>, ApiError> {
    try_join_all(turns.into_iter().map(collect_one)).await
}

async fn collect_one(mut turn: Turn) -> Result<Message, ApiError> {
    let (mut parts, mut logprobs) = (Parts::default(), Vec::new());
    while let Some(event) = turn.next().await {
        match event? {
            TurnEvent::Prefill { .. } => {}
            TurnEvent::Token { pieces, logprob } => {
                parts.add(pieces);
                logprobs.extend(logprob);
            }
            TurnEvent::Finish(mut finish) => {
                parts.add(std::mem::take(&mut finish.pieces));
                let Parts { reasoning, content, mut calls } = parts;
                // A call cut off by the token limit is no call: its arguments are not JSON.
                calls.retain(|call| call.complete);
                return Ok(Message { reasoning, content, calls, logprobs, finish });
            }
        }
    }
    Err(ApiError::internal("the engine ended without an answer"))
}

#[derive(Default)]
struct Parts {
    reasoning: String,
    content: String,
    calls: Vec<Call>,
}

impl Parts {
    fn add(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) => self.reasoning.push_str(&text),
                // An incomplete answer is told by its end; what there is of it is shown.
                Piece::Content(text) | Piece::Incomplete(text) => self.content.push_str(&text),
                Piece::CallStart { name, .. } => self.calls.push(Call { name, ..Call::default() }),
                Piece::CallArguments { call, json } => {
                    if let Some(call) = self.calls.get_mut(call) {
                        call.arguments.push_str(&json);
                    }
                }
                Piece::CallEnd { call } => {
                    if let Some(call) = self.calls.get_mut(call) {
                        call.complete = true;
                    }
                }
            }
        }
    }
}
