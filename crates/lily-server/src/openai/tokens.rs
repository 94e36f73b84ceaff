//! `POST /tokenize` and `POST /detokenize`: what other local servers offer beside OpenAI's routes.

use crate::body::read_json;
use crate::error::ApiError;
use crate::fields::integer;
use crate::job;
use crate::request::foreign;
use crate::request::{Input, Request, body_fields};
use crate::state::Server;
use axum::Json;
use axum::extract::State;
use lily_engine::TokenId;
use serde_json::{Value, json};
use std::sync::Arc;

/// A text (`prompt`, also called `content`) or a conversation (`messages`, as in chat completions) in, token ids out.
/// In a text, spellings of control tokens are those tokens, as in `/v1/completions`.
pub(crate) async fn tokenize(
    State(server): State<Arc<Server>>,
    request: axum::extract::Request,
) -> Result<Json<Value>, ApiError> {
    let body = read_json(request, &server).await?;
    let ids = if body.get("messages").is_some() {
        let Input::Chat(conversation) = Request::from_chat(body, &server)?.input else {
            return Err(ApiError::internal("a conversation was read as text"));
        };
        job::render(&server, conversation).await?.0.ids
    } else {
        let mut fields = body_fields(body, &server)?;
        foreign::refuse_everywhere(&fields)?;
        let content = fields.string("content")?;
        let text =
            fields.string("prompt")?.or(content).ok_or_else(|| ApiError::invalid("prompt", "is missing"))?;
        job::encode(&server, text).await?
    };
    let ids: Vec<u32> = ids.into_iter().map(|id| id.0).collect();
    Ok(Json(json!({"count": ids.len(), "max_model_len": server.model.engine.max_context(), "tokens": ids})))
}

/// Token ids (`tokens`) in, their text out; tokens of the template are spelled out.
pub(crate) async fn detokenize(
    State(server): State<Arc<Server>>,
    request: axum::extract::Request,
) -> Result<Json<Value>, ApiError> {
    let mut fields = body_fields(read_json(request, &server).await?, &server)?;
    let tokens = fields.array("tokens")?.ok_or_else(|| ApiError::invalid("tokens", "is missing"))?;
    let ids = token_ids(&server, "tokens", &tokens)?;
    let text = server.model.tokenizer.decode(&ids, false);
    Ok(Json(json!({"prompt": text, "content": text})))
}

/// Ids on the wire, each one of a token that exists.
pub(crate) fn token_ids(
    server: &Server,
    path: &str,
    ids: &[lily_text::json::Value],
) -> Result<Vec<TokenId>, ApiError> {
    let read = ids.iter().enumerate().map(|(index, id)| {
        let path = format!("{path}[{index}]");
        let id = TokenId(u32::try_from(integer(&path, id, 0, i64::from(u32::MAX))?).unwrap_or(u32::MAX));
        if server.model.tokenizer.has_token(id) {
            Ok(id)
        } else {
            Err(ApiError::invalid(path, "is no token's id"))
        }
    });
    read.collect()
}
