//! Sampling parameters on the wire.

use crate::Server;
use crate::error::ApiError;
use crate::fields::{Fields, integer, number};
use lily_engine::{SamplingParams, TokenId};
use lily_text::json::Value;

/// Reads all sampling parameters; what is absent keeps the checkpoint's default.
pub(crate) fn read(fields: &mut Fields, server: &Server) -> Result<SamplingParams, ApiError> {
    let mut sampling = server.model.defaults.clone();
    if let Some(temperature) = fields.number("temperature", 0.0, 2.0)? {
        sampling.temperature = temperature as f32;
    }
    if let Some(top_p) = fields.number("top_p", 0.0, 1.0)? {
        if top_p as f32 <= 0.0 {
            let reason = "must be above 0 (1 is off); for the likeliest token alone set temperature to 0";
            return Err(ApiError::invalid("top_p", reason));
        }
        sampling.top_p = top_p as f32;
    }
    // -1 and 0 are both in use for "all candidates".
    if let Some(top_k) = fields.integer("top_k", -1, i64::MAX)? {
        sampling.top_k = usize::try_from(top_k).unwrap_or(0);
    }
    if let Some(min_p) = fields.number("min_p", 0.0, 1.0)? {
        sampling.min_p = min_p as f32;
    }
    if let Some(penalty) = fields.number("repetition_penalty", 0.01, 100.0)? {
        sampling.repetition_penalty = penalty as f32;
    }
    if let Some(window) = fields.integer("repetition_window", 0, i64::MAX)? {
        sampling.repetition_window = usize::try_from(window).unwrap_or(usize::MAX);
    }
    if let Some(penalty) = fields.number("presence_penalty", -2.0, 2.0)? {
        sampling.presence_penalty = penalty as f32;
    }
    if let Some(penalty) = fields.number("frequency_penalty", -2.0, 2.0)? {
        sampling.frequency_penalty = penalty as f32;
    }
    if let Some(seed) = seed(fields)? {
        sampling.seed = Some(seed);
    }
    if let Some(bias) = fields.take("logit_bias") {
        sampling.logit_bias = logit_bias(bias, server)?;
    }
    Ok(sampling)
}

/// `seed`: 64 bits, with a sign or without one.
fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    match fields.take("seed") {
        None => Ok(None),
        Some(Value::Integer(digits)) => {
            let signed = || digits.parse::<i64>().map(|seed| seed as u64);
            let seed = digits.parse::<u64>().or_else(|_| signed());
            seed.map(Some).map_err(|_| ApiError::invalid("seed", "must be a whole number of 64 bits"))
        }
        Some(other) => integer("seed", &other, i64::MIN, i64::MAX).map(|seed| Some(seed as u64)),
    }
}

/// `{"token id": bias}`: keys are ids of tokens that exist, biases run from -100 (banned) to 100 (forced).
fn logit_bias(value: Value, server: &Server) -> Result<Vec<(TokenId, f32)>, ApiError> {
    let entries = Fields::new("logit_bias", value)?.into_rest();
    let most = server.config.limits.logit_bias;
    if entries.len() > most {
        return Err(ApiError::invalid("logit_bias", format_args!("at most {most} entries are taken")));
    }
    let vocab = server.model.engine.vocab_size();
    entries
        .into_iter()
        .enumerate()
        .map(|(index, (key, bias))| {
            // As ids are written: `05` would be another name for an entry that may be there already.
            let id = key.parse::<u32>().map(TokenId).ok().filter(|id| id.0.to_string() == key);
            let id = id.filter(|id| (id.0 as usize) < vocab && server.model.tokenizer.has_token(*id));
            let id = id.ok_or_else(|| {
                ApiError::invalid(
                    "logit_bias",
                    format_args!("the key of entry {} is not the id of a token of this model", index + 1),
                )
            })?;
            Ok((id, number(&format!("logit_bias.{}", id.0), &bias, -100.0, 100.0)? as f32))
        })
        .collect()
}
