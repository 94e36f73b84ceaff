//! JSON schemas as data: their subschemas, and what is made of them before they become grammars.

use super::SchemaError;
use crate::pointer;
use crate::word::shown;
use serde_json::{Map, Value};

/// Formats of strings that grammars know. Others are annotations, as the standard has it.
const FORMATS: [&str; 11] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", "unknown"];

/// White space between the parts of a value: none, a few blanks, or a line's end and an indentation. Without a bound a
/// model may write white space for ever.
const WHITE_SPACE: &str = r"[ \t]{1,4}|\r?\n[ \t]{0,64}";

/// Where a key's value is a schema, a list of them, or a map of them.
pub(super) const SINGLE: [&str; 4] = ["items", "additionalItems", "additionalProperties", "not"];
pub(super) const LISTS: [&str; 5] = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
pub(super) const MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// A request's schema.
pub(super) fn from_request(schema: &crate::json::Value) -> Result<Value, SchemaError> {
    let mut schema = serde_json::to_value(schema).map_err(|error| SchemaError::new("", error.to_string()))?;
    if !schema.is_object() {
        return Err(SchemaError::new("", "a schema must be an object"));
    }
    simplify(&mut schema);
    Ok(schema)
}

/// Leaves out what asks for nothing.
fn simplify(schema: &mut Value) {
    if let Value::Object(fields) = schema {
        if fields.get("format").and_then(Value::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
            fields.remove("format");
        }
        if fields.get("uniqueItems") == Some(&Value::Bool(false)) {
            fields.remove("uniqueItems");
        }
        nullable(fields);
        // Settings of the grammar are not for requests to make.
        fields.remove("x-guidance");
        for (key, value) in fields.iter_mut() {
            match value {
                Value::Object(map) if MAPS.contains(&key.as_str()) => map.values_mut().for_each(simplify),
                Value::Array(list) if LISTS.contains(&key.as_str()) => list.iter_mut().for_each(simplify),
                value if SINGLE.contains(&key.as_str()) => simplify(value),
                _ => {}
            }
        }
    }
}

/// `nullable: true` beside types is OpenAPI's older way to add one.
fn nullable(fields: &mut Map<String, Value>) {
    if fields.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    let null = || Value::String("null".to_owned());
    match fields.get_mut("type") {
        Some(Value::Array(types)) if !types.contains(&null()) => types.push(null()),
        Some(kind @ Value::String(_)) if *kind != null() => *kind = Value::Array(vec![kind.take(), null()]),
        _ => {}
    }
}

/// The subschemas of a schema, each with its path.
pub(super) fn children(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match value {
            Value::Object(map) if MAPS.contains(&key.as_str()) => {
                found.extend(map.iter().map(|(name, child)| (format!("{key}.{}", shown(name)), child)));
            }
            Value::Array(list) if LISTS.contains(&key.as_str()) => {
                found.extend(list.iter().enumerate().map(|(at, child)| (format!("{key}[{at}]"), child)));
            }
            value if SINGLE.contains(&key.as_str()) => found.push((key.clone(), value)),
            _ => {}
        }
    }
    found
}

/// A path and a step from there.
pub(super) fn join(path: &str, step: &str) -> String {
    match (path, step) {
        ("", step) => step.to_owned(),
        (path, "") => path.to_owned(),
        (path, step) => format!("{path}.{step}"),
    }
}

/// A part of a flat schema by itself: with the definitions of the root that it refers to, and with the settings of its
/// grammar.
pub(super) fn standalone(schema: &Value, root: &Value) -> Value {
    let mut fields = match schema {
        Value::Object(fields) => fields.clone(),
        // `true` and `false`.
        other => Map::from_iter([("allOf".to_owned(), Value::Array(vec![other.clone()]))]),
    };
    let mut open = if std::ptr::eq(schema, root) { Vec::new() } else { vec![schema] };
    while let Some(schema) = open.pop() {
        open.extend(children(schema).into_iter().map(|(_, child)| child));
        let place = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|target| target.strip_prefix("#/")?.split_once('/'));
        let Some((key, name)) = place else { continue };
        let Some(target) = root.get(key).and_then(|definitions| definitions.get(name)) else { continue };
        let definitions = fields.entry(key).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(definitions) = definitions
            && !definitions.contains_key(name)
        {
            definitions.insert(name.to_owned(), target.clone());
            open.push(target);
        }
    }
    fields.insert("x-guidance".to_owned(), serde_json::json!({ "whitespace_pattern": WHITE_SPACE }));
    Value::Object(fields)
}

/// What a reference within the root leads to.
pub(super) fn resolve<'a>(reference: &str, root: &'a Value) -> Option<&'a Value> {
    let steps = pointer::steps(reference)?;
    let target = steps.iter().try_fold(root, |value, step| match value {
        Value::Array(items) => items.get(pointer::index(step)?),
        value => value.get(step),
    });
    // An empty key is more likely meant for no key.
    target.or_else(|| (reference == "#/").then_some(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_asks_for_nothing_goes() {
        let schema = crate::json::Value::parse(
            r#"{"x-guidance": {}, "properties": {"format": {"format": "int32"}, "b": {"format": "date"},
                "uniqueItems": {"items": {"uniqueItems": false}}}}"#,
        );
        let simple = from_request(&schema.unwrap()).unwrap();
        assert_eq!(
            simple,
            json!({"properties": {"format": {}, "b": {"format": "date"}, "uniqueItems": {"items": {}}}})
        );
        assert!(from_request(&crate::json::Value::Bool(true)).is_err());
        let schema = crate::json::Value::parse(
            r#"{"nullable": true, "type": "object", "items": {"type": ["null", "array"], "nullable": true}}"#,
        );
        let simple = from_request(&schema.unwrap()).unwrap();
        assert_eq!(
            (&simple["type"], &simple["items"]["type"]),
            (&json!(["object", "null"]), &json!(["null", "array"]))
        );
    }

    #[test]
    fn a_part_has_the_definitions_it_needs() {
        let root = json!({"$defs": {"a": {"items": {"$ref": "#/definitions/b"}}, "c": {"$ref": "#/$defs/a"}},
            "definitions": {"b": {"$ref": "#/$defs/a"}}});
        let mut part = standalone(&json!({"not": {"$ref": "#/$defs/a"}}), &root);
        assert!(part.as_object_mut().expect("an object").remove("x-guidance").is_some());
        let expected = json!({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"items": {"$ref": "#/definitions/b"}}},
            "definitions": {"b": {"$ref": "#/$defs/a"}}});
        assert_eq!(part, expected);
        assert_eq!(standalone(&root, &root)["$defs"], root["$defs"]);
    }

    #[test]
    fn subschemas_and_references() {
        let schema = json!({"properties": {"a": {"type": "null"}}, "anyOf": [true], "items": {"$ref": "#/$defs/x"},
            "$defs": {"x": {"const": 1}}, "enum": [{"items": 1}]});
        let paths: Vec<String> = children(&schema).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["properties.a", "anyOf[0]", "items", "$defs.x"]);
        assert_eq!(resolve("#/$defs/x", &schema), Some(&json!({"const": 1})));
        assert_eq!(resolve("#/anyOf/0", &schema), Some(&Value::Bool(true)));
        assert_eq!((resolve("#", &schema), resolve("#/", &schema)), (Some(&schema), Some(&schema)));
        assert_eq!(resolve("#/nowhere", &schema), None);
        assert_eq!(resolve("http://elsewhere", &schema), None);
    }
}
