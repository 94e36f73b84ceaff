//! What types a tool's schema allows a parameter to have, and a value's text as JSON of such a type.

use super::literal::parse_literal;
use crate::json::Value;
use crate::pointer;
use std::collections::HashSet;
use std::sync::Arc;

/// How many schemas are looked through for a parameter.
const MAX_STEPS: usize = 16;

/// How many schemas are looked at for the types of a parameter.
const MAX_SCHEMAS: usize = 1024;

/// The tools of a request; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Tools {
    tools: Arc<[(String, Value)]>,
}

impl Tools {
    /// From tool definitions: `{"type": "function", "function": {"name", "parameters"}}`, `{"name", "parameters"}`, or
    /// `{"name", "input_schema"}`. Others are left out.
    pub(super) fn new(definitions: &[Value]) -> Self {
        let tools = definitions.iter().filter_map(|definition| {
            let function = definition.get("function").unwrap_or(definition);
            let name = function.get("name")?.as_str()?.to_owned();
            let schema = function.get("parameters").or_else(|| function.get("input_schema"));
            Some((name, schema.cloned().unwrap_or(Value::Null)))
        });
        Tools { tools: tools.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub(super) fn declares(&self, name: &str) -> bool {
        self.schema(name).is_some()
    }

    fn schema(&self, name: &str) -> Option<&Value> {
        self.tools.iter().find(|(known, _)| known == name).map(|(_, schema)| schema)
    }

    pub(super) fn declares_parameter(&self, tool: &str, parameter: &str) -> bool {
        self.schema(tool).and_then(|schema| property(parameter, schema)).is_some()
    }

    /// The types of a parameter; one that is not declared is a string.
    pub(super) fn types(&self, tool: &str, parameter: &str) -> Types {
        let Some(root) = self.schema(tool) else { return Types::STRING };
        match property(parameter, root) {
            Some(schema) => types_of(schema, root),
            None => Types::STRING,
        }
    }
}

/// The schema of a property: of a root itself, or of what it is made of.
fn property<'a>(name: &str, root: &'a Value) -> Option<&'a Value> {
    let mut open = vec![root];
    for _ in 0..MAX_STEPS {
        let schema = open.pop()?;
        let own = schema.get("properties").and_then(|properties| properties.get(name));
        if own.is_some() {
            return own;
        }
        let parts = schema.get("allOf").and_then(Value::as_array).unwrap_or_default();
        open.extend(parts.iter().take(MAX_STEPS).rev());
        open.extend(schema.get("$ref").and_then(Value::as_str).and_then(|target| resolve(target, root)));
    }
    None
}

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    const NONE: Types = Types(0);
    pub(super) const STRING: Types = Types(1);
    const INTEGER: Types = Types(2);
    const NUMBER: Types = Types(4);
    const BOOLEAN: Types = Types(8);
    const OBJECT: Types = Types(16);
    const ARRAY: Types = Types(32);
    const NULL: Types = Types(64);
    /// The schema says nothing.
    const ANY: Types = Types(255);

    fn has(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    fn named(name: &str) -> Types {
        match name {
            "string" => Types::STRING,
            "integer" => Types::INTEGER,
            "number" => Types::NUMBER,
            "boolean" => Types::BOOLEAN,
            "object" => Types::OBJECT,
            "array" => Types::ARRAY,
            "null" => Types::NULL,
            _ => Types::ANY,
        }
    }

    fn of(value: &Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOLEAN,
            Value::Integer(_) => Types::INTEGER.with(Types::NUMBER),
            // `7.0` for an integer is what the model wrote; whoever validates it can say so.
            Value::Float(_) => Types::INTEGER.with(Types::NUMBER),
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Object(_) => Types::OBJECT,
        }
    }

    /// Whether a value of these types, which begins like this, is text that can be handed on while it is written; `None`
    /// if that cannot be told yet.
    pub(super) fn is_text(self, beginning: &str, complete: bool) -> Option<bool> {
        if !self.has(Types::STRING) {
            return Some(false);
        }
        if self == Types::STRING {
            return Some(true);
        }
        let text = beginning.trim_start();
        let Some(first) = text.chars().next() else { return complete.then_some(true) };
        if self.has(Types::NULL) && "null".starts_with(text.trim_end()) {
            return complete.then(|| text.trim_end() != "null");
        }
        let literal = (self.has(Types::OBJECT) && first == '{')
            || (self.has(Types::ARRAY) && first == '[')
            || (self == Types::ANY && "-0123456789tfn".contains(first));
        Some(!literal)
    }

    /// A value's text as JSON text of one of these types; text that is of none is a string.
    pub(super) fn convert(self, text: &str) -> Value {
        let trimmed = text.trim();
        let fits = |value: &Value| {
            // A string needs no quotes here, so quotes are data.
            !matches!(value, Value::String(_)) && self.has(Types::of(value)) && is_finite(value)
        };
        // A string that looks like a number is a string, unless the schema says nothing at all.
        let scalars = self == Types::ANY || !self.has(Types::STRING);
        let wanted = |value: &Value| {
            fits(value) && (scalars || matches!(value, Value::Null | Value::Array(_) | Value::Object(_)))
        };
        if let Some(value) = Value::parse(trimmed).ok().filter(wanted) {
            return value;
        }
        if let Some(value) = parse_literal(trimmed).filter(|value| self != Types::ANY && wanted(value)) {
            return value;
        }
        if scalars && self.has(Types::BOOLEAN) {
            match trimmed.to_ascii_lowercase().as_str() {
                "true" => return Value::Bool(true),
                "false" => return Value::Bool(false),
                _ => {}
            }
        }
        Value::from(text)
    }
}

