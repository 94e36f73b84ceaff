//! `GET /health`.

use crate::state::Server;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// 200 while requests are taken, 503 while they are not (shutdown, or an engine that broke).
pub(crate) async fn handle(State(server): State<Arc<Server>>) -> (StatusCode, Json<Value>) {
    let metrics = server.model.engine.metrics();
    let open = metrics.accepting && !server.draining.load(Ordering::Acquire);
    let (status, word) =
        if open { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "not_accepting") };
    let body = json!({
        "status": word,
        "model": server.model.id,
        "backend": server.model.engine.describe(),
        "context": server.model.engine.max_context(),
        "running": metrics.running,
        "waiting": metrics.waiting,
        "version": env!("CARGO_PKG_VERSION"),
    });
    (status, Json(body))
}
