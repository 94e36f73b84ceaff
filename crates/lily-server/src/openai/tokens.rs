//! `POST /tokenize` and `POST /detokenize`: what other local servers offer beside OpenAI's routes.

use crate::body;
use crate::error::ApiError;
use crate::fields::integer;
use crate::job;
use crate::request::foreign::{self, Route};
use crate::request::{Conversation, Input, Request, body_fields};
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
    let ids = match body::read(request, &server, read).await? {
        Subject::Conversation(conversation) => job::render(&server, conversation).await?.0.ids,
        Subject::Text(text) => job::encode(&server, text).await?,
    };
    let ids: Vec<u32> = ids.into_iter().map(|id| id.0).collect();
    Ok(Json(json!({"count": ids.len(), "max_model_len": server.model.engine.max_context(), "tokens": ids})))
}

/// What is to become tokens.
enum Subject {
    Conversation(Conversation),
    Text(String),
}

fn read(body: lily_text::json::Value, server: &Server) -> Result<Subject, ApiError> {
    let has = |name| body.get(name).is_some_and(|value| *value != lily_text::json::Value::Null);
    if has("messages") {
        if has("content") {
            return Err(ApiError::invalid("content", "is a text beside messages; send one of them"));
        }
        return match Request::from_chat(body, server)?.input {
            Input::Chat(conversation) => Ok(Subject::Conversation(conversation)),
            Input::Text(..) => Err(ApiError::internal("a conversation was read as text")),
        };
    }
    let mut fields = body_fields(body, server)?;
    foreign::refuse(&fields, Route::Tokens)?;
    // No token is added to a text here, whether or not that is asked for.
    for name in ["add_special_tokens", "add_special"] {
        fields.boolean(name)?;
    }
    let text = match (fields.string("prompt")?, fields.string("content")?) {
        (Some(prompt), Some(content)) if prompt != content => {
            return Err(ApiError::invalid("content", "is another name of prompt; send one of them"));
        }
        (prompt, content) => prompt.or(content).ok_or_else(|| ApiError::invalid("prompt", "is missing"))?,
    };
    foreign::finish(fields, Route::Tokens)?;
    Ok(Subject::Text(text))
}

/// Token ids (`tokens`) in, their text out; tokens of the template are spelled out.
pub(crate) async fn detokenize(
    State(server): State<Arc<Server>>,
    request: axum::extract::Request,
) -> Result<Json<Value>, ApiError> {
    let text = body::read(request, &server, |body, server| {
        let mut fields = body_fields(body, server)?;
        foreign::refuse(&fields, Route::Tokens)?;
        let tokens = fields.array("tokens")?.ok_or_else(|| ApiError::invalid("tokens", "is missing"))?;
        let ids = token_ids(server, "tokens", &tokens)?;
        foreign::finish(fields, Route::Tokens)?;
        Ok(server.model.tokenizer.decode(&ids, false))
    });
    let text = text.await?;
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
