//! What a schema must not be, whatever grammar is made of it: without an end, or too large to follow.

use super::SchemaError;
use super::schema::{children, join, resolve};
use regex_syntax::hir::{Hir, HirKind};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Positions that a pattern may have when its repetitions are written out.
const MAX_PATTERN: u64 = 10_000;

/// How often the search for values that end is gone through.
const MAX_PASSES: usize = 64;

const ENDLESS: &str = "the schema refers to itself without an end";

/// A schema that is reached from the root, and where it stands.
struct Node<'a> {
    schema: &'a Value,
    path: String,
}

/// Checks a schema.
///
/// # Errors
/// A reference that comes back to itself with nothing in between; a schema whose every value would be endless; a
/// pattern whose repetitions multiply beyond what can be followed.
pub(super) fn check(root: &Value) -> Result<(), SchemaError> {
    let (nodes, places) = reachable(root);
    for node in &nodes {
        if let Some(pattern) = node.schema.get("pattern").and_then(Value::as_str)
            && positions(pattern) > MAX_PATTERN
        {
            let reason = format!(
                "the pattern is too large: its repetitions multiply to more than {MAX_PATTERN} positions"
            );
            return Err(SchemaError::new(join(&node.path, "pattern"), reason));
        }
    }
    if let Some(at) = looping(root, &nodes, &places) {
        return Err(SchemaError::new(&*nodes[at].path, ENDLESS));
    }
    match endless(root, &nodes, &places) {
        // The reference is what its writer can change.
        Some(at) => Err(SchemaError::new(&*nodes[at].path, ENDLESS)),
        None => Ok(()),
    }
}

/// The schemas that values are held to, with their indices by address.
fn reachable(root: &Value) -> (Vec<Node<'_>>, HashMap<*const Value, usize>) {
    let mut nodes = vec![Node { schema: root, path: String::new() }];
    let mut places = HashMap::from([(std::ptr::from_ref(root), 0)]);
    let mut next = 0;
    while next < nodes.len() {
        let schema = nodes[next].schema;
        let mut found = Vec::new();
        for (step, child) in children(schema) {
            let idle = ["$defs.", "definitions.", "not"].iter().any(|key| step.starts_with(key));
            if !idle {
                found.push((join(&nodes[next].path, &step), child));
            }
        }
        if let Some((path, target)) = reference(schema, root) {
            found.push((path, target));
        }
        for (path, schema) in found {
            places.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
                nodes.push(Node { schema, path });
                nodes.len() - 1
            });
        }
        next += 1;
    }
    (nodes, places)
}

/// What a schema refers to, and its path.
fn reference<'a>(schema: &'a Value, root: &'a Value) -> Option<(String, &'a Value)> {
    let reference = schema.get("$ref")?.as_str()?;
    let path = reference.trim_start_matches(['#', '/']).replace('/', ".");
    Some((path, resolve(reference, root)?))
}

/// The schemas of a list under a key.
fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A schema that applies to a value only if it applies to it already.
fn looping(root: &Value, nodes: &[Node<'_>], places: &HashMap<*const Value, usize>) -> Option<usize> {
    let same_value = |at: usize| -> Vec<usize> {
        let schema = nodes[at].schema;
        let choices = ["anyOf", "oneOf", "allOf"].into_iter().flat_map(|key| list(schema, key));
        let target = reference(schema, root).map(|(_, target)| target);
        choices.chain(target).filter_map(|schema| places.get(&std::ptr::from_ref(schema)).copied()).collect()
    };
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; nodes.len()];
    for start in 0..nodes.len() {
        let mut stack = vec![(start, None::<Vec<usize>>)];
        while let Some((at, rest)) = stack.pop() {
            let mut rest = match rest {
                Some(rest) => rest,
                None if states[at] == State::New => {
                    states[at] = State::Open;
                    same_value(at)
                }
                None => continue,
            };
            let Some(next) = rest.pop() else {
                states[at] = State::Done;
                continue;
            };
            if states[next] == State::Open {
                return Some(at);
            }
            stack.push((at, Some(rest)));
            stack.push((next, None));
        }
    }
    None
}

