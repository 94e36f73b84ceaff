//! What a schema must not be, whatever grammar is made of it: without an end, or too large to follow.

use super::SchemaError;
use super::finite::Finite;
use super::schema::{children, join, resolve};
use crate::word::shown;
use regex_syntax::hir::{Hir, HirKind};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Positions that a pattern may have when its repetitions are written out.
const MAX_PATTERN: u64 = 10_000;

/// Schemas within one. The work of making a grammar grows with their square: with so many it takes about a second, with
/// twice as many eight.
const MAX_SCHEMAS: usize = 2_048;

const ENDLESS: &str = "the schema refers to itself without an end";
const NOWHERE: &str = "a $ref must lead to a place within this schema (#/$defs/NAME)";

/// A schema that is reached from the root, and where it stands.
pub(super) struct Node<'a> {
    pub(super) schema: &'a Value,
    path: String,
}

/// The schemas that values are held to; the root is the first.
pub(super) struct Reached<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    places: HashMap<*const Value, usize>,
}

impl Reached<'_> {
    /// The index of a schema, known by its address.
    pub(super) fn index(&self, schema: &Value) -> Option<usize> {
        self.places.get(&std::ptr::from_ref(schema)).copied()
    }
}

/// Checks a schema, and gives the addresses of those within that only endless values satisfy: a value without them can
/// still be valid.
///
/// # Errors
/// A reference that leads nowhere, or comes back to itself with nothing in between; a schema whose every value would be
/// endless; more schemas than a grammar is made of; a pattern whose repetitions multiply beyond what can be followed.
pub(super) fn check(root: &Value) -> Result<HashSet<*const Value>, SchemaError> {
    let reached = reachable(root)?;
    for node in &reached.nodes {
        let names = node.schema.get("patternProperties").and_then(Value::as_object);
        let names = names.into_iter().flat_map(Map::keys).map(|name| (name.as_str(), "patternProperties"));
        let pattern = node.schema.get("pattern").and_then(Value::as_str).map(|pattern| (pattern, "pattern"));
        if let Some((_, key)) = names.chain(pattern).find(|(pattern, _)| positions(pattern) > MAX_PATTERN) {
            let reason = format!(
                "the pattern is too large: its repetitions multiply to more than {MAX_PATTERN} positions"
            );
            return Err(SchemaError::new(join(&node.path, key), reason));
        }
    }
    if let Some(at) = looping(root, &reached) {
        return Err(SchemaError::new(&*reached.nodes[at].path, ENDLESS));
    }
    let finite = Finite::of(root, &reached);
    if finite.is_endless(0) {
        return Err(SchemaError::new(&*reached.nodes[finite.turn(0)].path, ENDLESS));
    }
    let endless = reached.nodes.iter().enumerate().filter(|(at, _)| finite.is_endless(*at));
    Ok(endless.map(|(_, node)| std::ptr::from_ref(node.schema)).collect())
}

/// The schemas that a root reaches.
fn reachable(root: &Value) -> Result<Reached<'_>, SchemaError> {
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
        match reference(schema, root) {
            Ok(target) => found.extend(target),
            Err(()) => return Err(SchemaError::new(join(&nodes[next].path, "$ref"), NOWHERE)),
        }
        if nodes.len() + found.len() > MAX_SCHEMAS {
            let reason = format!("the schema is too large: it has more than {MAX_SCHEMAS} schemas within it");
            return Err(SchemaError::new("", reason));
        }
        for (path, schema) in found {
            places.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
                nodes.push(Node { schema, path });
                nodes.len() - 1
            });
        }
        next += 1;
    }
    Ok(Reached { nodes, places })
}

/// What a schema refers to, and its path; an error if that leads nowhere.
fn reference<'a>(schema: &'a Value, root: &'a Value) -> Result<Option<(String, &'a Value)>, ()> {
    let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return Ok(None) };
    let steps = reference.trim_start_matches(['#', '/']).split('/');
    let path = steps.map(shown).collect::<Vec<_>>().join(".");
    Ok(Some((path, resolve(reference, root).ok_or(())?)))
}

/// A schema that applies to a value only if it applies to it already.
fn looping(root: &Value, reached: &Reached<'_>) -> Option<usize> {
    let same_value = |at: usize| -> Vec<usize> {
        let schema = reached.nodes[at].schema;
        let list = |key| schema.get(key).and_then(Value::as_array).into_iter().flatten();
        let target = reference(schema, root).ok().flatten().map(|(_, target)| target);
        let schemas = ["anyOf", "oneOf", "allOf"].into_iter().flat_map(list).chain(target);
        schemas.filter_map(|schema| reached.index(schema)).collect()
    };
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut states = vec![State::New; reached.nodes.len()];
    for start in 0..reached.nodes.len() {
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
                "properties.n",
            ),
        ] {
            let error = check(&schema).expect_err("endless");
            assert_eq!((error.reason.as_str(), error.path.as_str()), (ENDLESS, place), "{schema}");
        }
        let error = check(&json!({"items": {"$ref": "#/$defs/a"}})).expect_err("nowhere");
        assert_eq!((error.reason.as_str(), error.path.as_str()), (NOWHERE, "items.$ref"));
    }

    #[test]
    fn patterns_have_a_size() {
        assert_eq!(positions("^(([a-z]{1,1000}){1,1000}){1,1000}$"), 1_000_000_000);
        assert_eq!(positions(r"^\d{4}-(a|bc)*$"), 4 + 1 + 3);
        let deep = json!({"properties": {"a": {"type": "string", "pattern": "(x{900}){900}"}}});
        assert_eq!(check(&deep).expect_err("large").path, "properties.a.pattern");
        let names = json!({"items": {"patternProperties": {"(x{900}){900}": {}}}});
        assert_eq!(check(&names).expect_err("large").path, "items.patternProperties");
    }
}
