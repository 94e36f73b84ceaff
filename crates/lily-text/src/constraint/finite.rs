//! Which schemas have a finite value: a least fixed point.
//!
//! What a value must satisfy is a set of schemas ([`Claim`]): one to begin with, and with it what it refers to, all of
//! its `allOf` and one of its `anyOf`. The parts of an object or an array have claims of their own, made of what each
//! schema of the set says about that part. A claim is finite if one of its ways to be satisfied needs finite parts only.

use super::schema::resolve;
use super::soundness::Reached;
use llguidance::derivre::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};

/// Steps of a search; what is not settled by then is taken for finite.
const MAX_STEPS: usize = 200_000;

/// What it may cost to build the expression of one pattern of names.
const PATTERN_FUEL: u64 = 10_000;

/// The types of values, as bits.
const OBJECT: u8 = 1;
const ARRAY: u8 = 2;
const LEAVES: u8 = 4 | 8 | 16 | 32;

/// What one value must satisfy at once.
struct Claim {
    /// The schema that says where it stands: the first of them.
    schema: usize,
    /// The ways to satisfy it; `None` if a way needs no parts, or if they were too many to follow.
    ways: Option<Vec<Way>>,
    /// The claims that have this one as a part.
    users: Vec<usize>,
}

/// One way to satisfy a claim, by its parts.
#[derive(Default)]
struct Way {
    /// Parts that must be there.
    all: Vec<usize>,
    /// How many more are needed.
    more: usize,
    /// What may be one of these.
    some: Vec<usize>,
    /// What may be any number of these.
    many: Vec<usize>,
}

impl Way {
    fn holds(&self, known: &[bool]) -> bool {
        let holds = |part: &&usize| known[**part];
        self.all.iter().all(|part| known[*part])
            && (self.some.iter().filter(holds).count() >= self.more
                || self.many.iter().any(|part| known[*part]))
    }

    fn parts(&self) -> impl Iterator<Item = usize> {
        self.all.iter().chain(&self.some).chain(&self.many).copied()
    }
}

/// What was found out about the schemas that a root reaches.
pub(super) struct Finite {
    claims: Vec<Claim>,
    /// For each claim: it has a finite value.
    finite: Vec<bool>,
    /// For each claim: nothing but its size speaks against a value.
    consistent: Vec<bool>,
}

impl Finite {
    /// Looks at all schemas that a root reaches.
    pub(super) fn of(root: &Value, reached: &Reached<'_>) -> Self {
        let mut search = Search {
            root,
            reached,
            claims: Vec::new(),
            known: HashMap::new(),
            patterns: HashMap::new(),
            steps: 0,
        };
        // The claims of single schemas come first, in the order of the schemas.
        for schema in 0..reached.nodes.len() {
            search.claim(BTreeSet::from([schema]));
        }
        let mut next = 0;
        while next < search.claims.len() {
            search.expand(next);
            next += 1;
        }
        let mut claims: Vec<Claim> = search.claims.into_iter().map(|(claim, _)| claim).collect();
        for user in 0..claims.len() {
            let parts: BTreeSet<usize> = claims[user].ways.iter().flatten().flat_map(Way::parts).collect();
            parts.into_iter().for_each(|part| claims[part].users.push(user));
        }
        let (finite, consistent) = (settle(&claims, false), settle(&claims, true));
        Self { claims, finite, consistent }
    }

    /// True for a schema whose every value would be endless, though nothing else speaks against one.
    pub(super) fn is_endless(&self, schema: usize) -> bool {
        self.consistent[schema] && !self.finite[schema]
    }

    /// The schema through which an endless one comes back to itself.
    pub(super) fn turn(&self, schema: usize) -> usize {
        let (mut at, mut seen) = (schema, BTreeSet::new());
        while seen.insert(at) {
            let ways = self.claims[at].ways.iter().flatten();
            let endless = |part: &usize| self.consistent[*part] && !self.finite[*part];
            let Some(part) =
                ways.filter(|way| way.holds(&self.consistent)).find_map(|way| way.parts().find(endless))
            else {
                break;
            };
            at = part;
        }
        self.claims[at].schema
    }
}

