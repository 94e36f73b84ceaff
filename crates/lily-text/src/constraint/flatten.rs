//! A schema in the form that grammars are made of: whatever it refers to is a definition, and what no finite value
//! satisfies is `false`.
//!
//! A reference is a path from the root of the schema that it was written in (`#`, `#/properties/a`). A parameter's
//! grammar is made of a part of that schema, where such a path leads elsewhere, so references must not depend on where
//! they stand.

use super::schema::{LISTS, MAPS, SINGLE, from_request, resolve};
use super::{SchemaError, soundness};
use crate::pointer;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Bytes of a schema with its definitions, without text that is for readers: what is nested may be repeated by them.
const MAX_BYTES: usize = 8 << 20;

/// Where definitions stand.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Text for readers.
const PROSE: [&str; 6] = ["title", "description", "default", "examples", "example", "$comment"];

/// A request's schema, checked.
///
/// # Errors
/// What [`soundness::check`] refuses; a schema that its references make too large.
pub(super) fn prepare(schema: &crate::json::Value) -> Result<Value, SchemaError> {
    checked(&from_request(schema)?)
}

/// A schema, checked.
///
/// # Errors
/// As [`prepare`].
pub(super) fn checked(root: &Value) -> Result<Value, SchemaError> {
    let endless = soundness::check(root)?;
    flatten(root, &endless)
}

fn flatten(root: &Value, endless: &HashSet<*const Value>) -> Result<Value, SchemaError> {
    let mut flat =
        Flat { root, endless, names: HashMap::new(), taken: HashSet::new(), open: Vec::new(), bytes: 0 };
    let mut whole = flat.copy(root);
    let mut definitions = DEFINITIONS.map(|_| Map::new());
    while let Some((place, schema)) = flat.open.pop() {
        let copy = flat.copy(schema);
        definitions[place.0].insert(place.1, copy);
        if flat.bytes > MAX_BYTES {
            let reason = format!(
                "the schema has more than {MAX_BYTES} bytes, definitions counted wherever they are needed"
            );
            return Err(SchemaError::new("", reason));
        }
    }
    if let Value::Object(fields) = &mut whole {
        for (key, map) in DEFINITIONS.iter().zip(definitions).filter(|(_, map)| !map.is_empty()) {
            fields.insert((*key).to_owned(), Value::Object(map));
        }
    }
    Ok(whole)
}

/// A definition: the index of its kind, and its name.
type Place = (usize, String);

struct Flat<'a> {
    root: &'a Value,
    endless: &'a HashSet<*const Value>,
    /// What is referred to, by its address.
    names: HashMap<*const Value, Place>,
    taken: HashSet<Place>,
    /// Definitions that are still to be copied.
    open: Vec<(Place, &'a Value)>,
    bytes: usize,
}

impl<'a> Flat<'a> {
    fn copy(&mut self, schema: &'a Value) -> Value {
        if self.endless.contains(&std::ptr::from_ref(schema)) {
            return Value::Bool(false);
        }
        let Value::Object(fields) = schema else { return self.clone(schema) };
        let mut copy = Map::new();
        for (key, value) in fields {
            let name = key.as_str();
            if DEFINITIONS.contains(&name) || PROSE.contains(&name) || self.bytes > MAX_BYTES {
                continue;
            }
            self.bytes += key.len() + 4;
            let value = match value {
                Value::Object(map) if MAPS.contains(&name) => Value::Object(
                    map.iter().map(|(name, schema)| (self.name(name), self.copy(schema))).collect(),
                ),
                Value::Array(list) if LISTS.contains(&name) => {
                    Value::Array(list.iter().map(|schema| self.copy(schema)).collect())
                }
                Value::String(reference) if name == "$ref" => Value::String(self.refer(reference)),
                value if SINGLE.contains(&name) => self.copy(value),
                value => self.clone(value),
            };
            copy.insert(key.clone(), value);
        }
        Value::Object(copy)
    }

    fn name(&mut self, name: &str) -> String {
        self.bytes += name.len() + 4;
        name.to_owned()
    }

    fn clone(&mut self, value: &Value) -> Value {
        self.bytes += size(value);
        value.clone()
    }