/// A schema all of whose values are endless, if the root is one.
fn endless(root: &Value, nodes: &[Node<'_>], places: &HashMap<*const Value, usize>) -> Option<usize> {
    let mut ends = vec![false; nodes.len()];
    for _ in 0..MAX_PASSES {
        let mut changed = false;
        for at in (0..nodes.len()).rev() {
            let known =
                |schema: &Value| places.get(&std::ptr::from_ref(schema)).is_none_or(|place| ends[*place]);
            if !ends[at] && has_an_end(nodes[at].schema, root, known) {
                ends[at] = true;
                changed = true;
            }
        }
        if ends[0] || !changed {
            break;
        }
    }
    let refers = |at: &usize| nodes[*at].schema.get("$ref").is_some() && !ends[*at];
    if ends[0] { None } else { Some((0..nodes.len()).rev().find(refers).unwrap_or(0)) }
}

/// True if some value of a schema ends, given what is known of others.
fn has_an_end(schema: &Value, root: &Value, known: impl Fn(&Value) -> bool) -> bool {
    let Value::Object(fields) = schema else { return true };
    if reference(schema, root).is_some_and(|(_, target)| !known(target)) {
        return false;
    }
    for key in ["anyOf", "oneOf"] {
        let mut choices = list(schema, key).peekable();
        if choices.peek().is_some() && !choices.any(&known) {
            return false;
        }
    }
    if !list(schema, "allOf").all(&known) {
        return false;
    }
    match fields.get("type") {
        Some(Value::String(kind)) if kind == "object" => required(fields, known),
        Some(Value::String(kind)) if kind == "array" => elements(fields, known),
        _ => true,
    }
}

/// The properties that an object must have.
fn required(fields: &Map<String, Value>, known: impl Fn(&Value) -> bool) -> bool {
    let properties = fields.get("properties").and_then(Value::as_object);
    let names = fields.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| properties?.get(name.as_str()?)).all(known)
}

/// The elements that an array must have.
fn elements(fields: &Map<String, Value>, known: impl Fn(&Value) -> bool) -> bool {
    let least = fields.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let first = fields.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let taken = usize::try_from(least).unwrap_or(usize::MAX).min(first.len());
    let rest = fields.get("items").filter(|_| least > first.len() as u64);
    first[..taken].iter().chain(rest).all(known)
}

/// Positions of a pattern with its repetitions written out; 0 for one that cannot be read.
fn positions(pattern: &str) -> u64 {
    regex_syntax::Parser::new().parse(pattern).map_or(0, |hir| size(&hir))
}

fn size(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            size(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => size(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(0, |sum, part| sum.saturating_add(size(part)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_has_no_end_is_found_with_its_place() {
        let object = |n: Value| json!({"type": "object", "properties": {"n": n}, "required": ["n"]});
        for (schema, place) in [
            (json!({"$ref": "#"}), ""),
            (json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}), "anyOf[1]"),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
                "$defs.b",
            ),
            (object(json!({"$ref": "#"})), "properties.n"),
            (
                object(
                    json!({"anyOf": [{"$ref": "#"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]}),
                ),
                "",
            ),
        ] {
            let error = check(&schema).expect_err("endless");
            assert_eq!(error.reason, ENDLESS, "{schema}");
            if !place.is_empty() {
                assert_eq!(error.path, place, "{schema}");
            }
        }
        for schema in [
            json!({"type": "object", "properties": {"n": {"$ref": "#"}}}),
            object(json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]})),
            object(json!({"type": "array", "items": {"$ref": "#"}})),
            json!({"type": "object", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
            json!({"type": ["object", "null"], "properties": {"n": {"$ref": "#"}}, "required": ["n"]}),
        ] {
            assert_eq!(check(&schema), Ok(()), "{schema}");
        }
    }

    #[test]
    fn patterns_have_a_size() {
        assert_eq!(positions("^(([a-z]{1,1000}){1,1000}){1,1000}$"), 1_000_000_000);
        assert_eq!(positions(r"^\d{4}-(a|bc)*$"), 4 + 1 + 3);
        let deep = json!({"properties": {"a": {"type": "string", "pattern": "(x{900}){900}"}}});
        assert_eq!(check(&deep).expect_err("large").path, "properties.a.pattern");
    }
}
