//! What the tests of this crate share: the two checkpoints' text files and the cases.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(unreachable_pub, reason = "compiled into several test binaries")]

use std::path::PathBuf;

use lily_text::json::Value;
use lily_text::{ChatTemplate, Tokenizer};

pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The folder of the real model's text files; says so when there is none.
pub fn qwen_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("LILY_QWEN36_DIR").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped for the real model: LILY_QWEN36_DIR is not set");
    }
    folder
}

pub fn nano_tokenizer() -> Tokenizer {
    Tokenizer::from_json(&std::fs::read(repository("models/nano/tokenizer.json")).unwrap()).unwrap()
}

pub fn nano_template() -> ChatTemplate {
    ChatTemplate::new(&std::fs::read_to_string(repository("models/nano/chat_template.jinja")).unwrap())
        .unwrap()
}

pub fn qwen_tokenizer() -> Option<Tokenizer> {
    let json = std::fs::read(qwen_folder()?.join("tokenizer.json")).unwrap();
    Some(Tokenizer::from_json(&json).unwrap())
}

pub fn qwen_template() -> Option<ChatTemplate> {
    let source = std::fs::read_to_string(qwen_folder()?.join("chat_template.jinja")).unwrap();
    Some(ChatTemplate::new(&source).unwrap())
}

/// Lines of a JSON-lines file in the repository.
pub fn json_lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(repository(path)).unwrap();
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| Value::parse(line).unwrap()).collect()
}

pub fn items(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).map(<[Value]>::to_vec).unwrap_or_default()
}
