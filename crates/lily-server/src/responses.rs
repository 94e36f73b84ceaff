//! OpenAI's newer wire format: `/v1/responses`, stateless and stored.

mod builder;
mod input;
mod items;
mod request;
mod store;
mod stream;

pub(crate) use store::Store;

use crate::body;
use crate::error::ApiError;
use crate::job::{self, Origin};
use crate::state::Server;
use crate::streaming;
use crate::turn::{Turn, TurnEvent};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use builder::Builder;
use items::Page;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use stream::ResponseStream;

/// `POST /v1/responses`.
pub(crate) async fn create(
    State(server): State<Arc<Server>>,
    request: axum::extract::Request,
) -> Result<Response, ApiError> {
    let arrived = Instant::now();
    let (request, terms) = body::read(request, &server, request::read).await?;
    let stream = request.stream;
    let builder = Builder::new(Arc::clone(&server), terms);
    let origin = Origin { id: builder.id(), route: "responses", arrived };
    let turns = job::start(&server, request, origin).await.map_err(of_input)?;
    if stream {
        let encoder = ResponseStream::new(builder);
        return Ok(streaming::respond(turns, encoder, server.config.limits.keep_alive));
    }
    Ok(json_text(complete(turns, builder).await?))
}

/// A fault of the conversation in the words of this route, whose clients send no messages.
fn of_input(error: ApiError) -> ApiError {
    match &error.param {
        Some(param) if param.starts_with("messages") => {
            let message = match error.message.strip_prefix(param.as_str()) {
                Some(reason) => format!("input{reason}"),
                None => error.message.clone(),
            };
            ApiError { param: Some("input".to_owned()), message, ..error }
        }
        _ => error,
    }
}

/// Runs the one turn to its end.
async fn complete(turns: Vec<Turn>, mut builder: Builder) -> Result<String, ApiError> {
    for mut turn in turns {
        while let Some(event) = turn.next().await {
            match event? {
                TurnEvent::Prefill { .. } => {}
                TurnEvent::Token { pieces, logprob } => drop(builder.add(pieces, logprob)),
                TurnEvent::Finish(finish) => drop(builder.finish(finish)),
            }
        }
    }
    builder.keep();
    Ok(builder.response())
}

/// A response whose JSON is text already.
fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// `GET /v1/responses/{id}`.
pub(crate) async fn get(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    query: items::Query,
) -> Result<Response, ApiError> {
    items::check_whole(&query)?;
    let stored = server.responses.get(&id).ok_or_else(|| not_found("response_id"))?;
    Ok(json_text(stored.response.clone()))
}

/// `GET /v1/responses/{id}/input_items`.
pub(crate) async fn input_items(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    query: items::Query,
) -> Result<Response, ApiError> {
    let page = Page::read(&query)?;
    let stored = server.responses.get(&id).ok_or_else(|| not_found("response_id"))?;
    Ok(json_text(page.of(&stored.input)?))
}

/// `DELETE /v1/responses/{id}`.
pub(crate) async fn delete(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    if server.responses.remove(&id) {
        return Ok(Json(json!({"id": id, "object": "response", "deleted": true})));
    }
    Err(not_found("response_id"))
}

/// No such response: never stored, deleted, or pushed out by newer ones.
fn not_found(param: &str) -> ApiError {
    let message = "no response of that id is stored; the store is bounded and ends with the server";
    let error = ApiError::refused(StatusCode::NOT_FOUND, "response_not_found", message);
    ApiError { param: Some(param.to_owned()), ..error }
}
