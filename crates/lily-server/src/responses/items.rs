//! The input items of a stored response, a page at a time.

use super::request::{is_includable, raw, unknown_include};
use crate::error::ApiError;
use crate::fields::integer;
use lily_text::json::Value;
use serde::Serialize;
use serde_json::value::RawValue;

/// An item, as its list has it.
pub(crate) struct Item {
    id: String,
    json: Box<RawValue>,
}

impl Item {
    /// `json` has this id.
    pub(super) fn new(id: String, json: &serde_json::Value) -> Result<Self, ApiError> {
        Ok(Self { id, json: raw(json)? })
    }

    /// Bytes that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.id.len() + self.json.get().len()
    }
}

/// The parameters of a query.
pub(super) type Query = axum::extract::Query<Vec<(String, String)>>;

/// What a query asks for of a list: OpenAI's parameters, with its defaults.
pub(super) struct Page {
    after: Option<String>,
    limit: usize,
    descending: bool,
}

impl Page {
    /// Reads a query; of a name that is there twice the last value counts.
    pub(super) fn read(query: &Query) -> Result<Self, ApiError> {
        let mut page = Self { after: None, limit: 20, descending: true };
        for (name, value) in &query.0 {
            match name.as_str() {
                "after" => page.after = Some(value.clone()),
                "limit" => {
                    let limit = integer("limit", &Value::Integer(digits(value)?.to_owned()), 1, 100)?;
                    page.limit = usize::try_from(limit).unwrap_or(1);
                }
                "order" => {
                    page.descending = match value.as_str() {
                        "asc" => false,
                        "desc" => true,
                        _ => return Err(ApiError::invalid("order", "must be asc or desc")),
                    }
                }
                name => check_include(name, value)?,
            }
        }
        Ok(page)
    }

    /// The list, as JSON text.
    pub(super) fn of(&self, items: &[Item]) -> Result<String, ApiError> {
        let mut ordered: Vec<&Item> = items.iter().collect();
        if self.descending {
            ordered.reverse();
        }
        let start = match &self.after {
            None => 0,
            Some(after) => {
                let place = ordered.iter().position(|item| item.id == *after);
                place.ok_or_else(|| ApiError::invalid("after", "is not the id of an item of this list"))? + 1
            }
        };
        let left = ordered.get(start..).unwrap_or_default();
        let shown = left.get(..self.limit).unwrap_or(left);
        let list = List {
            object: "list",
            data: shown.iter().map(|item| &*item.json).collect(),
            first_id: shown.first().map(|item| item.id.as_str()),
            last_id: shown.last().map(|item| item.id.as_str()),
            has_more: shown.len() < left.len(),
        };
        Ok(raw(&list)?.get().to_owned())
    }
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<&'a RawValue>,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
    has_more: bool,
}

/// Checks the query for a stored response, which is there as a whole and in nothing else.
pub(super) fn check_whole(query: &Query) -> Result<(), ApiError> {
    for (name, value) in &query.0 {
        match (name.as_str(), value.as_str()) {
            ("stream" | "include_obfuscation", "false") => {}
            ("stream", "true") => {
                let reason = "a stored response is given as a whole; leave it out";
                return Err(ApiError::unsupported("stream", reason));
            }
            ("include_obfuscation", "true") => {
                return Err(ApiError::unsupported("include_obfuscation", "there is no stream to pad"));
            }
            ("stream" | "include_obfuscation", _) => {
                return Err(ApiError::invalid(name, "must be true or false"));
            }
            ("starting_after", _) => {
                let reason = "is of a stream, and a stored response is given as a whole";
                return Err(ApiError::unsupported("starting_after", reason));
            }
            (name, value) => check_include(name, value)?,
        }
    }
    Ok(())
}

/// `include`, which clients spell in two ways: it names what is there anyway. Names that nobody knows are ignored, as
/// they are in bodies.
fn check_include(name: &str, value: &str) -> Result<(), ApiError> {
    match name.strip_prefix("include") {
        Some("" | "[]") if !is_includable(value) => Err(unknown_include("include")),
        _ => Ok(()),
    }
}

/// A whole number's text.
fn digits(value: &str) -> Result<&str, ApiError> {
    let unsigned = value.strip_prefix('-').unwrap_or(value);
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(value);
    }
    Err(ApiError::invalid("limit", "must be a whole number"))
}
