//! Clients that have said all they will say, and still listen: [`HalfClose`].
//!
//! A client may close its half of the connection behind its request and wait for the answer. To the server that looks
//! just like a client that is gone: both send the same segment. They differ in what comes back when something is sent
//! to them, which for one that is gone is a reset. So the end of what a client says is kept from the HTTP library while
//! a request is being answered, and something harmless is sent: an interim response (`100 Continue`) before the answer,
//! a comment in a stream of events. After a reset the end is passed on, and the answer is cancelled as always.
//!
//! The HTTP library reads no further while it holds the beginning of another request (a line's end behind a body is
//! enough), and would not see that its client is gone. So the socket reads ahead by itself while an answer is made, at
//! most [`AHEAD`] bytes, which the library is given when it asks again.
//!
//! Clients of HTTP/1.0, which knows no interim responses, count as gone unless their answer is there at once.

use crate::stall::StallGuard;
use axum::Router;
use axum::body::{Body, Bytes};
use futures::future::BoxFuture;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper::{Request, Response, Version, header};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// How often it is looked whether a reset has come: at first, and later, when it would have come.
const LOOK: Duration = Duration::from_millis(10);
const LOOK_LATER: Duration = Duration::from_millis(250);
/// When the first time is over.
const FRESH: Duration = Duration::from_secs(1);
/// How often a client is sent something to show whether it is still there.
const PROBE: Duration = Duration::from_secs(5);
/// Time for a body that has arrived to be taken in; one that makes no progress for so long has broken off.
const TAKE_IN: Duration = Duration::from_millis(500);

/// Bytes that are kept for the HTTP library while it does not read. Behind more of them an end is not seen.
const AHEAD: usize = 64 << 10;
/// Bytes of one read ahead.
const PIECE: usize = 4 << 10;

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const COMMENT: Bytes = Bytes::from_static(b": are you there?\n\n");

/// What is being done for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No request is at hand.
    Idle,
    /// The body of a request is taken in; how many pieces of it there were.
    Reading(usize),
    /// An answer is being made; whether its client understands interim responses.
    Preparing(bool),
    /// An answer is being sent.
    Answering,
}

/// What both sides of a connection know: the socket and the service.
struct Exchange(Mutex<State>);

struct State {
    stage: Stage,
    /// A comment is to be sent.
    comment: bool,
    wakers: Vec<Waker>,
}

impl Exchange {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, stage: Stage) {
        self.change(|state| state.stage = stage);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn remember(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }
}

/// The two sides of a connection.
pub(crate) fn halves(stream: StallGuard<TcpStream>, app: Router) -> (HalfClose, Watched) {
    let state = State { stage: Stage::Idle, comment: false, wakers: Vec::new() };
    let exchange = Arc::new(Exchange(Mutex::new(state)));
    let socket =
        HalfClose { stream, exchange: Arc::clone(&exchange), ahead: VecDeque::new(), end: None, unsent: &[] };
    (socket, Watched { app: TowerToHyperService::new(app), exchange })
}

/// The socket's side.
pub(crate) struct HalfClose {
    stream: StallGuard<TcpStream>,
    exchange: Arc<Exchange>,
    /// What was read while the HTTP library did not ask for it.
    ahead: VecDeque<u8>,
    /// The client says no more.
    end: Option<Box<End>>,
    /// What of an interim response is not sent yet.
    unsent: &'static [u8],
}

/// What is done about a client that says no more.
struct End {
    since: Instant,
    /// For what it was last looked into, and since when that is so.
    stage: (Stage, Instant),
    probed: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl End {
    fn new() -> Self {
        let now = Instant::now();
        Self { since: now, stage: (Stage::Idle, now), probed: None, timer: Box::pin(sleep_until(now + LOOK)) }
    }
}

impl HalfClose {
    /// Ready when the end may be passed on.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut end) = self.end.take() else { return Poll::Pending };
        let outcome = self.look(&mut end, context);
        self.end = Some(end);
        outcome
    }

    fn look(&mut self, end: &mut End, context: &mut Context<'_>) -> Poll<()> {
        let stage = {
            let mut state = self.exchange.state();
            state.remember(context.waker());
            state.stage
        };
        let now = Instant::now();
        if end.stage.0 != stage {
            end.stage = (stage, now);
        }
        let due = end.probed.is_none_or(|probed| now.duration_since(probed) >= PROBE);
        match stage {
            Stage::Idle => return Poll::Ready(()),
            Stage::Preparing(false) if now.duration_since(end.stage.1) >= LOOK => return Poll::Ready(()),
            Stage::Reading(_) if now.duration_since(end.stage.1) >= TAKE_IN => return Poll::Ready(()),
            Stage::Reading(_) => {}
            // An answer that is there soon needs no interim response before it.
            Stage::Preparing(true) if due && now.duration_since(end.stage.1) >= LOOK => {
                // Not into the middle of an earlier answer, or of itself.
                if self.unsent.is_empty() && !self.stream.is_waiting() {
                    end.probed = Some(now);
                    self.unsent = INTERIM;
                }
            }
            Stage::Preparing(_) => {}
            // Later there are others: a stream that has nothing to say sends comments by itself.
            Stage::Answering if end.probed.is_none() => {
                end.probed = Some(now);
                self.exchange.change(|state| state.comment = true);
            }
            Stage::Answering => {}
        }
        if let Poll::Ready(Err(_)) = self.poll_unsent(context) {
            return Poll::Ready(());
        }
        while end.timer.as_mut().poll(context).is_ready() {
            // After a reset there is no one at the other end.
            if self.stream.get_ref().peer_addr().is_err() {
                return Poll::Ready(());
            }
            let pause = if now.duration_since(end.since) < FRESH { LOOK } else { LOOK_LATER };
            end.timer.as_mut().reset(now + pause);
        }
        Poll::Pending
    }

