//! `POST /v1/chat/completions`.

use super::chat_stream::ChatStream;
use super::chunks::StreamExtras;
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
    let request = body::read(request, &server, Request::from_chat).await?;
    let head = Head::new(&server, "chatcmpl-");
    let (stream, extras, logprobs) = (request.stream, StreamExtras::of(&request), request.logprobs.is_some());
    let origin = Origin { id: &head.id, route: "chat", arrived };
    let turns = job::start(&server, request, origin).await?;
    if stream {
        let encoder = ChatStream::new(Arc::clone(&server), head, turns.len(), extras);
        return Ok(streaming::respond(turns, encoder, server.config.limits.keep_alive));
    }
    let messages = collect(turns).await?;
    Ok(Json(completion(&server, &head, &messages, logprobs)).into_response())
}

fn completion(server: &Server, head: &Head, messages: &[Message], with_logprobs: bool) -> Value {
    let mut counts = Counts::default();
    let choices: Vec<Value> = messages
        .iter()
        .enumerate()
        .map(|(index, message)| {
            counts.add(&message.finish, index == 0);
            let entries = || message.logprobs.iter().map(|entry| logprobs::entry(&server.model.tokenizer, entry));
            json!({
                "index": index,
                "message": message_json(server, message),
                "logprobs": with_logprobs.then(|| json!({"content": entries().collect::<Vec<_>>(), "refusal": null})),
                "finish_reason": finish_reason(message.finish.end),
            })
        })
        .collect();
    json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
        "usage": counts.to_json(),
    })
}

/// `reasoning_content` and `tool_calls` are there only if there are any; `content` is null only beside calls.
fn message_json(server: &Server, message: &Message) -> Value {
    let silent = message.content.is_empty() && !message.calls.is_empty();
    let mut json =
        json!({"role": "assistant", "content": (!silent).then_some(&message.content), "refusal": null});
    if !message.reasoning.is_empty() {
        json["reasoning_content"] = Value::String(message.reasoning.clone());
    }
    if !message.calls.is_empty() {
        let calls = message.calls.iter().map(|call| {
            json!({
                "id": server.fresh_id("call_"),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        });
        json["tool_calls"] = Value::Array(calls.collect());
    }
    json
}

/// The end, in OpenAI's words.
pub(crate) fn finish_reason(end: End) -> &'static str {
    match end {
        End::Stop | End::StopString => "stop",
        End::Length => "length",
        End::ToolCalls => "tool_calls",
    }
}