/// Evaluates all claims until nothing changes, from none of them holding up or from all of them holding down.
fn settle(claims: &[Claim], from: bool) -> Vec<bool> {
    let mut known = vec![from; claims.len()];
    let mut open: Vec<usize> = (0..claims.len()).collect();
    while let Some(at) = open.pop() {
        let holds = claims[at].ways.as_ref().is_none_or(|ways| ways.iter().any(|way| way.holds(&known)));
        if known[at] == from && holds != from {
            known[at] = holds;
            open.extend(&claims[at].users);
        }
    }
    known
}

/// The claims while they are found.
struct Search<'a> {
    root: &'a Value,
    reached: &'a Reached<'a>,
    /// Each with the schemas that it is made of.
    claims: Vec<(Claim, BTreeSet<usize>)>,
    known: HashMap<BTreeSet<usize>, usize>,
    patterns: HashMap<&'a str, Option<Regex>>,
    steps: usize,
}

/// What is still to be looked at for a value.
#[derive(Clone)]
enum Open {
    Schema(usize),
    OneOf(Vec<usize>),
}

impl Open {
    fn size(&self) -> usize {
        match self {
            Open::Schema(_) => 1,
            Open::OneOf(choices) => 1 + choices.len(),
        }
    }
}

/// A declared property, or an element at a place: a claim, or `None` if nothing is asked of it.
type Part = Option<usize>;

impl<'a> Search<'a> {
    fn claim(&mut self, schemas: BTreeSet<usize>) -> usize {
        let next = self.claims.len();
        let index = *self.known.entry(schemas.clone()).or_insert(next);
        if index == next {
            let schema = schemas.first().copied().unwrap_or_default();
            self.claims.push((Claim { schema, ways: None, users: Vec::new() }, schemas));
        }
        index
    }

    /// The claim of a part, by what is said of it.
    fn part(&mut self, said: impl IntoIterator<Item = &'a Value>) -> Part {
        let schemas: BTreeSet<usize> =
            said.into_iter().filter_map(|schema| self.reached.index(schema)).collect();
        (!schemas.is_empty()).then(|| self.claim(schemas))
    }

    /// Finds the ways of a claim.
    fn expand(&mut self, claim: usize) {
        let schemas = self.claims[claim].1.clone();
        let Some(alternatives) = self.alternatives(&schemas) else { return };
        let mut ways = Vec::new();
        for schemas in alternatives {
            let fields: Vec<&'a Map<String, Value>> =
                schemas.iter().filter_map(|at| self.reached.nodes[*at].schema.as_object()).collect();
            self.steps += fields.len();
            if self.steps > MAX_STEPS {
                return;
            }
            let types = fields.iter().fold(u8::MAX, |types, fields| types & types_of(fields));
            let given =
                fields.iter().any(|fields| fields.contains_key("const") || fields.contains_key("enum"));
            // A value that is given, or has no parts, is finite.
            if types & LEAVES != 0 || (given && types != 0) {
                return;
            }
            if types & OBJECT != 0 {
                ways.extend(self.object(&fields));
            }
            if types & ARRAY != 0 {
                ways.extend(self.array(&fields));
            }
        }
        self.claims[claim].0.ways = Some(ways);
    }