    /// Looks for the end while an answer is made, whether the HTTP library reads or not: an error when its client is
    /// gone.
    fn watch(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if !matches!(self.exchange.state().stage, Stage::Preparing(_) | Stage::Answering) {
            return Ok(());
        }
        while self.end.is_none() && self.ahead.len() < AHEAD {
            let mut piece = [0; PIECE];
            let mut piece = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.stream).poll_read(context, &mut piece) {
                Poll::Pending => return Ok(()),
                Poll::Ready(outcome) => outcome?,
            }
            if piece.filled().is_empty() {
                self.end = Some(Box::new(End::new()));
            } else {
                self.ahead.extend(piece.filled());
                // The library may be waiting for just this.
                context.waker().wake_by_ref();
            }
        }
        match self.poll_end(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Sends what is left of an interim response; nothing else may come before that.
    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, self.unsent) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => self.unsent = &self.unsent[sent..],
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for HalfClose {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let (first, _) = self.ahead.as_slices();
            let taken = first.len().min(buffer.remaining());
            buffer.put_slice(&first[..taken]);
            self.ahead.drain(..taken);
            return Poll::Ready(Ok(()));
        }
        if self.end.is_none() {
            let before = buffer.filled().len();
            match Pin::new(&mut self.stream).poll_read(context, buffer) {
                Poll::Ready(Ok(())) if buffer.filled().len() == before && buffer.remaining() > 0 => {
                    self.end = Some(Box::new(End::new()));
                }
                outcome => return outcome,
            }
        }
        self.poll_end(context).map(Ok)
    }
}

impl AsyncWrite for HalfClose {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_unsent(context))?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_unsent(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The library flushes whenever it is at work on the connection.
        self.watch(context)?;
        std::task::ready!(self.poll_unsent(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The service's side: the application, which is watched at its work.
pub(crate) struct Watched {
    app: TowerToHyperService<Router>,
    exchange: Arc<Exchange>,
}

impl Service<Request<Incoming>> for Watched {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let exchange = Arc::clone(&self.exchange);
        exchange.enter(Stage::Reading(0));
        let interim = request.version() >= Version::HTTP_11;
        let request = request.map(|body| Received::new(body, Arc::clone(&exchange), interim));
        let response = self.app.call(request);
        Box::pin(async move {
            let response = response.await?;
            exchange.enter(Stage::Answering);
            let kind = response.headers().get(header::CONTENT_TYPE);
            let events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
            Ok(response.map(|body| Answer { body, exchange, events }))
        })
    }
}

/// The body of a request, which tells when it has been taken in.
struct Received {
    body: Incoming,
    exchange: Arc<Exchange>,
    interim: bool,
    pieces: usize,
}

impl Received {
    fn new(body: Incoming, exchange: Arc<Exchange>, interim: bool) -> Self {
        let received = Self { body, exchange, interim, pieces: 0 };
        if received.body.is_end_stream() {
            received.end();
        }
        received
    }

    fn end(&self) {
        let stage = Stage::Preparing(self.interim);
        self.exchange.change(|state| {
            if matches!(state.stage, Stage::Reading(_)) {
                state.stage = stage;
            }
        });
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let outcome = Pin::new(&mut self.body).poll_frame(context);
        match &outcome {
            Poll::Ready(Some(Ok(_))) => {
                self.pieces += 1;
                let stage = Stage::Reading(self.pieces);
                self.exchange.enter(stage);
            }
            Poll::Ready(None) => self.end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        outcome
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        self.end();
    }
}

/// The body of an answer, which tells when it has been sent and puts in a comment where one is wanted.
pub(crate) struct Answer {
    body: Body,
    exchange: Arc<Exchange>,
    /// It is a stream of events, and each of its pieces ends with one.
    events: bool,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.events {
            let mut state = self.exchange.state();
            state.remember(context.waker());
            if std::mem::take(&mut state.comment) {
                return Poll::Ready(Some(Ok(Frame::data(COMMENT))));
            }
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.exchange.change(|state| (state.stage, state.comment) = (Stage::Idle, false));
    }
}
