//! Server-sent events.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::{Stream, StreamExt, stream};
use std::convert::Infallible;
use std::time::Duration;

/// A response that streams `chunks`; while there is none for `keep_alive`, a comment line goes out. The timer runs on
/// the wall clock: it does not wait for the engine to report anything.
pub(crate) fn response(chunks: impl Stream<Item = Bytes> + Send + 'static, keep_alive: Duration) -> Response {
    let body = stream::unfold(Box::pin(chunks), move |mut chunks| async move {
        let bytes = match tokio::time::timeout(keep_alive, chunks.next()).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": keep-alive\n\n"),
        };
        Some((Ok::<_, Infallible>(bytes), chunks))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Reverse proxies that buffer would hold the stream back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Appends `data: {json}`.
pub(crate) fn data(out: &mut Vec<u8>, json: &serde_json::Value) {
    out.extend_from_slice(b"data: ");
    write_json(out, json);
    out.extend_from_slice(b"\n\n");
}

/// Appends `event: {name}` and `data: {json}`.
pub(crate) fn named(out: &mut Vec<u8>, name: &str, json: &serde_json::Value) {
    named_text(out, name, &json.to_string());
}

/// Appends the same for JSON that is text already, on one line.
pub(crate) fn named_text(out: &mut Vec<u8>, name: &str, json: &str) {
    for part in ["event: ", name, "\ndata: ", json, "\n\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends a comment line, which clients skip.
pub(crate) fn comment(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b": ");
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\n\n");
}

/// The end marker of OpenAI's streams.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";

fn write_json(out: &mut Vec<u8>, json: &serde_json::Value) {
    // Writing to memory fails only for maps whose keys are not strings, which a `serde_json::Value` cannot have.
    out.extend_from_slice(json.to_string().as_bytes());
}
