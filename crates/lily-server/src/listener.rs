//! Connections: how many, how slow, and how they end.

use crate::Limits;
use crate::half_close::halves;
use crate::stall::StallGuard;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The connections that are open when the listener ends.
pub(crate) struct Open {
    graceful: GracefulShutdown,
    connections: JoinSet<()>,
}

/// Accepts connections until `shutdown` resolves; then the socket is closed.
pub(crate) async fn accept_until(
    listener: TcpListener,
    app: Router,
    limits: &Limits,
    shutdown: impl Future<Output = ()>,
) -> Open {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
    let mut open = Open { graceful: GracefulShutdown::new(), connections: JoinSet::new() };
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        // A place first: beyond the limit, connections wait in the system's backlog.
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            next = next => next,
            Some(_) = open.connections.join_next() => continue,
            () = &mut shutdown => return open,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, or the client was gone already: neither is a reason to stop serving.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        prepare(&stream);
        let (socket, service) = halves(StallGuard::new(stream, limits.write_timeout), app.clone());
        let connection = http.serve_connection(TokioIo::new(socket), service);
        let connection = open.graceful.watch(connection);
        open.connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("connection ended: {error}");
            }
            drop(place);
        });
    }
}

impl Open {
    /// Lets the connections finish what they are at, for at most `limit`, and ends the rest.
    pub(crate) async fn close(mut self, limit: Duration) {
        if tokio::time::timeout(limit, self.graceful.shutdown()).await.is_err() {
            tracing::warn!("connections still open at shutdown are cut off");
        }
        self.connections.shutdown().await;
    }
}

/// A pause after a failed accept, so that a lasting cause does not fill the log.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

fn prepare(stream: &TcpStream) {
    // Tokens are small writes; they must not wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("cannot set TCP_NODELAY: {error}");
    }
}
