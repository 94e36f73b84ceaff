//! References: within an answer's schema, and within the schema of each tool's arguments, which is a root of its own.

use crate::walk::{NANO, Walk, json, parse, rules, tool, walks};
use lily_text::constraint::{Rules, RulesError};
use lily_text::json::Value;

/// `#` is the arguments themselves, `#/properties/value` a parameter.
const LIST: &str = r##"{"type": "object", "required": ["value", "next"], "additionalProperties": false, "properties": {
    "value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    "same": {"$ref": "#/properties/value"}, "all": {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}}}"##;

fn is_list(value: &Value) -> bool {
    let integer = |value: &Value| matches!(value, Value::Integer(_));
    value.get("value").is_some_and(integer)
        && value.get("next").is_some_and(|next| *next == Value::Null || is_list(next))
        && value.get("same").is_none_or(integer)
        && value.get("all").is_none_or(|all| all.as_array().is_some_and(|all| all.iter().all(is_list)))
        && value.as_object().is_some_and(|fields| {
            fields.iter().all(|(name, _)| ["value", "next", "same", "all"].contains(&name.as_str()))
        })
}

/// Every call of some functions, as its name and arguments.
fn calls(functions: &[(&str, Value, bool)], wanted: usize, mut check: impl FnMut(&str, &Value)) {
    let tools: Vec<Value> = functions.iter().map(|(name, schema, _)| tool(name, schema)).collect();
    let rules = Rules { required: true, parallel: false, ..rules(None, functions) };
    walks(&rules, wanted, |walk: &Walk| {
        let message = parse(walk, &rules, &tools);
        assert_eq!(message.calls.len(), 1, "{:?}", walk.text);
        check(&message.calls[0].name, &json(&message.calls[0].arguments));
    });
}

#[test]
fn the_root_of_arguments() {
    for strict in [true, false] {
        let mut nested = 0;
        calls(&[("f", json(LIST), strict)], 40, |_, arguments| {
            assert!(is_list(arguments), "{arguments:?}");
            nested += usize::from(arguments.get("next") != Some(&Value::Null));
        });
        assert!(nested > 0, "a list in a list");
    }
}

#[test]
fn the_root_of_an_answer() {
    let schema = json(LIST);
    let rules = rules(Some(&schema), &[]);
    walks(&rules, 40, |walk| assert!(is_list(&json(&walk.text)), "{}", walk.text));
}

/// Definitions of the same name in several tools, and at each place that generators of schemas give them.
#[test]
fn definitions_are_a_tools_own() {
    let with = |key: &str, kind: &str| {
        json(&format!(
            r##"{{"type": "object", "required": ["a"], "properties": {{"a": {{"type": "array", "minItems": 1, "maxItems": 2,
            "items": {{"$ref": "#/{key}/Item"}}}}}}, "{key}": {{"Item": {{"type": "{kind}"}}}}}}"##
        ))
    };
    let referring = json(
        r##"{"$ref": "#/definitions/A~1B%20C", "definitions": {"A/B C": {"type": "object", "required": ["a"], "properties":
            {"a": {"$ref": "#/definitions/Items"}}}, "Items": {"type": "array", "minItems": 1, "maxItems": 2,
            "items": {"$ref": "#/definitions/Item"}}, "Item": {"type": "null"}}}"##,
    );
    for strict in [true, false] {
        let functions = [
            ("integers", with("$defs", "integer"), strict),
            ("booleans", with("$defs", "boolean"), strict),
            ("numbers", with("definitions", "number"), strict),
            ("nulls", referring.clone(), strict),
        ];
        let mut called = [0; 4];
        calls(&functions, 60, |name, arguments| {
            let items = arguments.get("a").and_then(Value::as_array).expect("a list");
            assert!((1..=2).contains(&items.len()), "{arguments:?}");
            let (index, fits): (usize, fn(&Value) -> bool) = match name {
                "integers" => (0, |item| matches!(item, Value::Integer(_))),
                "booleans" => (1, |item| matches!(item, Value::Bool(_))),
                "numbers" => (2, |item| matches!(item, Value::Integer(_) | Value::Float(_))),
                _ => (3, |item| *item == Value::Null),
            };
            assert!(items.iter().all(fits), "{name}: {arguments:?}");
            called[index] += 1;
        });
        assert!(called.iter().all(|count| *count > 0), "{called:?}");
    }
}

