//! A connection whose client must keep reading: [`StallGuard`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Fails a write that has been waiting for the client for longer than `limit`, so that a client that stops reading
/// does not keep its connection for ever.
pub(crate) struct StallGuard<T> {
    inner: T,
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    waiting: bool,
}

impl<T> StallGuard<T> {
    pub(crate) fn new(inner: T, limit: Duration) -> Self {
        Self { inner, limit, timer: Box::pin(sleep(limit)), waiting: false }
    }

    /// What is guarded.
    pub(crate) fn get_ref(&self) -> &T {
        &self.inner
    }

    /// True while a write waits for the client.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Keeps time over the outcome of a write.
    fn watch<R>(&mut self, outcome: Poll<io::Result<R>>, context: &mut Context<'_>) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.waiting = false;
            return outcome;
        }
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.limit);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallGuard<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StallGuard<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_write(context, bytes);
        this.watch(outcome, context)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_flush(context);
        this.watch(outcome, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_shutdown(context);
        this.watch(outcome, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_write_vectored(context, buffers);
        this.watch(outcome, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_ends_the_write() {
        let (_client, server) = tokio::io::duplex(8);
        let mut server = StallGuard::new(server, Duration::from_secs(60));
        let error = server.write_all(&[0; 64]).await.expect_err("no one reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_waited_for() {
        let (mut client, server) = tokio::io::duplex(8);
        let mut server = StallGuard::new(server, Duration::from_secs(60));
        let reader = tokio::spawn(async move {
            let mut read = Vec::new();
            let mut buffer = [0; 8];
            while client.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                sleep(Duration::from_secs(50)).await;
                read.extend_from_slice(&buffer);
            }
            read.len()
        });
        server.write_all(&[0; 64]).await.expect("every pause is shorter than the limit");
        drop(server);
        assert_eq!(reader.await.expect("the reader ends"), 64);
    }
}
