//! Random walks through the masks, and what reads them.

use lily_text::constraint::{Constrainer, Function, Guide, Rules};
use lily_text::json::Value;
use lily_text::parser::{End, Event, Message, MessageParser, Start};
use lily_text::{TokenId, Tokenizer};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Instant;

pub(crate) static NANO: LazyLock<(Tokenizer, Constrainer)> =
    LazyLock::new(|| load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/nano")));

pub(crate) fn load(folder: &Path) -> (Tokenizer, Constrainer) {
    let json = std::fs::read(folder.join("tokenizer.json")).expect("a tokenizer");
    let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
    let begun = Instant::now();
    let constrainer = Constrainer::new(&tokenizer, &stops(&tokenizer)).expect("a vocabulary");
    eprintln!("a tree of {} tokens in {:?}", tokenizer.size(), begun.elapsed());
    (tokenizer, constrainer)
}

pub(crate) fn stops(tokenizer: &Tokenizer) -> Vec<TokenId> {
    ["<|im_end|>", "<|endoftext|>"].iter().filter_map(|stop| tokenizer.token_id(stop)).collect()
}

pub(crate) fn json(text: &str) -> Value {
    Value::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A small generator of numbers (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The rows of a model that has more than the tokenizer.
pub(crate) const SPARE_ROWS: usize = 40;

pub(crate) fn allowed(guide: &mut Guide, tokenizer: &Tokenizer) -> Vec<TokenId> {
    let mut words = vec![u32::MAX; (tokenizer.size() + SPARE_ROWS).div_ceil(32)];
    guide.mask(&mut words).expect("a mask");
    let set = |id: &TokenId| words[id.0 as usize / 32] & (1 << (id.0 % 32)) != 0;
    (0..tokenizer.size() as u32).map(TokenId).filter(set).collect()
}

/// What a random walk says; true if it came to its end.
pub(crate) struct Walk {
    pub(crate) text: String,
    pub(crate) ids: Vec<TokenId>,
    pub(crate) complete: bool,
}

/// Chooses at random among the allowed tokens, more and more often one that brings the end nearer.
pub(crate) fn walk(mut guide: Guide, tokenizer: &Tokenizer, seed: u64, most: usize) -> Walk {
    let stops = stops(tokenizer);
    let think_close = tokenizer.token_id("</think>");
    let closing: Vec<TokenId> = ["\"", "}", "]"].iter().flat_map(|text| tokenizer.encode(text)).collect();
    let mut dice = Dice(seed);
    let mut ids = Vec::new();
    for step in 0..most {
        if guide.is_complete() {
            break;
        }
        let allowed = allowed(&mut guide, tokenizer);
        assert!(!allowed.is_empty(), "nothing is allowed after {:?}", tokenizer.decode(&ids, false));
        let value_end = next_of("\n</parameter>", &ids, &allowed, tokenizer);
        let end = stops.iter().chain(&think_close).chain(&value_end).chain(&closing);
        let end = end.copied().find(|id| allowed.contains(id));
        let hurry = dice.roll() % 100 < 10 + step as u64;
        let id = match end {
            Some(id) if hurry => id,
            _ => allowed[(dice.roll() % allowed.len() as u64) as usize],
        };
        guide.accept(id).unwrap_or_else(|error| {
            panic!("{id:?} was allowed and is refused ({error}): {:?}", tokenizer.decode(&ids, false))
        });
        ids.push(id);
        if stops.contains(&id) {
            assert!(guide.is_complete());
            break;
        }
    }
    let complete = guide.is_complete();
    Walk { text: tokenizer.decode(&ids, true), ids, complete }
}

/// The longest token that goes on with a text of which some has been said.
pub(crate) fn next_of(
    wanted: &str,
    said: &[TokenId],
    allowed: &[TokenId],
    tokenizer: &Tokenizer,
) -> Option<TokenId> {
    let said = tokenizer.decode(&said[said.len().saturating_sub(wanted.len())..], true);
    let begun = (0..wanted.len()).rev().find(|length| said.ends_with(&wanted[..*length])).unwrap_or(0);
    let rest = &wanted.as_bytes()[begun..];
    let length = |id: &TokenId| tokenizer.token_bytes(*id).map_or(0, <[u8]>::len);
    let fits = |id: &TokenId| {
        length(id) > 0 && tokenizer.token_bytes(*id).is_some_and(|bytes| rest.starts_with(bytes))
    };
    allowed.iter().copied().filter(fits).max_by_key(length)
}

pub(crate) fn rules<'a>(answer: Option<&'a Value>, functions: &'a [(&'a str, Value, bool)]) -> Rules<'a> {
    let functions = functions.iter().map(|(name, schema, strict)| Function {
        name,
        parameters: Some(schema),
        strict: *strict,
    });
    Rules { start: Start::Answer, answer, functions: functions.collect(), required: false, parallel: true }
}

/// Runs walks until `wanted` came to their ends, and gives those to a check.
pub(crate) fn walks(rules: &Rules<'_>, wanted: usize, mut check: impl FnMut(&Walk)) {
    let (tokenizer, constrainer) = &*NANO;
    let guide = constrainer.guide(rules).unwrap_or_else(|error| panic!("{error}"));
    let mut complete = 0;
    for seed in 0..(wanted as u64 * 4) {
        let walk = walk(guide.clone(), tokenizer, seed, 300);
        if walk.complete {
            check(&walk);
            complete += 1;
        }
        if complete == wanted {
            return;
        }
    }
    panic!("only {complete} of {wanted} walks came to their ends");
}

pub(crate) fn parse(walk: &Walk, rules: &Rules<'_>, tools: &[Value]) -> Message {
    let text_first = rules.answer.is_none() && !rules.required;
    let read = |pieces: &[&str]| {
        let mut parser = MessageParser::exact(rules.start, tools, text_first);
        let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        events.extend(parser.finish(End::Stop));
        Message::from_events(events)
    };
    let whole = read(&[&walk.text]);
    let pieces: Vec<String> = walk.text.chars().map(String::from).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    assert_eq!(read(&pieces), whole, "{:?}", walk.text);
    whole
}

/// As chat completions has a tool.
pub(crate) fn tool(name: &str, schema: &Value) -> Value {
    json(&format!(
        r#"{{"type": "function", "function": {{"name": "{name}", "parameters": {}}}}}"#,
        schema.to_python_json()
    ))
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

pub(crate) const WEATHER: &str = r#"{"type": "object", "required": ["city", "days"], "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"type": "string", "enum": ["C", "F"]},
    "where": {"type": ["object", "null"], "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
    "note": {"type": ["string", "null"]}, "exact": {"type": "boolean"}}}"#;

pub(crate) fn check_weather(arguments: &str) {
    let value = json(arguments);
    assert!(text(&value, "city").is_some(), "{arguments}");
    assert!(matches!(value.get("days"), Some(Value::Integer(_))), "{arguments}");
    assert!(
        value.get("unit").is_none() || ["C", "F"].contains(&text(&value, "unit").unwrap_or("")),
        "{arguments}"
    );
    assert!(
        value.get("where").is_none_or(|place| *place == Value::Null || place.get("lat").is_some()),
        "{arguments}"
    );
    assert!(
        value.get("note").is_none_or(|note| matches!(note, Value::Null | Value::String(_))),
        "{arguments}"
    );
    assert!(value.get("exact").is_none_or(|exact| exact.as_bool().is_some()), "{arguments}");
}
