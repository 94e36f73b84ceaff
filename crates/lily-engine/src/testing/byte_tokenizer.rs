//! A tokenizer with one token per byte.

use crate::TokenId;
use lily_text::Tokenizer;
use serde_json::{Map, Value, json};

/// `<|end|>`, special.
pub const END: TokenId = TokenId(256);
/// `<tool>`, an added token that is text.
pub const TOOL: TokenId = TokenId(257);
/// ` hello`, an ordinary token of several bytes.
pub const WORD: TokenId = TokenId(260);

/// Where Qwen's tokenizers split words; without merges it changes nothing here.
const SPLIT: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// A byte-level tokenizer in which byte `b` is token `b`, with [`END`], [`TOOL`] and [`WORD`]. 258 and 259 are holes.
///
/// # Panics
/// Never: its file is fixed.
#[must_use]
pub fn byte_tokenizer() -> Tokenizer {
    let mut vocab: Map<String, Value> =
        (0..=255u8).map(|byte| (letter(byte).to_string(), u32::from(byte).into())).collect();
    vocab.insert(" hello".bytes().map(letter).collect(), WORD.0.into());
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false,
    });
    let split =
        json!({"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": false});
    let added = |id: TokenId, content: &str, special: bool| {
        json!({
            "id": id.0, "content": content, "special": special, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false,
        })
    };
    let file = json!({
        "version": "1.0",
        "added_tokens": [added(END, "<|end|>", true), added(TOOL, "<tool>", false)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": null,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    });
    Tokenizer::from_json(file.to_string().as_bytes()).expect("a fixed file")
}

/// The tokens of a text, one per byte.
#[must_use]
pub fn bytes(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(u32::from(byte))).collect()
}

/// The printable character that byte-level vocabularies write for a byte: itself where it is printable, else the next
/// free one from U+0100 on.
fn letter(byte: u8) -> char {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(&byte) {
        return char::from(byte);
    }
    let earlier = (0..byte).filter(|byte| !printable(byte)).count() as u32;
    char::from_u32(0x100 + earlier).unwrap_or(char::REPLACEMENT_CHARACTER)
}
