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
use serde_json::{Map, Value, json};

/// How many references and choices are followed for one parameter, and how many of them one behind the other.
const MAX_STEPS: usize = 4_096;
const MAX_DEPTH: usize = 32;

/// Text that holds no line beginning with the closing tag, as a regular expression's complement.
const NO_CLOSING_LINE: &str = r"~/((?s:.*)\n)?<\/parameter>(?s:.*)/";
const CLOSE: &str = "\n</parameter>";

/// What a schema allows.
#[derive(Default)]
struct Allowed {
    /// Terminals whose text is a string.
    texts: Vec<String>,
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
    let stringy = allowed.any_text || !allowed.texts.is_empty();
    let kinds =
        ["null", "array", "object"].map(|kind| allowed.values.iter().any(|value| may_be(value, kind)));
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
        allowed.values.retain(|value| ["null", "array", "object"].iter().any(|kind| may_be(value, kind)));
    }
    if !allowed.values.is_empty() {
        let schema = match <[Value; 1]>::try_from(allowed.values) {
            Ok([only]) => only,
            Err(several) => json!({ "anyOf": several }),
        };
        choices.push(format!("{} {}", lark::json(&standalone(&schema, root)), literal(CLOSE)));
    }
    if choices.is_empty() {
        return Err(SchemaError::new(path, "allows no value"));
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
    let says = |key: &&String| !ANNOTATIONS.contains(&key.as_str());
    // What cannot be joined with other keys must stand alone (its `type` says nothing new).
    for key in ["$ref", "anyOf", "oneOf", "allOf"] {
        let Some(value) = fields.get(key) else { continue };
        if let Some(other) = fields.keys().filter(says).find(|other| *other != key && *other != "type") {
            return fault(other, &format!("cannot be enforced beside {key}"));
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
        return values.iter().try_for_each(|value| constant(value, &join(path, "enum"), allowed));
    }
    if let Some(value) = fields.get("const") {
        return constant(value, &join(path, "const"), allowed);
    }
    let mut kinds: Vec<&str> = match fields.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(_) => return fault("type", "must be a name or a list of names"),
        None if fields.contains_key("properties") => vec!["object"],
        None if fields.contains_key("items") => vec!["array"],
        None => match fields.keys().find(says) {
            Some(key) => return fault(key, "cannot be enforced without a type"),
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
        // An empty literal is no terminal.
        Value::String(text) if text.is_empty() => allowed.texts.push(r"/(x{0})/".to_owned()),
        Value::String(text) => allowed.texts.push(literal(text)),
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
        parts.push(searched(pattern).ok_or_else(|| {
            SchemaError::new(
                place(),
                "cannot be enforced: ^ and $ may stand at its ends only, looking around nowhere",
            )
        })?);
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
fn searched(pattern: &str) -> Option<String> {
    let (begin, inner) = match pattern.strip_prefix('^') {
        Some(inner) => ("", inner),
        None => ("(?s:.*)", pattern),
    };
    let (inner, end) = match inner.strip_suffix('$') {
        Some(inner) if !inner.ends_with('\\') => (inner, ""),
        _ => (inner, "(?s:.*)"),
    };
    let expression = format!("{begin}({}){end}", llguidance::regex_to_lark(inner, "dw"));
    let hir = regex_syntax::Parser::new().parse(&expression.replace("\\/", "/")).ok()?;
    hir.properties().look_set().is_empty().then(|| format!("/{expression}/"))
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
