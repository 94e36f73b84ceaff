//! Calls: required, named, and of strict functions.

use crate::walk::{
    NANO, WEATHER, Walk, allowed, check_weather, json, parse, rules, stops, text, tool, walk, walks,
};
use lily_text::TokenId;
use lily_text::constraint::{Function, Rules, RulesError};
use lily_text::json::Value;
use lily_text::parser::Start;

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

/// A schema of JSON that is none of raw text, and one that is wrong: its function's arguments are free, those of the
/// others are not.
#[test]
fn loose_functions_beyond_the_limits_are_free() {
    for odd in [
        r#"{"type": "object", "properties": {"a": {"type": "string", "minLength": 20000}}, "required": ["a"]}"#,
        r#"{"type": "object", "properties": {"a": {"type": "string"}}, "required": "a"}"#,
        r#"{"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["null"]}}, "required": ["a"]}"#,
    ] {
        let functions = [("odd", json(odd), false), ("weather", json(WEATHER), false)];
        let rules = Rules { required: true, parallel: false, ..rules(None, &functions) };
        let tools = [tool("odd", &functions[0].1), tool("weather", &functions[1].1)];
        walks(&rules, 10, |walk| {
            let call = &parse(walk, &rules, &tools).calls[0];
            if call.name == "weather" {
                check_weather(&call.arguments);
            }
        });
    }
}

/// What the types of a parameter say counts for how its text is read, whatever its constants are.
#[test]
fn constants_are_of_their_type() {
    let schema = r#"{"type": "object", "required": ["a", "b", "c"], "additionalProperties": false, "properties": {
        "a": {"type": ["string", "null"], "enum": ["null", "x", 3]}, "b": {"type": ["integer", "null"], "enum": ["y", 2, null]},
        "c": {"type": ["string", "array"], "enum": ["[1]", "z", {}]}}}"#;
    let functions = [("f", json(schema), true)];
    let rules = Rules { required: true, parallel: false, ..rules(None, &functions) };
    let tools = [tool("f", &functions[0].1)];
    let mut seen = std::collections::BTreeSet::new();
    walks(&rules, 20, |walk| {
        seen.insert(parse(walk, &rules, &tools).calls[0].arguments.replace(' ', ""));
    });
    let expected = ["2", "null"].map(|b| format!(r#"{{"a":"x","b":{b},"c":"z"}}"#));
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn rules_that_any_text_keeps_are_told() {
    let functions = [("f", json("{}"), false)];
    assert!(rules(None, &functions).are_free());
    assert!(!Rules { required: true, ..rules(None, &functions) }.are_free());
    let strict = [("f", json("{}"), true)];
    assert!(!rules(None, &strict).are_free());
}
