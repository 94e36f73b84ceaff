//! Answers in JSON, behind thinking and without.

use crate::walk::{NANO, allowed, json, parse, rules, stops, text, walks};
use lily_text::TokenId;
use lily_text::constraint::Rules;
use lily_text::json::Value;
use lily_text::parser::Start;

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
