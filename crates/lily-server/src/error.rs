//! Errors as clients see them: [`ApiError`].

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lily_engine::{GenerationError, SubmitError};
use lily_text::{MessageError, TemplateError};
use std::time::Duration;

/// What went wrong with a request: a status and OpenAI's `{error:{message,type,param,code}}`.
///
/// Messages name fields, places and limits; they never repeat the bytes of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// `type` of the error object.
    pub(crate) kind: &'static str,
    /// Machine-readable cause.
    pub(crate) code: Option<&'static str>,
    /// The parameter at fault, as a path (`messages[2].content`).
    pub(crate) param: Option<String>,
    /// For people.
    pub(crate) message: String,
    /// When to try again.
    pub(crate) retry_after: Option<Duration>,
}

/// Characters of a message.
const MESSAGE_CHARACTERS: usize = 1000;

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, code: None, param: None, message: message.into(), retry_after: None }
    }

    /// 400 for a parameter.
    pub(crate) fn invalid(param: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        let param = param.into();
        Self { message: format!("{param}: {reason}"), param: Some(param), ..Self::bad_request("") }
    }

    /// 400 for a parameter that is understood and cannot be honoured.
    pub(crate) fn unsupported(param: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self { code: Some("unsupported_parameter"), ..Self::invalid(param, reason) }
    }

    /// 400 for the body as a whole.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// Any other client's fault with its own status.
    pub(crate) fn refused(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            _ => "invalid_request_error",
        };
        Self { code: Some(code), ..Self::new(status, kind, message) }
    }

    /// 503: the server has no place for the request now.
    pub(crate) fn overloaded(message: impl Into<String>, retry_after: Duration) -> Self {
        Self {
            code: Some("overloaded"),
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded_error", message)
        }
    }

    /// 500: the server's own fault.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self {
            code: Some("internal_error"),
            ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
        }
    }

    /// 408: the deadline passed.
    pub(crate) fn deadline(limit: Duration) -> Self {
        let message =
            format!("the deadline of {} s passed before the answer was complete", limit.as_secs_f64());
        Self {
            code: Some("deadline_exceeded"),
            ..Self::new(StatusCode::REQUEST_TIMEOUT, "timeout_error", message)
        }
    }

    /// The reader of a stream fell too far behind.
    pub(crate) fn slow_reader(limit: usize) -> Self {
        let message =
            format!("the answer was ended: more than {limit} bytes of it waited for the client to read");
        Self {
            code: Some("slow_reader"),
            ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
        }
    }

    /// Why the engine did not take a request.
    pub(crate) fn from_submit(error: &SubmitError, retry_after: Duration) -> Self {
        match error {
            SubmitError::Sampling(error) => Self::invalid(error.field, &error.reason),
            SubmitError::EmptyPrompt => Self::invalid("prompt", "is empty"),
            SubmitError::PromptTooLong { .. } => {
                Self { code: Some("context_length_exceeded"), ..Self::bad_request(error.to_string()) }
            }
            SubmitError::Busy { .. } => Self::overloaded(error.to_string(), retry_after),
            SubmitError::ShuttingDown => {
                Self { code: Some("shutting_down"), ..Self::overloaded(error.to_string(), retry_after) }
            }
            _ => Self::internal(error.to_string()),
        }
    }

    /// Why a generation failed.
    pub(crate) fn from_generation(error: &GenerationError, retry_after: Duration) -> Self {
        match error {
            GenerationError::ShuttingDown => {
                Self { code: Some("shutting_down"), ..Self::overloaded(error.to_string(), retry_after) }
            }
            GenerationError::NothingToSample => Self::invalid("logit_bias", error),
            // What a schema asks for shows in the end while it is followed.
            GenerationError::Constraint(reason) => Self::bad_request(format!(
                "the form that was asked for is too complex to be held to: {reason}"
            )),
            _ => Self::internal(error.to_string()),
        }
    }

    /// The message, cut where it is longer than anyone reads: a template can quote a whole conversation.
    pub(crate) fn text(&self) -> String {
        match self.message.char_indices().nth(MESSAGE_CHARACTERS) {
            Some((end, _)) => format!("{}…", &self.message[..end]),
            None => self.message.clone(),
        }
    }

    /// The error object.
    pub(crate) fn body(&self) -> serde_json::Value {
        serde_json::json!({
            "error": {"message": self.text(), "type": self.kind, "param": self.param, "code": self.code}
        })
    }
}

impl From<MessageError> for ApiError {
    fn from(error: MessageError) -> Self {
        Self::invalid(format!("messages[{}]", error.index), error.reason)
    }
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        match error {
            TemplateError::Refused(message) => {
                Self { param: Some("messages".to_owned()), ..Self::bad_request(message) }
            }
            // Templates are compiled when a model is loaded: what fails here fails on these messages.
            TemplateError::Broken { .. } => {
                let message = format!("these messages cannot be rendered: {error}");
                Self { param: Some("messages".to_owned()), ..Self::bad_request(message) }
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body())).into_response();
        // For routes whose format has another shape of errors.
        response.extensions_mut().insert(self.clone());
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs().max(1);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