    /// The reference to what a reference names, as a definition.
    fn refer(&mut self, reference: &str) -> String {
        self.bytes += reference.len() + 4;
        let Some(target) = resolve(reference, self.root) else { return reference.to_owned() };
        let address = std::ptr::from_ref(target);
        if !self.names.contains_key(&address) {
            let place = self.place(&pointer::steps(reference).unwrap_or_default());
            self.names.insert(address, place.clone());
            self.open.push((place, target));
        }
        let (kind, name) = &self.names[&address];
        format!("#/{}/{name}", DEFINITIONS[*kind])
    }

    /// A place of its own for what stands at the end of some steps: the same, if it is a definition already. Names are
    /// letters and digits, which every reader of references takes alike.
    fn place(&mut self, steps: &[String]) -> Place {
        let (kind, steps) = match steps.split_first() {
            Some((first, rest)) if !rest.is_empty() => {
                match DEFINITIONS.iter().position(|key| key == first) {
                    Some(kind) => (kind, rest),
                    None => (0, steps),
                }
            }
            _ => (0, steps),
        };
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
        let name: String = match steps {
            [] => "root".to_owned(),
            steps => steps.join(".").chars().map(plain).collect(),
        };
        let mut place = (kind, name.clone());
        let mut count = 1;
        while !self.taken.insert(place.clone()) {
            count += 1;
            place.1 = format!("{name}-{count}");
        }
        place
    }
}

/// Bytes of a value as JSON, about.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 4,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 4,
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>() + 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn flat(schema: &Value) -> Value {
        checked(schema).unwrap_or_else(|error| panic!("{schema}: {error}"))
    }

    #[test]
    fn references_lead_to_definitions() {
        let node = json!({"type": "object", "title": "A node", "properties": {"title": {"$ref": "#"},
            "$ref": {"$ref": "#/properties/title"}, "c": {"$ref": "#/definitions/a~1b"}},
            "definitions": {"a/b": {"const": {"$ref": "#"}}, "unused": {"pattern": 3}}});
        let root = json!({"type": "object", "properties": {"title": {"$ref": "#/$defs/root"},
            "$ref": {"$ref": "#/$defs/properties.title"}, "c": {"$ref": "#/definitions/a_b"}}});
        let mut expected = root.clone();
        expected["$defs"] = json!({"root": root, "properties.title": {"$ref": "#/$defs/root"}});
        expected["definitions"] = json!({"a_b": {"const": {"$ref": "#"}}});
        assert_eq!(flat(&node), expected);
    }

    #[test]
    fn names_do_not_meet() {
        let schema = json!({"anyOf": [{"$ref": "#/$defs/a b"}, {"$ref": "#/$defs/a_b"}, {"$ref": "#/$defs/a%20b"}],
            "$defs": {"a b": {"type": "null"}, "a_b": {"type": "boolean"}}});
        let expected = json!({"anyOf": [{"$ref": "#/$defs/a_b"}, {"$ref": "#/$defs/a_b-2"}, {"$ref": "#/$defs/a_b"}],
            "$defs": {"a_b": {"type": "null"}, "a_b-2": {"type": "boolean"}}});
        assert_eq!(flat(&schema), expected);
    }

    #[test]
    fn what_has_no_end_is_left_out() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/b"}},
            "$defs": {"b": {"type": "array", "items": {"$ref": "#/$defs/b"}, "minItems": 1}}});
        let properties = json!({"a": {"type": "string"}, "b": false});
        assert_eq!(flat(&schema), json!({"type": "object", "properties": properties}));
    }

    #[test]
    fn what_is_nested_can_become_too_large() {
        let mut schema = json!({"enum": ["x".repeat(1 << 20)]});
        let mut path = "#".to_owned();
        let mut references = Vec::new();
        for _ in 0..20 {
            schema = json!({"properties": {"a": schema}});
            path.push_str("/properties/a");
            references.push(json!({"$ref": path}));
        }
        schema["anyOf"] = Value::Array(references);
        let error = checked(&schema).expect_err("20 MB");
        assert!(error.reason.contains("more than 8388608 bytes"), "{error}");
    }
}
