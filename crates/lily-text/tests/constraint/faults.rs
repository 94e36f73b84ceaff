//! What cannot be held to, and where it stands.

use crate::walk::{NANO, allowed, json, rules};
use lily_text::constraint::{Rules, RulesError};
use lily_text::json::Value;
use std::time::{Duration, Instant};

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
        (r##"{"$ref": "#/$defs/none"}"##, "$ref"),
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
        (r#"{"type": "object", "properties": {"a>": {"type": "string"}}}"#, "properties.…"),
        (r#"{"type": "object", "required": "a", "properties": {"a": {"type": "string"}}}"#, "required"),
        (r#"{"type": "object", "required": [1]}"#, "required"),
        (
            r#"{"type": "object", "properties": {"b": {}, "a": {"type": "string", "minLength": 20000}}}"#,
            "properties.a",
        ),
        (
            r#"{"type": "object", "required": ["a"], "properties":
                {"a": {"type": ["string", "null"], "enum": ["null", " None "]}}}"#,
            "properties.a",
        ),
        (r#"{"type": "object", "properties": {"a": {"type": "string", "enum": [1]}}}"#, "properties.a"),
        (r#"{"type": "object", "properties": {"a": {"type": "integer", "const": 1.5}}}"#, "properties.a"),
        (r#"{"type": "object", "properties": {"a": {"type": ["string", 3]}}}"#, "properties.a"),
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

/// Reasons are in the words of a schema's writer, not of the library behind.
#[test]
fn reasons_name_what_can_be_done() {
    for (schema, tool, reason) in [
        (
            r#"{"oneOf": [{"type": "integer"}, {"type": "number"}]}"#,
            false,
            "oneOf cannot be enforced where its choices may overlap; use anyOf",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"$ref": "http://elsewhere/x"}}}"#,
            false,
            "a $ref must lead to a place within this schema (#/$defs/NAME)",
        ),
        (
            r#"{"type": "object", "properties": {"x": 3}}"#,
            true,
            "at properties.x: a schema must be an object, true or false",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"not": {}, "if": {}}}}"#,
            false,
            "at properties.a: if, not cannot be enforced",
        ),
        (
            r#"{"type": "array", "items": {"type": "se\u0007cret"}}"#,
            false,
            "at items: type must be string, number",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}"#,
            true,
            "at properties.a.pattern: cannot be read as a regular expression",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "string", "pattern": "(?!x)"}}}"#,
            true,
            "looking around nowhere",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "string", "minLength": 20000}}}"#,
            true,
            "at properties.a: it is too complex",
        ),
        (r#"{"type": "string", "pattern": "(?=x)"}"#, false, "a pattern must not look around"),
        (
            r#"{"type": "string", "pattern": "[secret"}"#,
            false,
            "the pattern cannot be read as a regular expression",
        ),
        (r#"{"type": "object", "required": "secret"}"#, false, "required has a value of the wrong type"),
        (r#"{"type": "object", "properties": ["secret"]}"#, false, "properties must be an object"),
        (r#"{"enum": "secret"}"#, false, "enum must be an array"),
        (r#"{"type": "string", "minLength": "secret"}"#, false, "minLength has a value of the wrong type"),
        (r#"{"type": "string", "minLength": 5, "maxLength": 2}"#, false, "no value can be valid"),
        (
            r#"{"type": "string", "pattern": "^secret$", "maxLength": 2}"#,
            false,
            "no string matches the pattern",
        ),
        (r#"{"type": "integer", "minimum": 5, "maximum": 2}"#, false, "no value can be valid"),
        (
            r#"{"type": "object", "properties": {"a": {}}, "minProperties": 1}"#,
            false,
            "minProperties and maxProperties",
        ),
        (r#"{"anyOf": []}"#, false, "no value can be valid"),
    ] {
        let error = fault(schema, tool).to_string();
        assert!(error.contains(reason), "{schema}: {error}");
        assert!(!error.contains(".:"), "{schema}: {error}");
        for theirs in ["secret", "lark", "Unimplemented", "Unsatisfiable", "Expected", "Regex", "::"] {
            assert!(!error.contains(theirs), "{schema}: {error}");
        }
    }
}
