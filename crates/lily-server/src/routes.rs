//! Which path leads where.

use crate::error::ApiError;
use crate::state::Server;
use crate::{anthropic, health, metrics, openai, responses, security, web};
use axum::Router;
use axum::http::{Method, StatusCode, header};
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::{any, get, post};
use std::sync::Arc;

/// The document that describes them all.
const OPENAPI: &str = include_str!("openapi.json");

/// The routes over a server's state.
pub(crate) fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(openai::chat::handle))
        .route("/v1/completions", post(openai::completions::handle))
        .route("/v1/messages", post(anthropic::messages))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/v1/responses", post(responses::create))
        // Not ids of responses, but OpenAI's paths for what there is not here.
        .route("/v1/responses/input_tokens", any(not_found))
        .route("/v1/responses/compact", any(not_found))
        .route("/v1/responses/{id}", get(responses::get).delete(responses::delete))
        .route("/v1/responses/{id}/input_items", get(responses::input_items))
        .route("/tokenize", post(openai::tokens::tokenize))
        .route("/detokenize", post(openai::tokens::detokenize))
        .route("/metrics", get(metrics::handle))
        .route("/v1/models", get(openai::models::list))
        .route("/v1/models/{*id}", get(openai::models::one))
        .route("/health", get(health::handle))
        .route("/openapi.json", get(openapi))
        .merge(web::router())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&server), security::guard))
        .with_state(server)
}

async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn not_found() -> ApiError {
    let message = format!("there is nothing at this path; there is: {}", paths());
    ApiError::refused(StatusCode::NOT_FOUND, "unknown_path", message)
}

async fn method_not_allowed(method: Method) -> ApiError {
    // A method is one of the standard ones or whatever a client made up.
    let method = if STANDARD.contains(&method) { method.as_str() } else { "that method" };
    let message = format!("this path does not take {method}; there is: {}", paths());
    ApiError::refused(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

const STANDARD: [Method; 6] =
    [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS];

/// All methods and paths, for the answer to a wrong one; read from the document, whose tests hold it to the routes.
fn paths() -> String {
    let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap_or_default();
    let paths = document["paths"].as_object().into_iter().flatten();
    let methods = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, _)| format!("{} {path}", method.to_uppercase()))
    });
    methods.collect::<Vec<_>>().join(", ")
}
