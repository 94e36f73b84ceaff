//! An arbitrary model text: `SETTINGS TOOLS NUL TEXT`, where SETTINGS is a byte for start, end and how strictly calls are
//! read, and eight bytes for a chunking, and TOOLS is JSON (tools of our own where it is none). Whole and streamed forms
//! agree for every chunking, arguments are JSON objects, nothing is lost when nothing is read, and nothing panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lily_text::json::Value;
use lily_text::parser::{End, Event, Message, MessageParser, Start};
use std::sync::LazyLock;

static TOOLS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let tools = r#"[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": ["integer", "null"]}, "c": {"type": "boolean"}, "d": {"type": "array"},
        "o": {"anyOf": [{"type": "object"}, {"type": "null"}]}, "z": {}}}}}, {"name": "get_weather"}]"#;
    match Value::parse(tools).expect("tools are JSON") {
        Value::Array(tools) => tools,
        _ => unreachable!("tools are a list"),
    }
});

fuzz_target!(|input: &[u8]| {
    let Some((settings, input)) = input.split_first_chunk::<9>() else { return };
    let Ok(input) = std::str::from_utf8(input) else { return };
    let (tools, text) = input.split_once('\0').unwrap_or(("", input));
    let tools = match Value::parse(tools) {
        Ok(Value::Array(tools)) => tools,
        Ok(Value::Null) => Vec::new(),
        _ => TOOLS.clone(),
    };
    let start = [Start::Thinking, Start::Answer, Start::Within, Start::Raw][usize::from(settings[0] & 3)];
    let end = if settings[0] & 4 == 0 { End::Stop } else { End::Cut };
    let seed = u64::from_le_bytes(settings[1..].try_into().expect("eight bytes"));
    let exact = settings[0] & 8 != 0;
    let parser = match exact {
        true => MessageParser::exact(start, &tools, settings[0] & 16 != 0),
        false => MessageParser::new(start, &tools),
    };

    let whole = stream(&[text], parser.clone(), end);
    let message = Message::from_events(whole.clone());
    if !exact {
        assert_eq!(message, Message::parse(text, start, &tools, end), "the whole form is that of the events");
    }
    for pieces in [pieces(text, || 1), pieces(text, random(seed)), halves(text, seed)] {
        assert_eq!(pieces.concat(), text);
        let streamed = stream(&pieces, parser.clone(), end);
        assert_eq!(joined(&streamed), joined(&whole), "in pieces {pieces:?}");
        in_order(&streamed);
    }
    for call in &message.calls {
        assert!(!call.name.is_empty());
        let arguments = Value::parse(&call.arguments).expect("arguments are JSON");
        assert!(arguments.as_object().is_some(), "arguments are an object");
    }
    if tools.is_empty() || start == Start::Raw {
        assert!(message.calls.is_empty() && message.incomplete.is_none(), "no calls were to be read");
    }
    if start == Start::Raw {
        assert_eq!(message.content, text);
    }
});

fn stream(pieces: &[&str], mut parser: MessageParser, end: End) -> Vec<Event> {
    let mut events: Vec<Event> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    events.extend(parser.finish(end));
    events
}

/// What a client that joins the pieces has in the end.
fn joined(events: &[Event]) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(Event::Reasoning(text)), Event::Reasoning(more))
            | (Some(Event::Content(text)), Event::Content(more)) => text.push_str(more),
            (Some(Event::CallArguments { json, .. }), Event::CallArguments { json: more, .. }) => {
                json.push_str(more)
            }
            _ => joined.push(event.clone()),
        }
    }
    joined
}

/// Calls begin in order, one after the other, and say nothing before their beginning or after their end.
fn in_order(events: &[Event]) {
    let (mut begun, mut open) = (0, None);
    for event in events {
        match event {
            Event::CallStart { call, .. } => {
                assert_eq!((*call, open), (begun, None));
                (begun, open) = (begun + 1, Some(*call));
            }
            Event::CallArguments { call, json } => assert!(open == Some(*call) && !json.is_empty()),
            Event::CallEnd { call } => assert_eq!(open.take(), Some(*call)),
            Event::Reasoning(text) | Event::Content(text) | Event::Incomplete(text) => {
                assert!(!text.is_empty())
            }
        }
    }
}

/// Pieces of so many characters each.
fn pieces(text: &str, mut characters: impl FnMut() -> usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = rest.char_indices().nth(characters()).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Two pieces, anywhere.
fn halves(text: &str, seed: u64) -> Vec<&str> {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    match places.len() as u64 {
        0 => Vec::new(),
        count => <[&str; 2]>::from(text.split_at(places[(seed % count) as usize])).to_vec(),
    }
}

fn random(mut state: u64) -> impl FnMut() -> usize {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % 9 + 1
    }
}
