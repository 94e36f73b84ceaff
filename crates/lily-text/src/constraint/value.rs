//! The grammar of a parameter's value: raw text where its schema says string, JSON where it says anything else.
//!
//! The value stands on lines of its own, and the first line that begins with `</parameter>` ends it, so no text may
//! hold such a line. Where a schema allows strings and more, the parser takes what reads like `null`, an array or an
//! object for that, if the schema allows it; such text is then no string, and numbers and truth values can only be
//! strings.

use super::SchemaError;
use super::arguments::ANNOTATIONS;
use super::lark::{self, Lark, any_of, literal};
use super::schema::{join, resolve, standalone};
use crate::word::shown;
use serde_json::{Map, Value, json};

/// How many references and choices are followed for one parameter, and how many of them one behind the other.
const MAX_STEPS: usize = 4_096;
const MAX_DEPTH: usize = 32;

/// Text that holds no line beginning with the closing tag, as a regular expression's complement.
const NO_CLOSING_LINE: &str = r"~/((?s:.*)\n)?<\/parameter>(?s:.*)/";
const CLOSE: &str = "\n</parameter>";

/// What text is read for where the types of a parameter allow it beside strings.
const READ: [&str; 3] = ["null", "array", "object"];

/// What a schema allows.
#[derive(Default)]
struct Allowed {
    /// Terminals whose text is a string.
    texts: Vec<String>,
    /// Strings.
    constants: Vec<String>,
    /// Whether a type allows null, a list, an object, also where no such value can be valid: the parser reads text for
    /// what the types say.
    types: [bool; 3],
    /// Any text is a string.
    any_text: bool,
    /// Schemas of other values.
    values: Vec<Value>,
    /// References and choices followed.
    steps: usize,
}

