//! Log-probabilities on the wire.

use lily_engine::{TokenId, TokenLogprob};
use lily_text::{Tokenizer, Utf8Decoder};
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
    json!({"token": String::from_utf8_lossy(bytes), "logprob": encodable(logprob), "bytes": bytes})
}

/// How far the text of an answer is, in characters.
#[derive(Debug, Default)]
pub(crate) struct Offset {
    characters: usize,
    /// A character may be split over tokens.
    decoder: Utf8Decoder,
}

impl Offset {
    /// Where the text of a token begins; it is added.
    fn advance(&mut self, tokenizer: &Tokenizer, id: TokenId) -> usize {
        let begin = self.characters;
        // Control tokens are no text.
        if !tokenizer.is_special(id) {
            let text = self.decoder.push(tokenizer.token_bytes(id).unwrap_or_default());
            self.characters += text.chars().count();
        }
        begin
    }
}

/// The older shape of `/v1/completions`: parallel lists. A token that is no whole text is spelled `bytes:\xf0\x9f`, as
/// OpenAI did it: these have no field for bytes, and several such tokens would have the same key.
pub(crate) fn legacy(tokenizer: &Tokenizer, logprobs: &[TokenLogprob], offset: &mut Offset) -> Value {
    let (mut tokens, mut values, mut top, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let spelling = |id| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        let escaped = || bytes.iter().fold("bytes:".to_owned(), |text, byte| format!("{text}\\x{byte:02x}"));
        std::str::from_utf8(bytes).map_or_else(|_| escaped(), str::to_owned)
    };
    for logprob in logprobs {
        offsets.push(offset.advance(tokenizer, logprob.id));
        tokens.push(spelling(logprob.id));
        values.push(encodable(logprob.logprob));
        let best = logprob.top.iter().map(|(id, value)| (spelling(*id), json!(encodable(*value))));
        top.push(Value::Object(best.collect()));
    }
    json!({"tokens": tokens, "token_logprobs": values, "top_logprobs": top, "text_offset": offsets})
}

fn encodable(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { IMPOSSIBLE }
}
