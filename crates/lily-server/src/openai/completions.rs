//! `POST /v1/completions`: a prompt, continued as it is.

use super::chunks::StreamExtras;
use super::completions_stream::CompletionsStream;
use super::usage::Counts;
use super::{FINGERPRINT, Head, logprobs};
use crate::body;
use crate::error::ApiError;
use crate::job::{self, Origin};
use crate::message::{Message, collect};
use crate::request::Request;
use crate::state::Server;
use crate::streaming;
use crate::turn::End;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// The handler.
pub(crate) async fn handle(
    State(server): State<Arc<Server>>,
    request: axum::extract::Request,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    let request = body::read(request, &server, Request::from_completions).await?;
    let head = Head::new(&server, "cmpl-");
    let (stream, extras, choices) = (request.stream, StreamExtras::of(&request), request.choices);
    let logprobs = request.logprobs.is_some();
    let turns = job::start(&server, request, Origin { id: &head.id, route: "completions", arrived }).await?;
    if stream {
        let encoder = CompletionsStream::new(Arc::clone(&server), head, choices, extras);
        return Ok(streaming::respond(turns, encoder, server.config.limits.keep_alive));
    }
    let messages = collect(turns).await?;
    Ok(Json(completion(&server, &head, &messages, choices, logprobs)).into_response())
}

fn completion(
    server: &Server,
    head: &Head,
    messages: &[Message],
    choices: usize,
    with_logprobs: bool,
) -> Value {
    let mut counts = Counts::default();
    let mut list = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        counts.add(&message.finish, index.is_multiple_of(choices));
        let mut offset = logprobs::Offset::default();
        let logprobs = || logprobs::legacy(&server.model.tokenizer, &message.logprobs, &mut offset);
        list.push(json!({
            "index": index,
            "text": message.content,
            "logprobs": with_logprobs.then(logprobs),
            "finish_reason": finish_reason(message.finish.end),
        }));
    }
    json!({
        "id": head.id,
        "object": "text_completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": FINGERPRINT,
        "choices": list,
        "usage": counts.to_json(),
    })
}

/// The end, in this route's words.
pub(crate) fn finish_reason(end: End) -> &'static str {
    match end {
        End::Stop | End::StopString | End::ToolCalls => "stop",
        End::Length => "length",
    }
}