/// Adds the rule for any text as a value, with its closing tag and the end of that line.
pub(super) fn free_text(lark: &mut Lark) -> String {
    let lines = lark.terminal(&format!("/({}\\n)*<\\/parameter>/", other_line()));
    lark.rule("", &format!(r#"{lines} "\n""#))
}

/// An expression for a line that does not begin with the closing tag: it leaves the tag at some character, or ends before.
/// Said this way, and not as a complement, a mask costs a tenth.
fn other_line() -> String {
    let tag = &CLOSE[1..];
    let ways: Vec<String> = tag
        .char_indices()
        .map(|(at, letter)| {
            let letter = if letter == '/' { r"\/".to_owned() } else { letter.to_string() };
            format!(r"{}([^\n{letter}][^\n]*)?", tag[..at].replace('/', r"\/"))
        })
        .collect();
    format!("({})", ways.join("|"))
}

/// Adds the rule for a value of a schema, with its closing tag and the end of that line.
pub(super) fn rule(schema: &Value, root: &Value, path: &str, lark: &mut Lark) -> Result<String, SchemaError> {
    let mut allowed = Allowed::default();
    collect(schema, root, path, 0, &mut allowed)?;
    let mut kinds = READ.map(|kind| allowed.values.iter().any(|value| may_be(value, kind)));
    kinds.iter_mut().zip(allowed.types).for_each(|(kind, by_type)| *kind |= by_type);
    for text in &allowed.constants {
        let begin = text.trim_start();
        let is_read = (kinds[0] && ["null", "None"].contains(&begin.trim_end()))
            || ((kinds[1] || kinds[2]) && begin.starts_with(['[', '{', '(']));
        if !is_read {
            // An empty literal is no terminal.
            allowed.texts.push(if text.is_empty() { r"/(x{0})/".to_owned() } else { literal(text) });
        }
    }
    let stringy = allowed.any_text || !allowed.texts.is_empty();
    if allowed.any_text && kinds == [false; 3] {
        return Ok(free_text(lark));
    }
    let mut choices = Vec::new();
    if stringy {
        let text = if allowed.any_text { "/(?s:.*)/".to_owned() } else { any_of(&allowed.texts) };
        let mut terminal = format!("{text} & {NO_CLOSING_LINE}");
        if kinds[0] {
            terminal.push_str(r" & ~/\s*(null|None)\s*/");
        }
        if kinds[1] || kinds[2] {
            terminal.push_str(r" & ~/\s*[\[{(](?s:.*)/");
        }
        let body = lark.terminal(&terminal);
        choices.push(lark.terminal(&format!("{body} {}", literal(CLOSE))));
        // Next to a string these could not be told from one.
        allowed.values.retain(|value| READ.iter().any(|kind| may_be(value, kind)));
    }
    if !allowed.values.is_empty() {
        let schema = match <[Value; 1]>::try_from(allowed.values) {
            Ok([only]) => only,
            Err(several) => json!({ "anyOf": several }),
        };
        choices.push(format!("{} {}", lark::json(&standalone(&schema, root)), literal(CLOSE)));
    }
    if choices.is_empty() {
        let reason = match allowed.constants.is_empty() {
            true => "allows no value",
            false => {
                "allows no value: text that reads like null, a list or an object is that where its type allows it"
            }
        };
        return Err(SchemaError::new(path, reason));
    }
    Ok(lark.rule("", &format!(r#"{} "\n""#, any_of(&choices))))
}

/// Adds what a schema allows.
fn collect(
    schema: &Value,
    root: &Value,
    path: &str,
    depth: usize,
    allowed: &mut Allowed,
) -> Result<(), SchemaError> {
    let fault = |step: &str, reason: &str| Err(SchemaError::new(join(path, step), reason));
    allowed.steps += 1;
    if allowed.steps > MAX_STEPS || depth > MAX_DEPTH {
        return fault("", "has too many choices of choices to be enforced for a parameter");
    }
    let fields = match schema {
        Value::Object(fields) => fields,
        Value::Bool(true) => &Map::new(),
        Value::Bool(false) => return Ok(()),
        _ => return fault("", "a schema must be an object, true or false"),
    };
    if let Some(key) = ["not", "if", "then", "else"].into_iter().find(|key| fields.contains_key(*key)) {
        return fault(key, "cannot be enforced");
    }
    let names: Option<Vec<&str>> = match fields.get("type") {
        Some(Value::String(kind)) => Some(vec![kind]),
        Some(Value::Array(kinds)) => kinds.iter().map(Value::as_str).collect(),
        Some(_) => None,
        None => Some(Vec::new()),
    };
    let Some(names) = names else { return fault("type", "must be a name or a list of names") };
    allowed.types.iter_mut().zip(READ).for_each(|(by_type, kind)| *by_type |= names.contains(&kind));
    let says = |key: &&String| !ANNOTATIONS.contains(&key.as_str());
    // What cannot be joined with other keys must stand alone (its `type` says nothing new).
    for key in ["$ref", "anyOf", "oneOf", "allOf"] {
        let Some(value) = fields.get(key) else { continue };
        if let Some(other) = fields.keys().filter(says).find(|other| *other != key && *other != "type") {
            return fault(shown(other), &format!("cannot be enforced beside {key}"));
        }
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        return match (key, list) {
            ("$ref", _) => match value.as_str().and_then(|reference| resolve(reference, root)) {
                Some(target) => collect(target, root, &join(path, key), depth + 1, allowed),
                None => fault(key, "leads nowhere within this schema"),
            },
            ("allOf", [only]) => collect(only, root, &join(path, "allOf[0]"), depth + 1, allowed),
            ("allOf", _) => fault(key, "cannot be enforced for a parameter unless it has one entry"),
            (_, []) => fault(key, "must be a list with entries"),
            _ => list.iter().enumerate().try_for_each(|(at, choice)| {
                collect(choice, root, &join(path, &format!("{key}[{at}]")), depth + 1, allowed)
            }),
        };
    }
    if let Some(values) = fields.get("enum").and_then(Value::as_array) {
        let mut valid = values.iter().filter(|value| is_of(value, &names));
        return valid.try_for_each(|value| constant(value, &join(path, "enum"), allowed));
    }
    if let Some(value) = fields.get("const") {
        if !is_of(value, &names) {
            return Ok(());
        }
        return constant(value, &join(path, "const"), allowed);
    }
    let mut kinds: Vec<&str> = match fields.get("type") {
        Some(_) => names,
        None if fields.contains_key("properties") => vec!["object"],
        None if fields.contains_key("items") => vec!["array"],
        None => match fields.keys().find(says) {
            Some(key) => return fault(shown(key), "cannot be enforced without a type"),
            None => {
                // Anything: as text it is read for what it is.
                allowed.any_text = true;
                return Ok(());
            }
        },
    };
    if fields.get("nullable") == Some(&Value::Bool(true)) {
        kinds.push("null");
    }
    if kinds.contains(&"string") {
        string(fields, path, allowed)?;
    }
    kinds.retain(|kind| *kind != "string");
    for kind in kinds {
        let mut one = fields.clone();
        one.insert("type".to_owned(), Value::String(kind.to_owned()));
        if kind == "null" {
            one = Map::from_iter([("type".to_owned(), "null".into())]);
        }
        allowed.values.push(Value::Object(one));
    }
    Ok(())
}

/// Adds one value.
fn constant(value: &Value, path: &str, allowed: &mut Allowed) -> Result<(), SchemaError> {
    match value {
        Value::String(text) if text.starts_with(&CLOSE[1..]) || text.contains(CLOSE) => {
            return Err(SchemaError::new(
                path,
                "a text with a line that begins with </parameter> cannot be a value",
            ));
        }
        Value::String(text) => allowed.constants.push(text.clone()),
        other => allowed.values.push(json!({ "const": other })),
    }
    Ok(())
}

/// Adds strings with what a schema asks of them.
fn string(fields: &Map<String, Value>, path: &str, allowed: &mut Allowed) -> Result<(), SchemaError> {
    let mut parts = Vec::new();
    let bound = |key: &str| fields.get(key).and_then(Value::as_u64);
    let (least, most) = (bound("minLength").unwrap_or(0), bound("maxLength"));
    if least > 0 || most.is_some() {
        let most = most.map_or(String::new(), |most| most.to_string());
        parts.push(format!("/(?s:.){{{least},{most}}}/"));
    }
    if let Some(pattern) = fields.get("pattern") {
        let place = || join(path, "pattern");
        let pattern = pattern.as_str().ok_or_else(|| SchemaError::new(place(), "must be a string"))?;
        parts.push(searched(pattern).map_err(|reason| SchemaError::new(place(), reason))?);
    }
    if fields.contains_key("format") {
        let reason = "cannot be enforced for a parameter; a pattern can";
        return Err(SchemaError::new(join(path, "format"), reason));
    }
    if parts.is_empty() {
        allowed.any_text = true;
    } else {
        allowed.texts.push(format!("({})", parts.join(" & ")));
    }
    Ok(())
}

/// A pattern, which may match anywhere in a text, as an expression for the whole text.
fn searched(pattern: &str) -> Result<String, &'static str> {
    let (begin, inner) = match pattern.strip_prefix('^') {
        Some(inner) => ("", inner),
        None => ("(?s:.*)", pattern),
    };
    let (inner, end) = match inner.strip_suffix('$') {
        Some(inner) if !inner.ends_with('\\') => (inner, ""),
        _ => (inner, "(?s:.*)"),
    };
    let expression = format!("{begin}({}){end}", llguidance::regex_to_lark(inner, "dw"));
    match regex_syntax::Parser::new().parse(&expression.replace("\\/", "/")) {
        Ok(hir) if hir.properties().look_set().is_empty() => Ok(format!("/{expression}/")),
        Err(_) if !pattern.contains("(?") => Err("cannot be read as a regular expression"),
        // Looking ahead and behind cannot be read either.
        _ => Err("cannot be enforced: ^ and $ may stand at its ends only, looking around nowhere"),
    }
}

/// Whether a value has one of these types; without any it may have each.
fn is_of(value: &Value, names: &[&str]) -> bool {
    names.is_empty()
        || names.iter().any(|name| match value {
            Value::Null => *name == "null",
            Value::Bool(_) => *name == "boolean",
            Value::Number(number) => {
                let is_whole =
                    || !number.is_f64() || number.as_f64().is_some_and(|value| value.fract() == 0.0);
                *name == "number" || (*name == "integer" && is_whole())
            }
            Value::String(_) => *name == "string",
            Value::Array(_) => *name == "array",
            Value::Object(_) => *name == "object",
        })
}

/// Whether a value of this type may be meant.
fn may_be(schema: &Value, kind: &str) -> bool {
    if let Some(value) = schema.get("const") {
        return match value {
            Value::Null => kind == "null",
            Value::Array(_) => kind == "array",
            Value::Object(_) => kind == "object",
            _ => false,
        };
    }
    schema.get("type").is_some_and(|own| own == kind)
}
