//! The form of an answer on the wire: text, any JSON object, or what a JSON schema describes.

use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use lily_text::json::Value;

/// A schema that an answer is held to.
#[derive(Debug, Clone)]
pub(crate) struct AnswerSchema {
    /// The schema.
    pub(crate) schema: Value,
    /// Where it stands in the request.
    pub(crate) path: String,
}

/// `response_format` of chat completions and completions: a schema stands one level deeper, in `json_schema`.
pub(crate) fn read_nested(fields: &mut Fields) -> Result<Option<AnswerSchema>, ApiError> {
    let Some(mut format) = fields.object("response_format")? else { return Ok(None) };
    let path = format.at("json_schema");
    read(&mut format, |format| {
        format.object("json_schema")?.ok_or_else(|| ApiError::invalid(path, "is missing"))
    })
}

/// A format whose schema stands beside its type: `text.format` of responses, and those of messages.
pub(crate) fn read_flat(format: Option<Fields>) -> Result<Option<AnswerSchema>, ApiError> {
    let Some(mut format) = format else { return Ok(None) };
    read(&mut format, |format| Ok(std::mem::replace(format, Fields::new("", Value::Object(Vec::new()))?)))
}

/// `strict` or not, an answer is held to its schema: it can only be better for it.
fn read(
    format: &mut Fields,
    inner: impl FnOnce(&mut Fields) -> Result<Fields, ApiError>,
) -> Result<Option<AnswerSchema>, ApiError> {
    let kind = format.string("type")?.ok_or_else(|| ApiError::invalid(format.at("type"), "is missing"))?;
    // A schema that nobody would follow.
    if kind == "text"
        && let Some(name) = ["json_schema", "schema"].into_iter().find(|name| format.get(name).is_some())
    {
        return Err(ApiError::invalid(format.at(name), "needs the type json_schema"));
    }
    match kind.as_str() {
        "text" => Ok(None),
        // As other servers have it: an object of this schema.
        "json_object" if format.get("schema").is_some() => schema(format),
        "json_object" => {
            let object = ("type".to_owned(), Value::String("object".to_owned()));
            Ok(Some(AnswerSchema { schema: Value::Object(vec![object]), path: format.at("type") }))
        }
        "json_schema" => {
            let mut inner = inner(format)?;
            inner.string("name")?;
            inner.string("description")?;
            inner.boolean("strict")?;
            schema(&mut inner)
        }
        _ => Err(ApiError::invalid(format.at("type"), "must be text, json_object or json_schema")),
    }
}

fn schema(fields: &mut Fields) -> Result<Option<AnswerSchema>, ApiError> {
    let path = fields.at("schema");
    let schema = fields.take("schema").ok_or_else(|| ApiError::invalid(&path, "is missing"))?;
    if schema.as_object().is_none() {
        return Err(wrong(&path, "an object", &schema));
    }
    Ok(Some(AnswerSchema { schema, path }))
}
