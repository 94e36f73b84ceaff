//! Log-probabilities on the wire.

use lily_engine::{TokenId, TokenLogprob};
use lily_text::Tokenizer;
use serde_json::{Value, json};

/// Stands for the logarithm of 0, which JSON has no number for.
const IMPOSSIBLE: f32 = -9999.0;

/// An entry of `logprobs.content`: the token, its bytes (which clients join where a character is split over tokens)
/// and the best candidates.
pub(crate) fn entry(tokenizer: &Tokenizer, logprob: &TokenLogprob) -> Value {
    let top: Vec<Value> = logprob.top.iter().map(|(id, value)| token(tokenizer, *id, *value)).collect();
    let mut entry = token(tokenizer, logprob.id, logprob.logprob);
    entry["top_logprobs"] = Value::Array(top);
    entry
}

fn token(tokenizer: &Tokenizer, id: TokenId, logprob: f32) -> Value {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    json!({"token": spelling(tokenizer, id), "logprob": encodable(logprob), "bytes": bytes})
}

/// The older shape of `/v1/completions`: parallel lists. `offset` counts the characters of the text so far.
pub(crate) fn legacy(tokenizer: &Tokenizer, logprobs: &[TokenLogprob], offset: &mut usize) -> Value {
    let (mut tokens, mut values, mut top, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for logprob in logprobs {
        let text = spelling(tokenizer, logprob.id);
        offsets.push(*offset);
        *offset += text.chars().count();
        tokens.push(text);
        values.push(encodable(logprob.logprob));
        let best = logprob.top.iter().map(|(id, value)| (spelling(tokenizer, *id), json!(encodable(*value))));
        top.push(Value::Object(best.collect()));
    }
    json!({"tokens": tokens, "token_logprobs": values, "top_logprobs": top, "text_offset": offsets})
}

fn spelling(tokenizer: &Tokenizer, id: TokenId) -> String {
    String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default()).into_owned()
}

fn encodable(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { IMPOSSIBLE }
}
