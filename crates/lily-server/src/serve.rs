//! The entry points: [`router`] and [`serve`].

use crate::{Model, ServerConfig};
use axum::Router;
use std::future::Future;

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
    let _ = config;
    let context = model.engine.max_context();
    let body = serde_json::json!({"status": "ok", "model": model.id, "context": context});
    Router::new().route("/health", axum::routing::get(move || async move { axum::Json(body) }))
}

/// Listens until `shutdown` resolves; then refuses new requests, lets running answers finish within
/// [`crate::Limits::shutdown_grace`], ends the engine and returns. `on_listening` gets the address, once.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(
    config: ServerConfig,
    model: Model,
    on_listening: impl FnOnce(std::net::SocketAddr),
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let address = format!("{}:{}", config.host, config.port);
    let bind = |source| ServeError::Bind { address: address.clone(), source };
    let listener = tokio::net::TcpListener::bind((config.host.as_str(), config.port)).await.map_err(bind)?;
    on_listening(listener.local_addr().map_err(bind)?);
    let app = router(model, config);
    axum::serve(listener, app).with_graceful_shutdown(shutdown).await.map_err(bind)
}
