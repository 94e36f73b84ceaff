//! Pairs of schemas, one with a finite value and one without; what is another's to find; large ones.

use crate::constraint::soundness::check;
use serde_json::{Value, json};

fn object(fields: &Value) -> Value {
    let mut object = json!({"type": "object"});
    for (key, value) in fields.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

fn array(fields: &Value) -> Value {
    let mut array = object(fields);
    array["type"] = "array".into();
    array
}

/// Schemas with `#` at a place that may be one, and schemas that differ in what makes an end.
#[test]
fn every_way_to_need_oneself() {
    let root = || json!({"$ref": "#"});
    let n = || json!({"n": root()});
    for (endless, finite) in [
        (object(&json!({"properties": n(), "required": ["n"]})), object(&json!({"properties": n()}))),
        (
            object(&json!({"additionalProperties": root(), "required": ["n"]})),
            object(&json!({"additionalProperties": root()})),
        ),
        (
            object(&json!({"additionalProperties": root(), "minProperties": 1})),
            object(&json!({"additionalProperties": root(), "minProperties": 1, "properties": {"a": true}})),
        ),
        (
            object(
                &json!({"additionalProperties": false, "properties": {"a": root(), "b": root()}, "minProperties": 1}),
            ),
            object(
                &json!({"additionalProperties": false, "properties": {"a": root(), "b": {"type": "null"}}, "minProperties": 1}),
            ),
        ),
        (
            object(
                &json!({"additionalProperties": false, "properties": {"a": root(), "b": true}, "minProperties": 2}),
            ),
            object(
                &json!({"additionalProperties": false, "properties": {"a": true, "b": true}, "minProperties": 2}),
            ),
        ),
        (
            object(&json!({"patternProperties": {"^n": root()}, "required": ["no"]})),
            object(&json!({"patternProperties": {"^n": root()}, "required": ["yes"]})),
        ),
        (
            object(
                &json!({"patternProperties": {"^n": root()}, "additionalProperties": false, "minProperties": 1}),
            ),
            object(
                &json!({"patternProperties": {"^n": root(), "^m": true}, "additionalProperties": false, "minProperties": 1}),
            ),
        ),
        (array(&json!({"items": root(), "minItems": 1})), array(&json!({"items": root()}))),
        (array(&json!({"prefixItems": [root()], "minItems": 1})), array(&json!({"prefixItems": [root()]}))),
        (
            array(&json!({"prefixItems": [true], "items": root(), "minItems": 2})),
            array(&json!({"prefixItems": [true], "items": root(), "minItems": 1})),
        ),
        (
            array(&json!({"items": [true, root()], "minItems": 2})),
            array(&json!({"items": [true, root()], "minItems": 1})),
        ),
        (
            array(&json!({"items": [true], "additionalItems": root(), "minItems": 2})),
            array(&json!({"items": [true], "additionalItems": root(), "minItems": 1})),
        ),
        // What one schema requires, another describes.
        (
            object(&json!({"required": ["n"], "allOf": [{"properties": n()}]})),
            object(&json!({"required": ["m"], "allOf": [{"properties": n()}]})),
        ),
        (
            json!({"allOf": [object(&json!({"required": ["n"]})), {"properties": n()}]}),
            json!({"allOf": [{"required": ["n"]}, {"properties": n()}]}),
        ),
        (
            array(&json!({"minItems": 1, "$ref": "#/$defs/a", "$defs": {"a": {"items": root()}}})),
            array(&json!({"minItems": 1, "$ref": "#/$defs/a", "$defs": {"a": {"items": true}}})),
        ),
        // Each has an end by itself, and both together have none.
        (
            json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
                "a": object(&json!({"required": ["n"], "properties": {"n": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}})),
                "b": object(&json!({"required": ["n"], "properties": {"n": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "string"}]}}}))}}),
            json!({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
                "a": object(&json!({"required": ["n"], "properties": {"n": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}})),
                "b": object(&json!({"required": ["n"], "properties": {"n": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "string"}]}}}))}}),
        ),
        // All choices of a property lead back.
        (
            object(
                &json!({"required": ["n"], "properties": {"n": {"anyOf": [root(), array(&json!({"items": root(), "minItems": 1}))]}}}),
            ),
            object(
                &json!({"required": ["n"], "properties": {"n": {"anyOf": [root(), array(&json!({"items": root()}))]}}}),
            ),
        ),
        (
            object(&json!({"required": ["n"], "properties": {"n": {"oneOf": [root(), false]}}})),
            object(&json!({"required": ["n"], "properties": {"n": {"oneOf": [root(), {"type": "null"}]}}})),
        ),
        (
            object(
                &json!({"required": ["n"], "properties": {"n": {"type": "object", "anyOf": [root(), {"type": "null"}]}}}),
            ),
            object(
                &json!({"required": ["n"], "properties": {"n": {"type": ["object", "null"], "anyOf": [root(), {"type": "null"}]}}}),
            ),
        ),
        // Two that need each other.
        (
            json!({"$ref": "#/$defs/a", "$defs": {
                "a": object(&json!({"required": ["b"], "properties": {"b": {"$ref": "#/$defs/b"}}})),
                "b": array(&json!({"items": {"$ref": "#/$defs/a"}, "minItems": 1}))}}),
            json!({"$ref": "#/$defs/a", "$defs": {
                "a": object(&json!({"required": ["b"], "properties": {"b": {"$ref": "#/$defs/b"}}})),
                "b": array(&json!({"items": {"$ref": "#/$defs/a"}}))}}),
        ),
    ] {
        assert!(check(&finite).is_ok(), "{finite}");
        assert!(check(&endless).is_err(), "{endless}");
    }
}

#[test]
fn what_is_given_is_finite() {
    let schema = object(&json!({"required": ["n"], "properties": {"n": {"$ref": "#"}}, "enum": [{"n": 1}]}));
    assert!(check(&schema).is_ok());
}

/// A contradiction is no recursion: it is told in other words, elsewhere.
#[test]
fn contradictions_are_others_to_find() {
    for schema in [
        json!(false),
        json!({"allOf": [{"type": "string"}, {"type": "null"}]}),
        object(&json!({"required": ["n"], "properties": {"n": false}})),
        array(&json!({"minItems": 2, "maxItems": 1, "items": {"$ref": "#"}})),
        object(&json!({"required": ["n", "m"], "properties": {"n": {"$ref": "#"}, "m": false}})),
    ] {
        assert_eq!(check(&schema), Ok([].into()), "{schema}");
    }
}

/// Chains in the worst order, and choices that multiply: bounded, and the former settled.
#[test]
fn large_schemas() {
    let link =
        |k: usize| object(&json!({"required": ["n"], "properties": {"n": {"$ref": format!("#/$defs/{k}")}}}));
    for (last, ends) in [(json!({"type": "null"}), true), (json!({"$ref": "#/$defs/0"}), false)] {
        let mut definitions: serde_json::Map<String, Value> =
            (0..1000).map(|k| (k.to_string(), link(k + 1))).collect();
        definitions.insert("1000".to_owned(), object(&json!({"required": ["n"], "properties": {"n": last}})));
        let schema = json!({"$ref": "#/$defs/0", "$defs": definitions});
        assert_eq!(check(&schema).is_ok(), ends);
    }
    let choices: Vec<Value> =
        (0..30).map(|k| object(&json!({"required": ["n"], "properties": {"n": {"const": k}}}))).collect();
    let choices: Vec<Value> = (0..30).map(|_| json!({"anyOf": choices})).collect();
    let begun = std::time::Instant::now();
    assert!(check(&json!({"allOf": choices})).is_ok());
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}