/// Arguments are an object, whatever else a schema says that they may be.
#[test]
fn arguments_that_may_be_null() {
    for kind in [r#""type": "object", "nullable": true"#, r#""type": ["null", "object"]"#, r#""title": "f""#]
    {
        let schema =
            json(&format!(r#"{{{kind}, "required": ["a"], "properties": {{"a": {{"type": "integer"}}}}}}"#));
        calls(&[("f", schema, true)], 5, |_, arguments| {
            assert!(matches!(arguments.get("a"), Some(Value::Integer(_))), "{arguments:?}");
        });
    }
}

/// A branch that never comes to an end is not taken; an answer without it is held to the rest.
#[test]
fn endless_branches_are_left_out() {
    let schema = r##"{"type": "object", "required": ["a"], "additionalProperties": false, "properties": {"a": {"anyOf": [
        {"type": "integer"}, {"$ref": "#/$defs/endless"}]}, "b": {"$ref": "#/$defs/endless"}, "c": {"type": "boolean"}},
        "$defs": {"endless": {"type": "object", "additionalProperties": {"$ref": "#/$defs/endless"}, "minProperties": 1}}}"##;
    let check = |value: &Value| {
        assert!(matches!(value.get("a"), Some(Value::Integer(_))) && value.get("b").is_none(), "{value:?}");
    };
    let schema = json(schema);
    walks(&rules(Some(&schema), &[]), 30, |walk| check(&json(&walk.text)));
    calls(&[("f", schema.clone(), true)], 30, |_, arguments| check(arguments));
}

#[test]
fn what_leads_nowhere_has_its_place() {
    for (reference, answer) in [("#/$defs/none", "$ref"), ("#name", "$ref"), ("http://elsewhere/x", "$ref")] {
        let schema = json(&format!(
            r#"{{"type": "object", "properties": {{"a": {{"items": {{"$ref": "{reference}"}}}}}}}}"#
        ));
        let place = format!("properties.a.items.{answer}");
        match NANO.1.guide(&rules(Some(&schema), &[])).expect_err("nowhere") {
            RulesError::Answer(error) => assert_eq!(error.path, place, "{error}"),
            other => panic!("{other}"),
        }
        let functions = [("f", schema, true)];
        match NANO.1.guide(&Rules { required: true, ..rules(None, &functions) }).expect_err("nowhere") {
            RulesError::Function { index: 0, error } => assert_eq!(error.path, place, "{error}"),
            other => panic!("{other}"),
        }
    }
}

/// Recursion of the grammar's maker, as deep as a request can make it, stays within its stack.
#[test]
fn deep_schemas_are_taken_or_refused() {
    let chain = |links: usize, last: &str| {
        let link = |k: usize| {
            format!(
                r##""{k}": {{"type": "object", "required": ["n"], "properties": {{"n": {{"$ref": "#/$defs/{}"}}}}}}"##,
                k + 1
            )
        };
        let links: Vec<String> = (0..links).map(link).collect();
        json(&format!(
            r##"{{"type": "object", "properties": {{"a": {{"$ref": "#/$defs/0"}}}}, "$defs": {{{}, "{}": {last}}}}}"##,
            links.join(", "),
            links.len()
        ))
    };
    let wide = |count: usize| {
        let properties: Vec<String> = (0..count).map(|k| format!(r#""k{k}": {{"type": "null"}}"#)).collect();
        json(&format!(r#"{{"type": "object", "properties": {{{}}}}}"#, properties.join(", ")))
    };
    for (schema, taken) in [
        (chain(900, r#"{"type": "null"}"#), true),
        (chain(3_000, r#"{"type": "null"}"#), false),
        (wide(1_000), true),
        (wide(5_000), false),
    ] {
        match NANO.1.guide(&rules(Some(&schema), &[])) {
            Ok(_) => assert!(taken),
            Err(error) => assert!(!taken && error.to_string().contains("more than 2048 schemas"), "{error}"),
        }
    }
    // Tools that are held to their schemas share a limit; one that need not be is free beyond it.
    let tools: Vec<(String, Value)> = (0..5).map(|k| (format!("f{k}"), wide(2_000))).collect();
    let functions: Vec<(&str, Value, bool)> =
        tools.iter().map(|(name, schema)| (name.as_str(), schema.clone(), true)).collect();
    match NANO.1.guide(&Rules { required: true, ..rules(None, &functions) }) {
        Err(RulesError::Function { index: 4, error }) => {
            assert!(error.to_string().contains("more than 8192 objects together"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}
