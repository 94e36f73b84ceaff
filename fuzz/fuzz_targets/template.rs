//! An arbitrary template with an arbitrary request, `TEMPLATE NUL REQUEST`; and the request with nano's own template.
//! Nothing panics or hangs; a prompt's ids are those of its text when no control token's spelling was typed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lily_text::{ChatTemplate, RenderRequest, TokenId, Tokenizer, json::Value, prepare_messages};
use std::sync::LazyLock;

static NANO: LazyLock<ChatTemplate> = LazyLock::new(|| {
    ChatTemplate::new(include_str!("../../models/nano/chat_template.jinja"))
        .expect("nano's template compiles")
});
static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_json(include_bytes!("../../models/nano/tokenizer.json"))
        .expect("nano's tokenizer is read")
});

fuzz_target!(|input: &[u8]| {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let (template, request) =
        input.split_once('\0').unwrap_or((input, r#"{"messages":[{"role":"user","content":"Hi"}]}"#));
    let Some(request) = request_of(request) else { return };
    if let Ok(template) = ChatTemplate::new(template) {
        check(&template, &request, template_is_foreign);
    }
    check(&NANO, &request, nano_is_ours);
});

/// The request that a JSON text spells, as the commands read one; `None` if it is refused.
fn request_of(text: &str) -> Option<RenderRequest> {
    let Value::Object(fields) = Value::parse(text).ok()? else { return None };
    let mut request = RenderRequest { add_generation_prompt: true, ..RenderRequest::default() };
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("messages", Value::Array(messages)) => request.messages = messages,
            ("tools", Value::Array(tools)) => request.tools = tools,
            (_, value) => request.kwargs.push((name, value)),
        }
    }
    request.messages = prepare_messages(request.messages).ok()?;
    Some(request)
}

fn check(template: &ChatTemplate, request: &RenderRequest, inspect: fn(&[TokenId], &str)) {
    match template.render(request) {
        Ok(prompt) => inspect(&TOKENIZER.encode_prompt(&prompt), &prompt.text()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A foreign template may write any text; its ids must still exist.
fn template_is_foreign(ids: &[TokenId], _text: &str) {
    assert!(ids.iter().all(|&id| TOKENIZER.has_token(id)));
}

/// Every control token of nano's prompt is one that its template wrote, so turns open and close by turns.
fn nano_is_ours(ids: &[TokenId], _text: &str) {
    let (start, end) = (TOKENIZER.token_id("<|im_start|>"), TOKENIZER.token_id("<|im_end|>"));
    let mut open = false;
    for &id in ids {
        assert!(TOKENIZER.has_token(id));
        if Some(id) == start {
            assert!(!open, "a turn opened inside a turn");
            open = true;
        } else if Some(id) == end {
            assert!(open, "a turn closed that was not open");
            open = false;
        } else {
            assert!(!TOKENIZER.is_special(id), "a control token from a message's text");
        }
    }
}