    /// The sets of schemas that satisfy some: with what they refer to, all of `allOf`, one of `anyOf` and `oneOf`.
    fn alternatives(&mut self, schemas: &BTreeSet<usize>) -> Option<Vec<BTreeSet<usize>>> {
        let mut found = Vec::new();
        let mut open: Vec<(BTreeSet<usize>, Vec<Open>)> =
            vec![(BTreeSet::new(), schemas.iter().copied().map(Open::Schema).collect())];
        'next: while let Some((mut set, mut steps)) = open.pop() {
            while let Some(step) = steps.pop() {
                self.steps += 1;
                if self.steps > MAX_STEPS {
                    return None;
                }
                match step {
                    Open::OneOf(choices) => {
                        let copied: usize = steps.iter().map(Open::size).sum();
                        self.steps += choices.len().saturating_mul(set.len() + copied);
                        open.extend(choices.into_iter().map(|choice| {
                            (set.clone(), steps.iter().cloned().chain([Open::Schema(choice)]).collect())
                        }));
                        continue 'next;
                    }
                    Open::Schema(at) if set.insert(at) => {
                        let schema = self.reached.nodes[at].schema;
                        if *schema == Value::Bool(false) {
                            continue 'next;
                        }
                        self.same_value(schema, &mut steps);
                    }
                    Open::Schema(_) => {}
                }
            }
            found.push(set);
        }
        Some(found)
    }

    /// What else a schema says of the same value.
    fn same_value(&self, schema: &'a Value, steps: &mut Vec<Open>) {
        let list = |key: &str| -> Vec<usize> {
            let list = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(|schema| self.reached.index(schema)).collect()
        };
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| resolve(target, self.root));
        steps.extend(target.and_then(|target| self.reached.index(target)).map(Open::Schema));
        steps.extend(list("allOf").into_iter().map(Open::Schema));
        for key in ["anyOf", "oneOf"] {
            if schema.get(key).is_some_and(Value::is_array) {
                steps.push(Open::OneOf(list(key)));
            }
        }
    }

    /// The way to an object.
    fn object(&mut self, fields: &[&'a Map<String, Value>]) -> Option<Way> {
        let strings = |fields: &&'a Map<String, Value>| {
            let names = fields.get("required").and_then(Value::as_array).into_iter().flatten();
            names.filter_map(Value::as_str)
        };
        let required: BTreeSet<&'a str> = fields.iter().flat_map(strings).collect();
        let least = bound(fields, "minProperties", u64::max).unwrap_or(0);
        let needed = usize::try_from(least).unwrap_or(usize::MAX).max(required.len());
        if bound(fields, "maxProperties", u64::min).is_some_and(|most| (needed as u64) > most) {
            return None;
        }
        let mut way = Way { more: needed - required.len(), ..Way::default() };
        self.steps += required.len() * fields.len();
        for name in &required {
            let part = self.property(fields, name);
            way.all.extend(part);
        }
        if way.more > 0 {
            let declared = fields.iter().filter_map(|fields| fields.get("properties")?.as_object());
            let declared: BTreeSet<&'a str> =
                declared.flat_map(|map| map.keys().map(String::as_str)).collect();
            self.steps += declared.len() * fields.len();
            for name in declared.difference(&required) {
                match self.property(fields, name) {
                    Some(part) => way.some.push(part),
                    None => way.more = way.more.saturating_sub(1),
                }
            }
            self.names(fields, &mut way);
        }
        Some(way)
    }

    /// What is said of a property.
    fn property(&mut self, fields: &[&'a Map<String, Value>], name: &str) -> Part {
        let mut said = Vec::new();
        for fields in fields {
            let before = said.len();
            said.extend(fields.get("properties").and_then(|map| map.get(name)));
            let patterns = fields.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
            let mut unknown = false;
            for (pattern, schema) in patterns {
                match self.matches(pattern, name) {
                    Some(true) => said.push(schema),
                    Some(false) => {}
                    None => unknown = true,
                }
            }
            if said.len() == before && !unknown {
                said.extend(fields.get("additionalProperties"));
            }
        }
        self.part(said)
    }

    /// What is said of properties of names that are not declared.
    fn names(&mut self, fields: &[&'a Map<String, Value>], way: &mut Way) {
        let additional = |skipped: Option<usize>| {
            let others = fields.iter().enumerate().filter(move |(at, _)| Some(*at) != skipped);
            others.filter_map(|(_, fields)| fields.get("additionalProperties"))
        };
        let mut parts = vec![self.part(additional(None))];
        for (at, own) in fields.iter().enumerate() {
            for schema in
                own.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values)
            {
                parts.push(self.part(additional(Some(at)).chain([schema])));
            }
        }
        for part in parts {
            match part {
                Some(part) => way.many.push(part),
                None => way.more = 0,
            }
        }
    }

    /// The way to an array.
    fn array(&mut self, fields: &[&'a Map<String, Value>]) -> Option<Way> {
        let least = bound(fields, "minItems", u64::max).unwrap_or(0);
        if bound(fields, "maxItems", u64::min).is_some_and(|most| least > most) {
            return None;
        }
        let said: Vec<(&'a [Value], Option<&'a Value>)> =
            fields.iter().map(|fields| elements(fields)).collect();
        let longest = said.iter().map(|(first, _)| first.len()).max().unwrap_or(0);
        let mut way = Way::default();
        self.steps += longest * fields.len();
        // Elements behind the longest list are all alike.
        for at in 0..usize::try_from(least).unwrap_or(usize::MAX).min(longest.saturating_add(1)) {
            let part = self.part(said.iter().filter_map(|(first, rest)| first.get(at).or(*rest)));
            way.all.extend(part);
        }
        Some(way)
    }

    /// Whether a pattern matches a name, if that can be told.
    fn matches(&mut self, pattern: &'a str, name: &str) -> Option<bool> {
        let expression = self.patterns.entry(pattern).or_insert_with(|| {
            let mut builder = RegexBuilder::new();
            let expression = builder.mk_regex_for_serach(&llguidance::regex_to_lark(pattern, "dw")).ok()?;
            builder.to_regex_limited(expression, PATTERN_FUEL).ok()
        });
        expression.as_mut().map(|expression| expression.is_match(name))
    }
}

/// The first elements of an array, and all others. Older drafts have a list in `items`, and the others beside it.
fn elements(fields: &Map<String, Value>) -> (&[Value], Option<&Value>) {
    let list = |key: &str| fields.get(key).and_then(Value::as_array).map(Vec::as_slice);
    match (list("items"), fields.get("additionalItems")) {
        (Some(first), rest) => (first, rest),
        (None, Some(_)) => (&[], fields.get("items")),
        (None, None) => (list("prefixItems").unwrap_or_default(), fields.get("items")),
    }
}

/// The bound that holds of all bounds under a key.
fn bound(fields: &[&Map<String, Value>], key: &str, of: fn(u64, u64) -> u64) -> Option<u64> {
    fields.iter().filter_map(|fields| fields.get(key)?.as_u64()).reduce(of)
}

/// The types that a schema allows by itself.
fn types_of(fields: &Map<String, Value>) -> u8 {
    let named = |name: &str| match name {
        "object" => OBJECT,
        "array" => ARRAY,
        "null" => 4,
        "boolean" => 8,
        "string" => 16,
        "number" | "integer" => 32,
        _ => u8::MAX,
    };
    let of = |value: &Value| match value {
        Value::Object(_) => OBJECT,
        Value::Array(_) => ARRAY,
        Value::Null => 4,
        Value::Bool(_) => 8,
        Value::String(_) => 16,
        Value::Number(_) => 32,
    };
    let types = match fields.get("type") {
        Some(Value::String(name)) => named(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).fold(0, |types, name| types | named(name))
        }
        _ => u8::MAX,
    };
    let given = fields.get("const").map_or(u8::MAX, of);
    let listed = fields.get("enum").and_then(Value::as_array);
    types & given & listed.map_or(u8::MAX, |values| values.iter().fold(0, |types, value| types | of(value)))
}

#[cfg(test)]
mod tests;
