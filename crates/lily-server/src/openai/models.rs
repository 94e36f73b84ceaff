//! `GET /v1/models` and `GET /v1/models/{id}`.

use crate::error::ApiError;
use crate::state::Server;
use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};
use std::sync::Arc;

/// The model, under its id and its aliases.
pub(crate) async fn list(State(server): State<Arc<Server>>) -> Json<Value> {
    let names = std::iter::once(&server.model.id).chain(&server.config.aliases);
    let data: Vec<Value> = names.map(|name| describe(&server, name)).collect();
    Json(json!({"object": "list", "data": data}))
}

/// One of them.
pub(crate) async fn one(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    if server.knows_model(&name) { Ok(Json(describe(&server, &name))) } else { Err(server.model_not_found()) }
}

fn describe(server: &Server, name: &str) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": server.model.created,
        "owned_by": "lily",
        // Not OpenAI's: the names that other local servers use for the length of the context.
        "max_model_len": server.model.engine.max_context(),
        "context_length": server.model.engine.max_context(),
    })
}
