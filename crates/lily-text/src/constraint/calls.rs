//! The grammar of calls, in the form that the template shows.

use super::arguments;
use super::lark::{self, Lark, any_of, literal};
use super::{Function, Rules, RulesError, SchemaError};
use crate::json::Value;
use crate::{TokenId, Tokenizer};

/// Opens and closes a call.
pub(super) const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

/// Objects within the schemas of all functions whose arguments keep to them: a schema is one, and so are its properties.
const MAX_OBJECTS: usize = 8_192;

/// Adds the rule for one or more calls; `opened` is true if the first `<tool_call>` has been read. `guide` tells for
/// each function whether its arguments keep to its schema although it is not strict.
pub(super) fn rule(
    rules: &Rules<'_>,
    opened: bool,
    guide: impl Fn(&Function<'_>) -> bool,
    tokenizer: &Tokenizer,
    lark: &mut Lark,
) -> Result<String, RulesError> {
    let mut functions = Vec::with_capacity(rules.functions.len());
    let mut schemas = 0;
    for (index, function) in rules.functions.iter().enumerate() {
        let fault = |error| RulesError::Function { index, error };
        let own = function.parameters.map_or(0, objects);
        let fits = schemas + own <= MAX_OBJECTS;
        if function.strict && !fits {
            let reason = format!(
                "the schemas of tools that are held to them are too large: they have more than {MAX_OBJECTS} objects \
                 together"
            );
            return Err(fault(SchemaError::new("", reason)));
        }
        let guided = function.strict || (fits && guide(function));
        if guided {
            schemas += own;
        }
        functions.push(arguments::rule(function, guided, lark).map_err(fault)?);
    }
    if functions.is_empty() {
        return Err(RulesError::NothingToCall);
    }
    let body = lark.rule("", &format!(r#""\n" {} "\n" {}"#, any_of(&functions), tag(CLOSE, tokenizer)));
    let call = lark.rule("", &format!("{} {body}", tag(OPEN, tokenizer)));
    let first = if opened { &body } else { &call };
    if rules.parallel {
        let more = lark.rule("", &format!(r#""\n" {call}"#));
        Ok(lark.rule("", &format!("{first} {more}*")))
    } else {
        Ok(lark.rule("", first))
    }
}

/// Objects within a value, itself included.
fn objects(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(objects).sum(),
        Value::Object(fields) => 1 + fields.iter().map(|(_, value)| objects(value)).sum::<usize>(),
        _ => 0,
    }
}

/// A tag: its token where the vocabulary has one, as the model was taught, else its text.
fn tag(spelling: &str, tokenizer: &Tokenizer) -> String {
    let id = tokenizer.token_id(spelling);
    let added = |id: &TokenId| tokenizer.added_tokens().contains(id);
    id.filter(added).map_or_else(|| literal(spelling), lark::token)
}
