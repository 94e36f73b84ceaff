//! Parameters that tell a vendor who asks, and what to keep for how long. They have the form that they should, and
//! change nothing in an answer: there is one user here, and the cache of prefixes needs no hints.

use super::foreign::Route;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};

/// Entries of `metadata`, and characters of their keys and values, as OpenAI has it.
const ENTRIES: usize = 16;
const KEY: usize = 64;
const VALUE: usize = 512;

/// Takes them.
pub(crate) fn read(fields: &mut Fields, route: Route) -> Result<(), ApiError> {
    for name in ["user", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"] {
        fields.string(name)?;
    }
    if let Some(mut options) = fields.object("prompt_cache_options")? {
        options.string("mode")?;
        options.string("ttl")?;
        // These ask for something: no answer, and a report.
        if options.boolean("prewarm")? == Some(true) {
            return Err(ApiError::unsupported(options.at("prewarm"), "an answer is always begun"));
        }
        if options.string("comparison_response_id")?.is_some() {
            let reason = "there is no report of what was cached but usage";
            return Err(ApiError::unsupported(options.at("comparison_response_id"), reason));
        }
    }
    let Some(mut metadata) = fields.object("metadata")? else { return messages_only(fields, route) };
    if route == Route::Messages {
        metadata.string("user_id")?;
        return messages_only(fields, route);
    }
    metadata.check_count(ENTRIES)?;
    for (index, (key, value)) in metadata.into_rest().into_iter().enumerate() {
        let fault = |what: &str| {
            let reason = format_args!("the {what} (of entry {})", index + 1);
            Err(ApiError::invalid("metadata", reason))
        };
        if key.chars().count() > KEY {
            return fault(&format!("keys have at most {KEY} characters"));
        }
        match value.as_str() {
            Some(text) if text.chars().count() <= VALUE => {}
            Some(_) => return fault(&format!("values have at most {VALUE} characters")),
            None => return fault(&format!("values are strings, not {}", value.kind())),
        }
    }
    messages_only(fields, route)
}

/// What only Anthropic's format has.
fn messages_only(fields: &mut Fields, route: Route) -> Result<(), ApiError> {
    if route != Route::Messages {
        return Ok(());
    }
    for name in ["user_profile_id", "workspace_id", "anthropic_version"] {
        fields.string(name)?;
    }
    // Nobody is billed.
    fields.object("billing_policy")?;
    // Features that are not final are asked for by a header, or here; each has parameters that speak for themselves.
    for name in ["betas", "anthropic_beta"] {
        for (index, beta) in fields.array(name)?.unwrap_or_default().into_iter().enumerate() {
            if beta.as_str().is_none() {
                return Err(wrong(&format!("{name}[{index}]"), "a string", &beta));
            }
        }
    }
    cache_control(fields)
}

/// `cache_control` of a request, a tool or a block: where a cache is to begin anew, which the server finds by itself.
pub(crate) fn cache_control(fields: &mut Fields) -> Result<(), ApiError> {
    let Some(mut control) = fields.object("cache_control")? else { return Ok(()) };
    let path = control.at("type");
    match control.string("type")?.as_deref() {
        Some("ephemeral") => {}
        Some(_) => return Err(ApiError::invalid(path, "must be ephemeral")),
        None => return Err(ApiError::invalid(path, "is missing")),
    }
    match control.string("ttl")?.as_deref() {
        None | Some("5m" | "1h") => Ok(()),
        Some(_) => Err(ApiError::invalid(control.at("ttl"), "must be 5m or 1h")),
    }
}
