//! Answers that are held to a form: random walks through the masks, read back by the parser.

use lily_text::constraint::{Constrainer, Function, Guide, Rules, RulesError};
use lily_text::json::Value;
use lily_text::parser::{End, Event, Message, MessageParser, Start};
use lily_text::{TokenId, Tokenizer};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

static NANO: LazyLock<(Tokenizer, Constrainer)> =
    LazyLock::new(|| load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/nano")));

fn load(folder: &Path) -> (Tokenizer, Constrainer) {
    let json = std::fs::read(folder.join("tokenizer.json")).expect("a tokenizer");
    let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
    let begun = Instant::now();
    let constrainer = Constrainer::new(&tokenizer, &stops(&tokenizer)).expect("a vocabulary");
    eprintln!("a tree of {} tokens in {:?}", tokenizer.size(), begun.elapsed());
    (tokenizer, constrainer)
}

fn stops(tokenizer: &Tokenizer) -> Vec<TokenId> {
    ["<|im_end|>", "<|endoftext|>"].iter().filter_map(|stop| tokenizer.token_id(stop)).collect()
}

fn json(text: &str) -> Value {
    Value::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A small generator of numbers (SplitMix64).
struct Dice(u64);

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
const SPARE_ROWS: usize = 40;

fn allowed(guide: &mut Guide, tokenizer: &Tokenizer) -> Vec<TokenId> {
    let mut words = vec![u32::MAX; (tokenizer.size() + SPARE_ROWS).div_ceil(32)];
    guide.mask(&mut words).expect("a mask");
    let set = |id: &TokenId| words[id.0 as usize / 32] & (1 << (id.0 % 32)) != 0;
    (0..tokenizer.size() as u32).map(TokenId).filter(set).collect()
}

/// What a random walk says; true if it came to its end.
struct Walk {
    text: String,
    ids: Vec<TokenId>,
    complete: bool,
}

/// Chooses at random among the allowed tokens, more and more often one that brings the end nearer.
fn walk(mut guide: Guide, tokenizer: &Tokenizer, seed: u64, most: usize) -> Walk {
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
fn next_of(wanted: &str, said: &[TokenId], allowed: &[TokenId], tokenizer: &Tokenizer) -> Option<TokenId> {
    let said = tokenizer.decode(&said[said.len().saturating_sub(wanted.len())..], true);
    let begun = (0..wanted.len()).rev().find(|length| said.ends_with(&wanted[..*length])).unwrap_or(0);
    let rest = &wanted.as_bytes()[begun..];
    let length = |id: &TokenId| tokenizer.token_bytes(*id).map_or(0, <[u8]>::len);
    let fits = |id: &TokenId| {
        length(id) > 0 && tokenizer.token_bytes(*id).is_some_and(|bytes| rest.starts_with(bytes))
    };
    allowed.iter().copied().filter(fits).max_by_key(length)
}

fn rules<'a>(answer: Option<&'a Value>, functions: &'a [(&'a str, Value, bool)]) -> Rules<'a> {
    let functions = functions.iter().map(|(name, schema, strict)| Function {
        name,
        parameters: Some(schema),
        strict: *strict,
    });
    Rules { start: Start::Answer, answer, functions: functions.collect(), required: false, parallel: true }
}

