//! Errors in Anthropic's shape.

use super::request::NO_THREADS;
use crate::error::ApiError;
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// The error object.
pub(crate) fn error_body(error: &ApiError) -> Value {
    let kind = match error.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
        StatusCode::REQUEST_TIMEOUT => "timeout_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    // This shape has no place for the parameter but the message.
    let text = error.text();
    let message = match &error.param {
        Some(param) if !text.starts_with(param.as_str()) => format!("{param}: {text}"),
        _ => text,
    };
    let mut body = json!({"type": "error", "error": {"type": kind, "message": message}});
    if error.code == Some(NO_THREADS) {
        body["error"]["details"] = json!({"error_code": NO_THREADS, "unsupported": ["thread"]});
    }
    body
}

/// Puts an error answer into this format, whoever made it: a handler, the guard, or the router.
pub(crate) fn translate_errors(response: Response) -> Response {
    let Some(error) = response.extensions().get::<ApiError>() else { return response };
    let body = Json(error_body(error)).into_response();
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, body.into_body())
}
