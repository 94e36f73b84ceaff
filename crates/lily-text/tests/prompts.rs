//! The golden prompts of the real chat template.

mod common;

use common::{items, json_lines};
use lily_text::json::Value;
use lily_text::{RenderRequest, TemplateError, prepare_messages};

/// A golden's request as the template gets it. The goldens that the template refuses go to it as they are.
fn request(golden: &Value, prepare: bool) -> RenderRequest {
    let wire = golden.get("request").unwrap();
    let messages = items(wire.get("messages"));
    RenderRequest {
        messages: if prepare { prepare_messages(messages).unwrap() } else { messages },
        tools: items(wire.get("tools")),
        kwargs: wire.get("kwargs").and_then(Value::as_object).map(<[_]>::to_vec).unwrap_or_default(),
        add_generation_prompt: true,
    }
}

#[test]
fn every_golden_prompt_is_byte_equal() {
    let Some(template) = common::qwen_template() else { return };
    let mut seen = 0;
    for golden in json_lines("tests/data/cases/prompts.jsonl") {
        let name = golden.get("name").and_then(Value::as_str).unwrap().to_owned();
        match golden.get("prompt").and_then(Value::as_str) {
            Some(expected) => {
                let prompt = template.render(&request(&golden, true)).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(prompt.text(), expected, "{name}");
            }
            None => {
                let expected = golden.get("refused").and_then(Value::as_str).unwrap().to_owned();
                let refused = template.render(&request(&golden, false));
                assert_eq!(refused, Err(TemplateError::Refused(expected)), "{name}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} goldens");
}