/// Runs walks until `wanted` came to their ends, and gives those to a check.
fn walks(rules: &Rules<'_>, wanted: usize, mut check: impl FnMut(&Walk)) {
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

fn parse(walk: &Walk, rules: &Rules<'_>, tools: &[Value]) -> Message {
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
fn tool(name: &str, schema: &Value) -> Value {
    json(&format!(
        r#"{{"type": "function", "function": {{"name": "{name}", "parameters": {}}}}}"#,
        schema.to_python_json()
    ))
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

#[test]
fn any_object() {
    let schema = json(r#"{"type": "object"}"#);
    let rules = rules(Some(&schema), &[]);
    walks(&rules, 30, |walk| {
        let value = json(&walk.text);
        assert!(value.as_object().is_some(), "{}", walk.text);
        assert_eq!(parse(walk, &rules, &[]).content, walk.text);
    });
}

#[test]
fn a_schema_is_kept() {
    let schema = json(
        r##"{"type": "object", "additionalProperties": false, "required": ["name", "age", "tags"],
        "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 9}, "age": {"type": "integer", "minimum": 0},
            "kind": {"enum": ["cat", "dog", 3, null]}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        "$defs": {"node": {"type": "object", "properties": {"id": {"type": "number"}}, "required": ["id"]}}}"##,
    );
    let rules = rules(Some(&schema), &[]);
    walks(&rules, 40, |walk| {
        let value = json(&walk.text);
        let name = text(&value, "name").expect("a name").chars().count();
        assert!((2..=9).contains(&name), "{}", walk.text);
        assert!(value.get("age").and_then(Value::as_i64).is_none_or(|age| age >= 0), "{}", walk.text);
        assert!(matches!(value.get("age"), Some(Value::Integer(_))), "{}", walk.text);
        let tags = value.get("tags").and_then(Value::as_array).expect("tags");
        assert!(tags.len() <= 2 && tags.iter().all(|tag| tag.as_str().is_some()), "{}", walk.text);
        if let Some(next) = value.get("next").filter(|next| **next != Value::Null) {
            assert!(matches!(next.get("id"), Some(Value::Integer(_) | Value::Float(_))), "{}", walk.text);
        }
        let known = ["name", "age", "kind", "tags", "next"];
        assert!(
            value
                .as_object()
                .is_some_and(|fields| fields.iter().all(|(key, _)| known.contains(&key.as_str())))
        );
    });
}

/// A stop id only where the value is whole; control tokens, markup and ids without a token nowhere in it.
#[test]
fn control_tokens_are_no_text() {
    let (tokenizer, constrainer) = &*NANO;
    let schema = json(r#"{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}"#);
    let mut guide = constrainer.guide(&rules(Some(&schema), &[])).expect("a guide");
    let added: Vec<TokenId> =
        ["<|im_end|>", "<|endoftext|>", "<|im_start|>", "<think>", "</think>", "<tool_call>"]
            .iter()
            .filter_map(|spelling| tokenizer.token_id(spelling))
            .collect();
    assert_eq!(added.len(), 6);
    let mut rest = "{\"a\": \"<|im_end|></think>\"".to_owned();
    while !rest.is_empty() {
        let allowed = allowed(&mut guide, tokenizer);
        assert!(added.iter().all(|id| !allowed.contains(id)), "before {rest:?}");
        assert!(allowed.iter().all(|id| tokenizer.has_token(*id)));
        let fits = |id: &&TokenId| {
            tokenizer.token_bytes(**id).is_some_and(|bytes| rest.as_bytes().starts_with(bytes))
        };
        let length = |id: &TokenId| tokenizer.token_bytes(*id).map_or(0, <[u8]>::len);
        let id =
            *allowed.iter().filter(fits).max_by_key(|id| length(id)).unwrap_or_else(|| panic!("{rest:?}"));
        guide.accept(id).expect("allowed");
        rest = rest.split_off(length(&id));
    }
    assert!(!guide.is_complete());
    let close = tokenizer.encode("}")[0];
    guide.accept(close).expect("the end of the object");
    assert!(guide.is_complete(), "nothing can follow");
    // Rows past the vocabulary.
    let mut words = vec![u32::MAX; (tokenizer.size() + 1000).div_ceil(32)];
    guide.mask(&mut words).expect("a mask");
    assert!(words[tokenizer.size().div_ceil(32)..].iter().all(|word| *word == 0));
}

#[test]
fn thinking_is_free_and_cannot_end_the_answer() {
    let (tokenizer, constrainer) = &*NANO;
    let schema = json(r#"{"type": "object", "properties": {}, "additionalProperties": false}"#);
    let rules = Rules { start: Start::Thinking, ..rules(Some(&schema), &[]) };
    let guide = constrainer.guide(&rules).expect("a guide");
    for thinking in ["Hm, {\"a\": 1} </thin", "", "</", "<tool_call>\n<function=f>"] {
        for close in
            [vec![tokenizer.token_id("</think>").expect("a token")], tokenizer.encode_plain("</think>")]
        {
            let mut guide = guide.clone();
            for id in tokenizer.encode(thinking) {
                let allowed = allowed(&mut guide, tokenizer);
                assert!(allowed.contains(&id), "{thinking:?}");
                assert!(stops(tokenizer).iter().all(|stop| !allowed.contains(stop)), "{thinking:?}");
                guide.accept(id).expect("allowed");
            }
            for id in close {
                guide.accept(id).expect("allowed");
            }
            let firsts: Vec<&[u8]> =
                allowed(&mut guide, tokenizer).iter().filter_map(|id| tokenizer.token_bytes(*id)).collect();
            assert!(firsts.iter().all(|first| first[0] == b'\n' || first[0] == b'{'), "{firsts:?}");
        }
    }
    walks(&rules, 10, |walk| {
        let message = parse(walk, &rules, &[]);
        assert_eq!(json(&message.content), json("{}"));
    });
}

/// However the end of thinking is cut into tokens, no token may hold the beginning of the answer too.
#[test]
fn no_token_spans_the_end_of_thinking() {
    let (tokenizer, constrainer) = &*NANO;
    let schema = json(r#"{"type": "object"}"#);
    let rules = Rules { start: Start::Thinking, ..rules(Some(&schema), &[]) };
    let mut guide = constrainer.guide(&rules).expect("a guide");
    for id in tokenizer.encode_plain("</think") {
        guide.accept(id).expect("free");
    }
    let more: Vec<&[u8]> =
        allowed(&mut guide, tokenizer).iter().filter_map(|id| tokenizer.token_bytes(*id)).collect();
    assert!(more.contains(&b">".as_slice()));
    assert!(more.iter().all(|text| text.len() == 1 || text[0] != b'>'), "a token goes on behind the marker");
}

const WEATHER: &str = r#"{"type": "object", "required": ["city", "days"], "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"type": "string", "enum": ["C", "F"]},
    "where": {"type": ["object", "null"], "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
    "note": {"type": ["string", "null"]}, "exact": {"type": "boolean"}}}"#;

fn check_weather(arguments: &str) {
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

#[test]
fn required_calls_keep_to_their_schemas() {
    let functions = [("weather", json(WEATHER), false), ("now", json("{}"), false)];
    let tools = [tool("weather", &functions[0].1), tool("now", &functions[1].1)];
    for parallel in [true, false] {
        let rules = Rules { required: true, parallel, ..rules(None, &functions) };
        walks(&rules, 40, |walk| {
            let message = parse(walk, &rules, &tools);
            assert_eq!((message.content.as_str(), &message.incomplete), ("", &None), "{:?}", walk.text);
            assert!(!message.calls.is_empty() && (parallel || message.calls.len() == 1), "{:?}", walk.text);
            for call in &message.calls {
                match call.name.as_str() {
                    "weather" => check_weather(&call.arguments),
                    "now" => assert_eq!(call.arguments, "{}", "{:?}", walk.text),
                    other => panic!("{other} was not offered"),
                }
            }
        });
    }
}

#[test]
fn one_named_function() {
    let functions = [("weather", json(WEATHER), true)];
    let rules = Rules { required: true, parallel: false, start: Start::Thinking, ..rules(None, &functions) };
    let tools = [tool("weather", &functions[0].1), tool("other", &json("{}"))];
    walks(&rules, 30, |walk| {
        let message = parse(walk, &rules, &tools);
        assert_eq!(message.calls.len(), 1, "{:?}", walk.text);
        assert_eq!(message.calls[0].name, "weather");
        check_weather(&message.calls[0].arguments);
        let end = walk.ids.iter().filter(|id| stops(&NANO.0).contains(id)).count();
        assert_eq!(end, 0, "nothing can follow, so no token is spent on the end");
    });
}

/// Strict functions that need not be called: text as it comes, and calls that keep to their schemas.
#[test]
fn text_before_strict_calls() {
    let (tokenizer, constrainer) = &*NANO;
    let functions = [("weather", json(WEATHER), true)];
    let rules = rules(None, &functions);
    let tools = [tool("weather", &functions[0].1)];
    let guide = constrainer.guide(&rules).expect("a guide");
    let mut calls = 0;
    for seed in 0..60 {
        let mut guide = guide.clone();
        let prefix = tokenizer.encode("Let me look <b>\n<function=weather>\n{\n");
        let open = tokenizer.token_id("<tool_call>").expect("a token");
        for id in prefix.iter().chain([&open]) {
            assert!(allowed(&mut guide, tokenizer).contains(id));
            guide.accept(*id).expect("free");
        }
        let rest = walk(guide, tokenizer, seed, 300);
        if rest.complete {
            let text = format!("{}<tool_call>{}", tokenizer.decode(&prefix, true), rest.text);
            let message = parse(&Walk { text, ..rest }, &rules, &tools);
            assert_eq!(message.content, "Let me look <b>\n<function=weather>\n{");
            message.calls.iter().for_each(|call| check_weather(&call.arguments));
            calls += message.calls.len();
        }
    }
    assert!(calls > 20, "{calls} calls");
    let mut ends = guide.clone();
    assert!(stops(tokenizer).iter().all(|stop| allowed(&mut ends, tokenizer).contains(stop)), "text may end");
}

/// An answer in JSON beside tools: either, and a call that a string spells is none.
#[test]
fn json_or_calls() {
    let schema = json(r#"{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}"#);
    let functions = [("weather", json(WEATHER), false)];
    let rules = rules(Some(&schema), &functions);
    let tools = [tool("weather", &functions[0].1)];
    let (mut answers, mut calls) = (0, 0);
    walks(&rules, 60, |walk| {
        let message = parse(walk, &rules, &tools);
        if message.calls.is_empty() {
            assert!(text(&json(&message.content), "a").is_some(), "{:?}", walk.text);
            answers += 1;
        } else {
            assert_eq!(message.content, "", "{:?}", walk.text);
            calls += 1;
        }
    });
    assert!(answers > 0 && calls > 0, "{answers} answers, {calls} calls");
    let text = r#"{"a": "<tool_call> <function=weather> </function> </tool_call>"}"#;
    let walk = Walk { text: text.to_owned(), ids: Vec::new(), complete: true };
    let message = parse(&walk, &rules, &tools);
    assert_eq!((message.content.as_str(), message.calls.len()), (text, 0));
}

/// Only a line that begins with the closing tag ends a value, whatever else the value spells.
#[test]
fn values_may_spell_markup() {
    let tools = [tool("f", &json(r#"{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}"#))];
    let value = "x</parameter>\n<parameter=b>\n</function>\n</tool_call>\n <tool_call>\n </parameter>";
    let text =
        format!("<tool_call>\n<function=f>\n<parameter=a>\n{value}\n</parameter>\n</function>\n</tool_call>");
    let functions = [("f", json(r#"{"properties": {"a": {"type": "string"}}, "required": ["a"]}"#), true)];
    let rules = Rules { required: true, ..rules(None, &functions) };
    let (tokenizer, constrainer) = &*NANO;
    let mut guide = constrainer.guide(&rules).expect("a guide");
    let mut ids = Vec::new();
    for (at, part) in text.split_inclusive("<tool_call>").enumerate() {
        // The first tag is a token; those in the value are spelled.
        ids.extend(if at == 0 { tokenizer.encode(part) } else { Vec::new() });
        if at > 0 {
            break;
        }
    }
    let inner = &text["<tool_call>".len()..text.len() - "</tool_call>".len()];
    for letter in inner.bytes() {
        let id = (0..tokenizer.size() as u32)
            .map(TokenId)
            .find(|id| tokenizer.token_bytes(*id) == Some(&[letter]));
        ids.push(id.expect("a token for every byte"));
    }
    ids.extend(tokenizer.encode("</tool_call>"));
    for id in &ids {
        guide.accept(*id).unwrap_or_else(|error| panic!("{error}"));
    }
    let walk = Walk { text: tokenizer.decode(&ids, true), ids, complete: true };
    assert_eq!(walk.text, text);
    let message = parse(&walk, &rules, &tools);
    assert_eq!(message.calls.len(), 1);
    assert_eq!(json(&message.calls[0].arguments).get("a").and_then(Value::as_str), Some(value));
}

fn fault(schema: &str, tool: bool) -> RulesError {
    let schema = json(schema);
    let functions = [("f", schema.clone(), true)];
    let rules =
        if tool { Rules { required: true, ..rules(None, &functions) } } else { rules(Some(&schema), &[]) };
    NANO.1.guide(&rules).expect_err("it cannot be enforced")
}

#[test]
fn faults_name_their_place() {
    for (schema, path) in [
        (r#"{"type": "object", "properties": {"a": {"not": {}}}}"#, "properties.a"),
        (
            r#"{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "strin"}}}}"#,
            "properties.a.items",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)"}}}"#,
            "properties.a",
        ),
        (r##"{"$ref": "#/$defs/none"}"##, ""),
        (r#"{"type": "object", "properties": {"a": {"uniqueItems": true}}}"#, "properties.a"),
        (r#"{"anyOf": [{"type": "string"}, {"type": "object", "if": {}}]}"#, "anyOf[1]"),
        (r#"{"type": "object", "required": 3}"#, ""),
        (r#"{"type": "string", "minLength": 5, "maxLength": 2}"#, ""),
    ] {
        match fault(schema, false) {
            RulesError::Answer(error) => assert_eq!(error.path, path, "{schema}: {error}"),
            other => panic!("{schema}: {other}"),
        }
    }
    for (schema, path) in [
        (
            r#"{"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}"#,
            "properties.a.format",
        ),
        (r#"{"type": "object", "patternProperties": {}}"#, "patternProperties"),
        (r#"{"type": "array"}"#, "type"),
        (r#"{"type": "object", "required": ["a"]}"#, "required.a"),
        (
            r#"{"type": "object", "properties": {"a": {"type": "string", "pattern": "\\bx"}}}"#,
            "properties.a.pattern",
        ),
        (r#"{"type": "object", "properties": {"a>": {"type": "string"}}}"#, "properties.a>"),
        (r#"{"type": "object", "properties": {"a": {"type": "integer", "not": {}}}}"#, "properties.a"),
        (r##"{"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}"##, "properties.a"),
    ] {
        match fault(schema, true) {
            RulesError::Function { index: 0, error } => {
                assert!(error.path.starts_with(path), "{schema}: {error}");
            }
            other => panic!("{schema}: {other}"),
        }
    }
    let rules = Rules { required: true, ..rules(None, &[]) };
    assert_eq!(NANO.1.guide(&rules).expect_err("nothing to call"), RulesError::NothingToCall);
}

/// Patterns and lengths of raw text.
#[test]
fn strings_of_parameters() {
    let schema = r#"{"type": "object", "required": ["code", "short", "choice"], "properties": {
        "code": {"type": "string", "pattern": "^[A-Z]{2}-\\d+$"}, "short": {"type": "string", "maxLength": 3},
        "choice": {"anyOf": [{"const": ""}, {"const": "x\ny"}, {"type": "array", "items": {"type": "integer"}}]}}}"#;
    let functions = [("f", json(schema), true)];
    let rules = Rules { required: true, parallel: false, ..rules(None, &functions) };
    let tools = [tool("f", &functions[0].1)];
    walks(&rules, 30, |walk| {
        let message = parse(walk, &rules, &tools);
        let value = json(&message.calls[0].arguments);
        let code = text(&value, "code").expect("a code");
        let (letters, digits) = code.split_once('-').expect("a dash");
        assert!(letters.len() == 2 && letters.bytes().all(|letter| letter.is_ascii_uppercase()), "{code}");
        assert!(!digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()), "{code}");
        assert!(text(&value, "short").is_some_and(|short| short.chars().count() <= 3), "{:?}", walk.text);
        match value.get("choice") {
            Some(Value::String(choice)) => assert!(choice.is_empty() || choice == "x\ny", "{choice:?}"),
            Some(Value::Array(items)) => assert!(items.iter().all(|item| matches!(item, Value::Integer(_)))),
            other => panic!("{other:?}"),
        }
    });
}

/// What cannot be enforced of a function that is not strict is left to the model; the others keep to their schemas.
#[test]
fn loose_functions_are_guided_where_they_can_be() {
    let odd =
        r#"{"type": "object", "properties": {"tags": {"type": "array", "items": {"uniqueItems": true}}}}"#;
    let functions = [("odd", json(odd), false), ("weather", json(WEATHER), false)];
    let rules = Rules { required: true, parallel: false, ..rules(None, &functions) };
    let tools = [tool("odd", &functions[0].1), tool("weather", &functions[1].1)];
    let mut called = [0, 0];
    walks(&rules, 30, |walk| {
        let message = parse(walk, &rules, &tools);
        let call = &message.calls[0];
        called[usize::from(call.name == "weather")] += 1;
        if call.name == "weather" {
            check_weather(&call.arguments);
        }
    });
    assert!(called.iter().all(|count| *count > 0), "{called:?}");
    let functions = [("odd", json(odd), true)];
    let error = NANO.1.guide(&Rules {
        functions: vec![Function { name: "odd", parameters: Some(&functions[0].1), strict: true }],
        ..rules
    });
    assert!(matches!(error, Err(RulesError::Function { index: 0, .. })), "{error:?}");
}

#[test]
fn rules_that_any_text_keeps_are_told() {
    let functions = [("f", json("{}"), false)];
    assert!(rules(None, &functions).are_free());
    assert!(!Rules { required: true, ..rules(None, &functions) }.are_free());
    let strict = [("f", json("{}"), true)];
    assert!(!rules(None, &strict).are_free());
}

/// The time of a mask, with the full-size vocabulary where the environment says where that is: an answer in JSON and a
/// call that writes a source file, token by token.
#[test]
fn masks_are_cheap() {
    let schema = json(
        r#"{"type": "object", "required": ["items"], "additionalProperties": false, "properties": {
        "items": {"type": "array", "items": {"type": "object", "additionalProperties": false,
            "properties": {"id": {"type": "integer"}, "text": {"type": "string"}}, "required": ["id", "text"]}}}}"#,
    );
    let item = |id| format!(r#"{{"id": {id}, "text": "The {id}th of many, which has \"quotes\" and é."}}"#);
    let answer = format!(r#"{{"items": [{}]}}"#, (0..40).map(item).collect::<Vec<_>>().join(", "));
    let write = json(
        r#"{"properties": {"path": {"type": "string"}, "text": {"type": "string"}}, "required": ["path", "text"]}"#,
    );
    let functions = [("write", write, true)];
    let source = include_str!("messages.rs");
    let call = format!(
        "<tool_call>\n<function=write>\n<parameter=path>\n/tmp/a.rs\n</parameter>\n<parameter=text>\n{source}\n</parameter>\n\
         </function>\n</tool_call>"
    );
    let full = std::env::var_os("LILY_QWEN36_DIR").map(|folder| load(Path::new(&folder)));
    if full.is_none() {
        eprintln!("skipped for the full-size vocabulary: LILY_QWEN36_DIR is not set");
    }
    let models = [("nano", Some(&*NANO)), ("full", full.as_ref())];
    for (name, model) in models {
        let Some((tokenizer, constrainer)) = model else { continue };
        for (what, text, rules) in [
            ("json", &answer, rules(Some(&schema), &[])),
            ("call", &call, Rules { required: true, parallel: false, ..rules(None, &functions) }),
        ] {
            let begun = Instant::now();
            let mut guide = constrainer.guide(&rules).expect("a guide");
            let compiled = begun.elapsed();
            let ids = tokenizer.encode(text);
            let mut times = Vec::with_capacity(ids.len());
            for id in &ids {
                let mut words = vec![u32::MAX; tokenizer.size().div_ceil(32)];
                let begun = Instant::now();
                guide.mask(&mut words).expect("a mask");
                guide.accept(*id).expect("allowed");
                times.push(begun.elapsed());
                let allowed = words[id.0 as usize / 32] & (1 << (id.0 % 32)) != 0;
                assert!(allowed, "{name} {what}: {:?} is not allowed", tokenizer.decode(&[*id], false));
            }
            assert!(guide.is_complete(), "{name} {what}");
            let mean = times.iter().sum::<Duration>() / times.len() as u32;
            times.sort_unstable();
            let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
            eprintln!(
                "{name} {what}: {} tokens, guide in {compiled:?}; mask and accept: mean {mean:?}, median {median:?}, most {most:?}",
                ids.len()
            );
            // A step of the full-size model takes milliseconds; an unoptimised test on a busy machine gets room.
            assert!(mean < Duration::from_millis(5), "{name} {what}: {mean:?}");
        }
    }
}

/// Whatever a request calls a schema, there is a guide or an error, in bounded time.
#[test]
fn any_schema_is_taken_or_refused() {
    use proptest::prelude::*;
    let keys = [
        "type",
        "properties",
        "items",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
        "required",
        "pattern",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "multipleOf",
        "additionalProperties",
        "$ref",
        "$defs",
        "format",
        "not",
        "prefixItems",
        "minItems",
        "maxItems",
        "patternProperties",
        "a",
        "b>",
        "",
    ];
    let texts = [
        "string",
        "object",
        "array",
        "integer",
        "#",
        "#/$defs/a",
        "^a.*b$",
        "(?=x)",
        "[",
        "date",
        "a\n</parameter>\n",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3..1000_i64).prop_map(Value::from),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
    ];
    let schema = leaf.prop_recursive(4, 24, 4, move |inner| {
        let fields = prop::collection::vec((prop::sample::select(keys.to_vec()), inner.clone()), 0..4);
        prop_oneof![
            3 => fields.prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    });
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(schema in schema)| {
        let begun = Instant::now();
        let functions = [("f", schema.clone(), true)];
        for rules in [rules(Some(&schema), &[]), Rules { required: true, ..rules(None, &functions) }] {
            if let Ok(mut guide) = NANO.1.guide(&rules) {
                prop_assert!(!allowed(&mut guide, &NANO.0).is_empty(), "{rules:?}");
            }
        }
        prop_assert!(begun.elapsed() < Duration::from_secs(10), "{:?} for {schema:?}", begun.elapsed());
    });
}
