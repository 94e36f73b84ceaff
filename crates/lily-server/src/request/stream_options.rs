//! `stream_options`: what a stream carries beside the answer.

use crate::error::ApiError;
use crate::fields::Fields;

const PATH: &str = "stream_options";

/// What of it was asked for.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct StreamOptions {
    /// The usage, at the end.
    pub(crate) usage: bool,
    /// The progress of prefill (an extension).
    pub(crate) progress: bool,
}

/// Reads the options, which only a stream has.
pub(crate) fn read(fields: &mut Fields, stream: bool) -> Result<StreamOptions, ApiError> {
    let Some(mut options) = fields.object(PATH)? else { return Ok(StreamOptions::default()) };
    if !stream {
        return Err(ApiError::invalid(PATH, "is taken only if stream is true"));
    }
    if options.boolean("include_obfuscation")? == Some(true) {
        return Err(ApiError::unsupported(options.at("include_obfuscation"), "events are not padded here"));
    }
    Ok(StreamOptions {
        usage: options.boolean("include_usage")?.unwrap_or(false),
        progress: options.boolean("include_progress")?.unwrap_or(false),
    })
}
