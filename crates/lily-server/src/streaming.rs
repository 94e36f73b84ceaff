//! A streamed answer: turns in, bytes out, in whatever wire format an [`Encoder`] writes.

use crate::error::ApiError;
use crate::sse;
use crate::turn::{Turn, TurnEvent};
use axum::body::Bytes;
use axum::response::Response;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, StreamExt, stream};
use std::time::Duration;

/// A wire format for streams. Everything is appended to `out`.
pub(crate) trait Encoder: Send + 'static {
    /// Before anything else.
    fn start(&mut self, _out: &mut Vec<u8>) {}
    /// Something happened in a choice.
    fn event(&mut self, choice: usize, event: TurnEvent, out: &mut Vec<u8>);
    /// A fault; the stream ends after it.
    fn error(&mut self, error: &ApiError, out: &mut Vec<u8>);
    /// All choices have ended.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Bytes after which a batch is sent.
const BATCH: usize = 1 << 14;

type Events = SelectAll<BoxStream<'static, (usize, Result<TurnEvent, ApiError>)>>;

/// Streams the turns of one answer. The first fault ends them all.
pub(crate) fn respond(turns: Vec<Turn>, mut encoder: impl Encoder, keep_alive: Duration) -> Response {
    let mut start = Vec::new();
    encoder.start(&mut start);
    let events = stream::select_all(turns.into_iter().enumerate().map(|(choice, turn)| {
        stream::unfold(
            turn,
            move |mut turn| async move { turn.next().await.map(|event| ((choice, event), turn)) },
        )
        .boxed()
    }));
    let rest = stream::unfold(Some((events, encoder)), |state| async move {
        let (mut events, mut encoder) = state?;
        let (bytes, more) = next_bytes(&mut events, &mut encoder).await;
        Some((bytes, more.then_some((events, encoder))))
    });
    let start = stream::iter((!start.is_empty()).then(|| Bytes::from(start)));
    sse::response(start.chain(rest).filter(|bytes| std::future::ready(!bytes.is_empty())), keep_alive)
}

/// The next bytes, of all events that are ready by then; and whether more can follow.
async fn next_bytes(events: &mut Events, encoder: &mut impl Encoder) -> (Bytes, bool) {
    let mut out = Vec::new();
    let mut next = events.next().await;
    loop {
        match next {
            Some((choice, Ok(event))) => encoder.event(choice, event, &mut out),
            Some((_, Err(error))) => {
                encoder.error(&error, &mut out);
                return (out.into(), false);
            }
            None => {
                encoder.end(&mut out);
                return (out.into(), false);
            }
        }
        // What is ready already travels along, up to a bound: fewer writes when the reader is behind.
        if out.len() >= BATCH {
            return (out.into(), true);
        }
        match events.next().now_or_never() {
            Some(ready) => next = ready,
            None => return (out.into(), true),
        }
    }
}