/// JSON has no way to write infinities.
fn is_finite(value: &Value) -> bool {
    match value {
        Value::Float(number) => number.is_finite(),
        Value::Array(items) => items.iter().all(is_finite),
        Value::Object(entries) => entries.iter().all(|(_, value)| is_finite(value)),
        _ => true,
    }
}

/// The types that a schema allows: those of everything that it may be.
fn types_of(schema: &Value, root: &Value) -> Types {
    let (mut types, mut open, mut seen) = (Types::NONE, vec![schema], HashSet::new());
    while let Some(schema) = open.pop() {
        if seen.insert(std::ptr::from_ref(schema)) {
            types = types.with(own_types(schema, root, &mut open));
        }
        if seen.len() > MAX_SCHEMAS {
            return Types::ANY;
        }
    }
    if types == Types::NONE { Types::ANY } else { types }
}

/// The types that a schema allows by itself; what it may be is added to `open`.
fn own_types<'a>(schema: &'a Value, root: &'a Value, open: &mut Vec<&'a Value>) -> Types {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    let mut types = match schema.get("type") {
        Some(Value::String(name)) => Types::named(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(Types::named).fold(Types::NONE, Types::with)
        }
        _ => Types::NONE,
    };
    if types == Types::NONE {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let Some(target) = resolve(target, root) else { return Types::ANY };
            open.push(target);
        } else if let Some(choices) = list("anyOf").or(list("oneOf")) {
            open.extend(choices);
        } else if let Some([only]) = list("allOf") {
            open.push(only);
        } else if let Some(values) = list("enum") {
            types = values.iter().map(Types::of).fold(Types::NONE, Types::with);
        } else if let Some(value) = schema.get("const") {
            types = Types::of(value);
        } else if schema.get("properties").is_some() {
            types = Types::OBJECT;
        } else if schema.get("items").is_some() {
            types = Types::ARRAY;
        } else {
            return Types::ANY;
        }
    }
    match schema.get("nullable") {
        Some(Value::Bool(true)) => types.with(Types::NULL),
        _ => types,
    }
}

