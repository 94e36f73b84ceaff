//! Anthropic's wire format: `POST /v1/messages` and `POST /v1/messages/count_tokens`.

mod answer;
mod content;
mod errors;
mod request;
mod stream;

pub(crate) use errors::translate_errors;

use crate::body;
use crate::error::ApiError;
use crate::job::{self, Origin};
use crate::message::collect;
use crate::request::{Input, Request};
use crate::state::Server;
use crate::streaming;
use answer::answer;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use stream::MessageStream;

/// `POST /v1/messages`.
pub(crate) async fn messages(
    State(server): State<Arc<Server>>,
    request: axum::extract::Request,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    let request = body::read(request, &server, Request::from_anthropic).await?;
    let (stream, hide_thinking) = (request.stream, request.hide_thinking);
    let id = server.fresh_id("msg_");
    let turns = job::start(&server, request, Origin { id: &id, route: "messages", arrived }).await?;
    if stream {
        let prompt_tokens = turns.iter().map(crate::turn::Turn::prompt_tokens).sum();
        let encoder = MessageStream::new(Arc::clone(&server), id, prompt_tokens, hide_thinking);
        return Ok(streaming::respond(turns, encoder, server.config.limits.keep_alive));
    }
    let message = collect(turns).await?.pop().ok_or_else(|| ApiError::internal("there is no answer"))?;
    Ok(Json(answer(&server, &id, message, hide_thinking)?).into_response())
}

/// `POST /v1/messages/count_tokens`: the prompt's length, exact.
pub(crate) async fn count_tokens(
    State(server): State<Arc<Server>>,
    request: axum::extract::Request,
) -> Result<Json<Value>, ApiError> {
    match body::read(request, &server, Request::from_anthropic).await?.input {
        Input::Chat(conversation) => {
            let (prompt, _) = job::render(&server, conversation).await?;
            Ok(Json(json!({"input_tokens": prompt.ids.len()})))
        }
        Input::Text(..) => Err(ApiError::internal("a conversation was read as text")),
    }
}
