//! Plain prompts on the wire: a text, tokens, or a list of either.

use super::PlainPrompt;
use crate::Server;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::openai::tokens::token_ids;
use lily_text::json::Value;

const PATH: &str = "prompt";

/// Reads `prompt`.
pub(crate) fn read(fields: &mut Fields, server: &Server) -> Result<Vec<PlainPrompt>, ApiError> {
    let items = match fields.take(PATH) {
        None => return Err(ApiError::invalid(PATH, "is missing")),
        Some(Value::String(text)) => return Ok(vec![PlainPrompt::Text(text)]),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(wrong(PATH, "a string or a list", &other)),
    };
    if items.is_empty() {
        return Err(ApiError::invalid(PATH, "needs at least one prompt"));
    }
    if matches!(items[0], Value::Integer(_) | Value::Float(_)) {
        return Ok(vec![PlainPrompt::Ids(token_ids(server, PATH, &items)?)]);
    }
    let most = server.config.limits.prompts;
    if items.len() > most {
        return Err(ApiError::invalid(PATH, format_args!("at most {most} prompts are taken")));
    }
    let read = items.into_iter().enumerate().map(|(index, item)| {
        let path = format!("{PATH}[{index}]");
        match item {
            Value::String(text) => Ok(PlainPrompt::Text(text)),
            Value::Array(ids) => Ok(PlainPrompt::Ids(token_ids(server, &path, &ids)?)),
            other => Err(wrong(&path, "a string or a list of token ids", &other)),
        }
    });
    read.collect()
}
