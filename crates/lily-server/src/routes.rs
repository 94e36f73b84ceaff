//! Which path leads where.

use crate::error::ApiError;
use crate::state::Server;
use crate::{anthropic, health, metrics, openai, responses, security};
use axum::Router;
use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::routing::{get, post};
use std::sync::Arc;

/// All paths, for the answer to a wrong one.
const PATHS: &str = "POST /v1/chat/completions, POST /v1/completions, POST /v1/responses, \
                     GET and DELETE /v1/responses/{id}, GET /v1/responses/{id}/input_items, POST /v1/messages, \
                     POST /v1/messages/count_tokens, GET /v1/models, GET /v1/models/{id}, POST /tokenize, \
                     POST /detokenize, GET /health, GET /metrics";

/// The routes over a server's state.
pub(crate) fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(openai::chat::handle))
        .route("/v1/completions", post(openai::completions::handle))
        .route("/v1/messages", post(anthropic::messages))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::get).delete(responses::delete))
        .route("/v1/responses/{id}/input_items", get(responses::input_items))
        .route("/tokenize", post(openai::tokens::tokenize))
        .route("/detokenize", post(openai::tokens::detokenize))
        .route("/metrics", get(metrics::handle))
        .route("/v1/models", get(openai::models::list))
        .route("/v1/models/{*id}", get(openai::models::one))
        .route("/health", get(health::handle))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&server), security::guard))
        .with_state(server)
}

async fn not_found() -> ApiError {
    let message = format!("there is nothing at this path; there is: {PATHS}");
    ApiError::refused(StatusCode::NOT_FOUND, "unknown_path", message)
}

async fn method_not_allowed(method: Method) -> ApiError {
    let message = format!("this path does not take {method}; there is: {PATHS}");
    ApiError::refused(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
