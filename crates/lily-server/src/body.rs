//! Reading a JSON body: bounded in size, time and nesting.

use crate::error::ApiError;
use crate::state::Server;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use lily_text::json::Value;
use std::sync::Arc;

/// Bytes of a body that is read on the thread that serves its connection; larger ones would hold up others there.
const READ_AT_ONCE: usize = 64 << 10;

/// The body of a request, read as JSON and then by `take`: what is large is read, and let go of, where it holds up nobody.
///
/// The content type is not asked for: clients forget it, and a page in a browser cannot get past the origin check by
/// leaving it out.
pub(crate) async fn read<T: Send + 'static>(
    request: Request<Body>,
    server: &Arc<Server>,
    take: impl FnOnce(Value, &Server) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let bytes = receive(request, server).await?;
    let depth = server.config.limits.json_depth;
    if bytes.len() <= READ_AT_ONCE {
        return take(parse(&bytes, depth)?, server);
    }
    let failed = |_: &dyn std::error::Error| {
        ApiError::internal("reading the body failed; this is a fault of the server")
    };
    let place = Arc::clone(&server.readers).acquire_owned().await.map_err(|error| failed(&error))?;
    let server = Arc::clone(server);
    let reading = move || {
        // Kept to the end, also if nobody waits for it any more.
        let _place = place;
        let body = parse(&bytes, depth)?;
        drop(bytes);
        take(body, &server)
    };
    tokio::task::spawn_blocking(reading).await.map_err(|error| failed(&error))?
}

/// The bytes of a body, within the limits.
async fn receive(request: Request<Body>, server: &Server) -> Result<Bytes, ApiError> {
    let limits = &server.config.limits;
    let plain = |coding: &HeaderValue| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if !request.headers().get_all(header::CONTENT_ENCODING).iter().all(plain) {
        let message = "Content-Encoding: a body is taken as it is, not compressed; leave the header out";
        return Err(ApiError::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", message));
    }
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced
        .and_then(|length| length.parse::<u64>().ok())
        .is_some_and(|length| length > limits.body_bytes as u64)
    {
        return Err(too_large(limits.body_bytes));
    }
    let body = Limited::new(request.into_body(), limits.body_bytes).collect();
    match tokio::time::timeout(limits.body_timeout, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limits.body_bytes)),
        Ok(Err(_)) => Err(ApiError::bad_request("the body broke off")),
        Err(_) => {
            let message = format!("the body did not arrive within {} s", limits.body_timeout.as_secs_f64());
            Err(ApiError::refused(StatusCode::REQUEST_TIMEOUT, "body_timeout", message))
        }
    }
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the body is larger than {limit} bytes");
    ApiError::refused(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

/// Parses JSON; errors give line and column.
pub(crate) fn parse(bytes: &[u8], depth: usize) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (line, column) = place(bytes, error.valid_up_to());
        ApiError::bad_request(format!("the body is not UTF-8: line {line}, column {column}"))
    })?;
    if let Some(offset) = deeper_than(bytes, depth) {
        let (line, column) = place(bytes, offset);
        let message = format!("the body nests deeper than {depth} levels: line {line}, column {column}");
        return Err(ApiError::bad_request(message));
    }
    Value::parse(text).map_err(|error| ApiError::bad_request(format!("the body is not valid JSON: {error}")))
}

/// Where brackets first nest deeper than `depth`. Looked for before parsing, so that no parser's stack is at stake.
fn deeper_than(bytes: &[u8], depth: usize) -> Option<usize> {
    let (mut level, mut in_string, mut escaped) = (0_usize, false, false);
    for (offset, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                level += 1;
                if level > depth {
                    return Some(offset);
                }
            }
            b']' | b'}' if !in_string => level = level.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Line and column, both from 1; columns count characters.
fn place(bytes: &[u8], offset: usize) -> (usize, usize) {
    let before = bytes.get(..offset).unwrap_or(bytes);
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    // Continuation bytes of UTF-8 start no character.
    let column = before[start..].iter().filter(|byte| **byte & 0xC0 != 0x80).count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_found_outside_strings_only() {
        assert_eq!(deeper_than(br#"{"a":[["[[[["]]}"#, 3), None);
        assert_eq!(deeper_than(br#"{"a":[["[[[["]]}"#, 2), Some(6));
        assert_eq!(deeper_than(br#"["\"[[[["]"#, 1), None);
    }

    #[test]
    fn places_count_lines_and_characters() {
        assert_eq!(place("{\n  \"é\": x".as_bytes(), 9), (2, 7));
    }
}
