//! The entry points: [`router`] and [`serve`].

use crate::state::Server;
use crate::{Model, ServerConfig, listener, routes};
use axum::Router;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is taken, unknown or not allowed.
    #[error(
        "cannot listen on {address}: {source}\nhint: choose another port with --port, or 0 for a free one"
    )]
    Bind {
        /// Host and port.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The service without a socket.
pub fn router(model: Model, config: ServerConfig) -> Router {
    routes::router(Arc::new(Server::new(model, config)))
}

/// Listens until `shutdown` resolves; then refuses new requests, lets running answers finish within
/// [`crate::Limits::shutdown_grace`], ends the engine and returns. `on_listening` gets the address, once.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(
    config: ServerConfig,
    model: Model,
    on_listening: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let address = format!("{}:{}", config.host, config.port);
    let bind = |source| ServeError::Bind { address: address.clone(), source };
    let listener = tokio::net::TcpListener::bind((config.host.as_str(), config.port)).await.map_err(bind)?;
    on_listening(listener.local_addr().map_err(bind)?);

    let limits = config.limits.clone();
    let server = Arc::new(Server::new(model, config));
    let app = routes::router(Arc::clone(&server));
    let open = listener::accept_until(listener, app, &limits, shutdown).await;

    server.draining.store(true, Ordering::Release);
    let engine = server.model.engine.clone();
    let grace = limits.shutdown_grace;
    let ended = tokio::task::spawn_blocking(move || engine.shut_down(grace));
    // Idle connections close at once, the others with their last answer, whatever its end. The engine has ended every
    // answer by the end of the grace; a little more is for the last bytes to leave.
    open.close(grace + LAST_BYTES).await;
    if ended.await.is_err() {
        tracing::error!("the engine did not shut down cleanly");
    }
    Ok(())
}

/// Time for finished answers to reach their clients at shutdown.
const LAST_BYTES: std::time::Duration = std::time::Duration::from_secs(2);
