//! An arbitrary JSON schema, `SETTINGS SCHEMA`, where SETTINGS is a byte for the rules and eight bytes for a walk: it is
//! refused with a reason, or there is a guide that always allows something, takes what it allows, and whose complete
//! texts are read back, in any pieces, as what the rules ask for. In bounded time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lily_text::constraint::{Constrainer, Function, Guide, Rules};
use lily_text::json::Value;
use lily_text::parser::{End, Event, Message, MessageParser, Start};
use lily_text::{TokenId, Tokenizer};
use std::sync::LazyLock;

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_json(include_bytes!("../../models/nano/tokenizer.json"))
        .expect("nano's tokenizer is read")
});
static STOPS: LazyLock<Vec<TokenId>> = LazyLock::new(|| {
    ["<|im_end|>", "<|endoftext|>"].iter().filter_map(|stop| TOKENIZER.token_id(stop)).collect()
});
static CONSTRAINER: LazyLock<Constrainer> =
    LazyLock::new(|| Constrainer::new(&TOKENIZER, &STOPS).expect("nano's vocabulary fits"));
static OTHER: LazyLock<Value> =
    LazyLock::new(|| Value::parse(r#"{"properties": {"a": {"type": "integer"}}}"#).expect("JSON"));

/// Tokens of a walk.
const TOKENS: usize = 64;

fuzz_target!(|input: &[u8]| {
    let Some((settings, schema)) = input.split_first_chunk::<9>() else { return };
    let Some(schema) = std::str::from_utf8(schema).ok().and_then(|text| Value::parse(text).ok()) else {
        return;
    };
    let bit = |bit: u8| settings[0] & (1 << bit) != 0;
    let functions = [
        Function { name: "f", parameters: Some(&schema), strict: bit(0) },
        Function { name: "g", parameters: Some(&OTHER), strict: bit(1) },
    ];
    let rules = Rules {
        start: if bit(2) { Start::Thinking } else { Start::Answer },
        answer: (bit(3) || bit(4)).then_some(&schema),
        functions: if bit(4) { Vec::new() } else { functions.to_vec() },
        required: bit(5) && !bit(4),
        parallel: bit(6),
    };
    if rules.are_free() {
        return;
    }
    match CONSTRAINER.guide(&rules) {
        Ok(guide) => walk(guide, &rules, u64::from_le_bytes(settings[1..].try_into().expect("eight bytes"))),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

/// Chooses among what is allowed, more and more often what brings the end nearer; a complete text is read.
fn walk(mut guide: Guide, rules: &Rules<'_>, seed: u64) {
    let text_first = rules.answer.is_none() && !rules.required;
    let close: Vec<TokenId> = STOPS
        .iter()
        .copied()
        .chain(["</think>", "<tool_call>"].iter().filter_map(|tag| TOKENIZER.token_id(tag)))
        .chain(["\"", "}", "]"].iter().flat_map(|text| TOKENIZER.encode(text)))
        .collect();
    let mut ids = Vec::new();
    let mut roll = random(seed);
    for step in 0..TOKENS {
        if guide.is_complete() {
            break;
        }
        let mut words = vec![u32::MAX; TOKENIZER.size().div_ceil(32)];
        // A grammar may turn out too complex; that is told.
        let Ok(()) = guide.mask(&mut words) else { return };
        let allows = |id: &TokenId| words[id.0 as usize / 32] & (1 << (id.0 % 32)) != 0;
        let allowed: Vec<TokenId> = (0..TOKENIZER.size() as u32).map(TokenId).filter(allows).collect();
        assert!(!allowed.is_empty(), "nothing is allowed after {:?}", TOKENIZER.decode(&ids, false));
        let hurry = roll() % 100 < 20 + 2 * step as u64;
        let id = close
            .iter()
            .copied()
            .find(|id| hurry && allows(id))
            .unwrap_or_else(|| allowed[(roll() % allowed.len() as u64) as usize]);
        guide.accept(id).expect("what is allowed is taken");
        ids.push(id);
    }
    if guide.is_complete() {
        read(&TOKENIZER.decode(&ids, true), rules, text_first);
    }
}

/// A complete text is what the rules ask for.
fn read(text: &str, rules: &Rules<'_>, text_first: bool) {
    let tools: Vec<Value> = rules
        .functions
        .iter()
        .map(|function| {
            let name = ("name".to_owned(), Value::from(function.name));
            let schema = function.parameters.cloned().unwrap_or(Value::Null);
            Value::Object(vec![name, ("parameters".to_owned(), schema)])
        })
        .collect();
    let read = |pieces: &[&str]| {
        let mut parser = MessageParser::exact(rules.start, &tools, text_first);
        let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        events.extend(parser.finish(End::Stop));
        Message::from_events(events)
    };
    let message = read(&[text]);
    let pieces: Vec<&str> = text.split_inclusive(|_: char| true).collect();
    assert_eq!(read(&pieces), message, "{text:?}");
    assert_eq!(message.incomplete, None, "{text:?}");
    for call in &message.calls {
        assert!(["f", "g"].contains(&call.name.as_str()), "{text:?}");
        assert!(Value::parse(&call.arguments).is_ok_and(|value| value.as_object().is_some()), "{text:?}");
    }
    assert!(rules.parallel || message.calls.len() < 2, "{text:?}");
    if rules.required {
        assert!(!message.calls.is_empty() && message.content.is_empty(), "{text:?}");
    } else if rules.answer.is_some() && message.calls.is_empty() {
        assert!(Value::parse(&message.content).is_ok(), "{text:?}");
    }
}

fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}