/// What a reference within the root leads to (`#/$defs/Name`, `#`).
fn resolve<'a>(target: &str, root: &'a Value) -> Option<&'a Value> {
    let steps = pointer::steps(target)?;
    let found = steps.iter().try_fold(root, |value, step| match value {
        Value::Array(items) => items.get(pointer::index(step)?),
        value => value.get(step),
    });
    found.or_else(|| (target == "#/").then_some(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(schema: &str, text: &str) -> String {
        let tool = format!(
            r#"{{"name": "f", "parameters": {{"$defs": {{"D": {{"type": "array"}}}}, "properties": {{"p": {schema}}}}}}}"#
        );
        Tools::new(&[Value::parse(&tool).unwrap()]).types("f", "p").convert(text).to_python_json()
    }

    #[test]
    fn values_take_the_type_of_their_schema() {
        for (schema, text, json) in [
            (r#"{"type": "integer"}"#, "7", "7"),
            (r#"{"type": "integer"}"#, " 7\n", "7"),
            (r#"{"type": "integer"}"#, "seven", r#""seven""#),
            (r#"{"type": "integer"}"#, "null", r#""null""#),
            (r#"{"type": "integer"}"#, "123456789012345678901234567890", "123456789012345678901234567890"),
            (r#"{"type": "number"}"#, "0.25", "0.25"),
            (r#"{"type": "number"}"#, "1e999", r#""1e999""#),
            (r#"{"type": "boolean"}"#, "True", "true"),
            (r#"{"type": "boolean"}"#, "FALSE", "false"),
            (r#"{"type": "boolean"}"#, "yes", r#""yes""#),
            (r#"{"type": "boolean"}"#, "1", r#""1""#),
            (r#"{"type": "array"}"#, "[1, 'a']", r#"[1, "a"]"#),
            (r#"{"type": "array"}"#, "(1, 2)", "[1, 2]"),
            (r#"{"type": "object"}"#, "{\"a\": 1e999}", r#""{\"a\": 1e999}""#),
            (r#"{"type": "object"}"#, "[1]", r#""[1]""#),
            (r#"{"type": ["integer", "null"]}"#, "null", "null"),
            (r#"{"type": ["integer", "null"]}"#, "None", "null"),
            (r#"{"type": "integer", "nullable": true}"#, "null", "null"),
            (r#"{"type": ["string", "null"]}"#, "null", "null"),
            (r#"{"type": ["string", "integer"]}"#, "7", r#""7""#),
            (r#"{"type": ["string", "object"]}"#, "{\"a\": 1}", r#"{"a": 1}"#),
            (r#"{"anyOf": [{"type": "string"}, {"type": "array"}]}"#, "[1]", "[1]"),
            (r##"{"$ref": "#/$defs/D"}"##, "[1]", "[1]"),
            (r##"{"$ref": "#/$defs/Missing"}"##, "[1]", "[1]"),
            (r#"{"enum": [1, 2]}"#, "2", "2"),
            (r#"{"enum": ["1", "2"]}"#, "2", r#""2""#),
            (r#"{"const": true}"#, "true", "true"),
            (r#"{"properties": {}}"#, "{}", "{}"),
            (r#"{"items": {}}"#, "[]", "[]"),
            (r#"{"allOf": [{"type": "integer"}]}"#, "3", "3"),
            ("{}", "7", "7"),
            ("{}", "text", r#""text""#),
            ("{}", "\"quoted\"", r#""\"quoted\"""#),
            ("true", "[1]", "[1]"),
            (r#"{"type": "string"}"#, "{\"a\": 1}", r#""{\"a\": 1}""#),
        ] {
            assert_eq!(convert(schema, text), json, "{schema} {text}");
        }
    }

    #[test]
    fn references_in_a_circle_end() {
        let tool = r##"{"name": "f", "parameters": {"properties": {"p": {"$ref": "#/properties/p"}}}}"##;
        assert_eq!(Tools::new(&[Value::parse(tool).unwrap()]).types("f", "p"), Types::ANY);
        let tool = r##"{"name": "f", "parameters": {"$ref": "#", "allOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}}"##;
        assert_eq!(Tools::new(&[Value::parse(tool).unwrap()]).types("f", "p"), Types::STRING);
    }

    /// What a schema may be multiplies with every step; looking at it does not.
    #[test]
    fn choices_of_choices() {
        let choices = format!(
            r##"{{"anyOf": [{}{{"type": "integer"}}]}}"##,
            r##"{"$ref": "#/properties/p"},"##.repeat(100)
        );
        let tool = format!(r#"{{"name": "f", "parameters": {{"properties": {{"p": {choices}}}}}}}"#);
        assert_eq!(Tools::new(&[Value::parse(&tool).unwrap()]).types("f", "p"), Types::INTEGER);
    }

    /// Parameters are found where a generator of schemas puts them.
    #[test]
    fn schemas_that_refer_to_their_parameters() {
        let properties = r##""properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}, "same": {"$ref": "#/definitions/A~1B%20C/properties/n"}}"##;
        for parameters in [
            format!(
                r##"{{"$ref": "#/definitions/A~1B%20C", "definitions": {{"A/B C": {{"type": "object", {properties}}}}}}}"##
            ),
            format!(
                r##"{{"allOf": [{{}}, {{"$ref": "#/definitions/A~1B C"}}], "type": "object", "definitions": {{"A/B C": {{"type": "object", {properties}}}}}}}"##
            ),
        ] {
            let tools =
                Tools::new(&[
                    Value::parse(&format!(r#"{{"name": "f", "parameters": {parameters}}}"#)).unwrap()
                ]);
            assert_eq!(tools.types("f", "n"), Types::INTEGER, "{parameters}");
            assert_eq!(tools.types("f", "next"), Types::OBJECT, "{parameters}");
            assert_eq!(tools.types("f", "same"), Types::INTEGER, "{parameters}");
            assert!(tools.declares_parameter("f", "n") && !tools.declares_parameter("f", "o"));
        }
    }
}
