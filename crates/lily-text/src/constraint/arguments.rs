//! The grammar of one function's block: its name, and its arguments in the order of the schema.

use super::lark::{Lark, any_of, literal};
use super::schema::{join, resolve};
use super::value::{self, free_text};
use super::{Function, SchemaError, flatten, schema};
use crate::word::shown;
use serde_json::Value;

/// Keys of a schema of arguments that are followed.
const FOLLOWED: [&str; 4] = ["type", "properties", "required", "additionalProperties"];

/// Keys that say nothing about what is valid.
pub(super) const ANNOTATIONS: [&str; 15] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "$anchor",
    "nullable",
];

/// Adds the rule for a function's block. `guide`: its arguments keep to the schema, as far as that can be said if the
/// function is not strict.
pub(super) fn rule(function: &Function<'_>, guide: bool, lark: &mut Lark) -> Result<String, SchemaError> {
    let schema = function.parameters.map(schema::from_request).transpose();
    if function.strict {
        return guided(function.name, &schema?.unwrap_or_default(), lark);
    }
    let schema = schema.ok().flatten().unwrap_or_default();
    if guide {
        // Half a rule that was begun and is not used does no harm.
        if let Ok(rule) = guided(function.name, &schema, lark) {
            return Ok(rule);
        }
    }
    Ok(free(function.name, &schema, lark))
}

/// A block whose arguments keep to the schema.
fn guided(name: &str, schema: &Value, lark: &mut Lark) -> Result<String, SchemaError> {
    let mut body = format!("{} ", open(name));
    parameters(schema, |parameter| {
        let Parameter { name, schema, root, path, is_required } = parameter;
        let value = value::rule(schema, root, &path, lark)?;
        let parameter = lark.rule("", &format!("{} {value}", literal(&format!("<parameter={name}>\n"))));
        body.push_str(&parameter);
        body.push_str(if is_required { " " } else { "? " });
        Ok(())
    })?;
    body.push_str(r#""</function>""#);
    Ok(lark.rule("", &body))
}

/// The grammars of the values of a function's parameters, each by itself and with the place of its schema: to find the
/// one that cannot be followed.
pub(super) fn one_by_one(function: &Function<'_>) -> Result<Vec<(String, String)>, SchemaError> {
    let schema = function.parameters.map(schema::from_request).transpose()?.unwrap_or_default();
    let mut grammars = Vec::new();
    parameters(&schema, |parameter| {
        let mut lark = Lark::default();
        let rule = value::rule(parameter.schema, parameter.root, &parameter.path, &mut lark)?;
        grammars.push((parameter.path, lark.finish(&rule)));
        Ok(())
    })?;
    Ok(grammars)
}

/// A parameter of a function.
struct Parameter<'a> {
    name: &'a str,
    schema: &'a Value,
    /// The flat schema that it is a part of.
    root: &'a Value,
    /// Where its schema stands.
    path: String,
    is_required: bool,
}

/// Looks at the parameters of a function, in the order of its schema.
fn parameters(
    schema: &Value,
    mut each: impl FnMut(Parameter<'_>) -> Result<(), SchemaError>,
) -> Result<(), SchemaError> {
    let mut root = schema.clone();
    if let Value::Object(fields) = &mut root
        && !fields.contains_key("$ref")
    {
        // Wherever the schema refers to its root, too, arguments are an object.
        let types = fields.entry("type").or_insert_with(|| "object".into());
        if types.as_array().is_some_and(|types| types.iter().any(|kind| kind == "object")) {
            *types = "object".into();
        }
    }
    let root = &flatten::checked(&root)?;
    let (schema, path) = follow(root)?;
    let empty = serde_json::Map::new();
    let fields = schema.as_object().unwrap_or(&empty);
    if let Some(key) = fields.keys().find(|key| !known(key)) {
        let reason = "cannot be enforced here: arguments are an object with properties";
        return Err(SchemaError::new(join(&path, shown(key)), reason));
    }
    if fields.get("type").is_some_and(|kind| kind != "object") {
        return Err(SchemaError::new(join(&path, "type"), "arguments are an object"));
    }
    let properties = match fields.get("properties") {
        None => &empty,
        Some(Value::Object(properties)) => properties,
        Some(_) => return Err(SchemaError::new(join(&path, "properties"), "must be an object")),
    };
    let required: Option<Vec<&str>> = match fields.get("required") {
        None => Some(Vec::new()),
        Some(names) => names.as_array().and_then(|names| names.iter().map(Value::as_str).collect()),
    };
    let Some(required) = required else {
        return Err(SchemaError::new(join(&path, "required"), "must be a list of names"));
    };
    if let Some(missing) = required.iter().find(|name| !properties.contains_key(**name)) {
        return Err(SchemaError::new(
            join(&path, &format!("required.{}", shown(missing))),
            "is not among the properties",
        ));
    }
    for (name, schema) in properties {
        let path = join(&path, &format!("properties.{}", shown(name)));
        check_name(name, &path)?;
        let is_required = required.contains(&name.as_str());
        if *schema == Value::Bool(false) && !is_required {
            continue;
        }
        each(Parameter { name, schema, root, path, is_required })?;
    }
    Ok(())
}

/// A block with any arguments; their names are the schema's, if it names any.
fn free(name: &str, schema: &Value, lark: &mut Lark) -> String {
    let value = free_text(lark);
    let properties = follow(schema).ok().and_then(|(schema, _)| schema.get("properties")?.as_object());
    let known: Vec<String> = properties
        .into_iter()
        .flatten()
        .filter(|(name, _)| check_name(name, "").is_ok())
        .map(|(name, _)| literal(&format!("<parameter={name}>\n")))
        .collect();
    let head = if known.is_empty() { r"/<parameter=[^<>\s]{1,64}>\n/".to_owned() } else { any_of(&known) };
    let parameter = lark.rule("", &format!("{head} {value}"));
    lark.rule("", &format!(r#"{} {parameter}* "</function>""#, open(name)))
}

fn open(name: &str) -> String {
    literal(&format!("<function={name}>\n"))
}

fn known(key: &str) -> bool {
    FOLLOWED.contains(&key) || ANNOTATIONS.contains(&key)
}

/// The schema that a root refers to, if all it does is refer.
fn follow(root: &Value) -> Result<(&Value, String), SchemaError> {
    let Some(reference) = root.get("$ref") else { return Ok((root, String::new())) };
    let target = reference.as_str().and_then(|reference| resolve(reference, root));
    match target {
        Some(schema) if schema.get("$ref").is_none() => Ok((schema, "$ref".to_owned())),
        _ => Err(SchemaError::new("$ref", "leads nowhere that can be followed")),
    }
}

/// A name stands between `<parameter=` and `>`.
fn check_name(name: &str, path: &str) -> Result<(), SchemaError> {
    let legible = |c: char| !c.is_control() && !matches!(c, '<' | '>');
    if name.trim() != name || name.is_empty() || name.len() > 128 || !name.chars().all(legible) {
        return Err(SchemaError::new(
            path,
            "a parameter's name has 1 to 128 bytes and no <, > or control characters",
        ));
    }
    Ok(())
}
