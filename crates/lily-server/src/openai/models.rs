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
    // One page: the ends of it are for Anthropic's client.
    let (first, last) = (data.first().map(|model| &model["id"]), data.last().map(|model| &model["id"]));
    Json(json!({"object": "list", "data": data, "has_more": false, "first_id": first, "last_id": last}))
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
        // What Anthropic's client reads.
        "type": "model",
        "display_name": name,
        "created_at": rfc3339(server.model.created),
        "lifecycle": "active",
        // Not OpenAI's: the names that other local servers use for the length of the context.
        "max_model_len": server.model.engine.max_context(),
        "context_length": server.model.engine.max_context(),
    })
}

/// Seconds since 1970 as `YYYY-MM-DDThh:mm:ssZ`. The date is counted in years that begin in March, whose leap day comes
/// last (Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
