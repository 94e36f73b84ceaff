//! The grammar of calls, in the form that the template shows.

use super::arguments;
use super::lark::{self, Lark, any_of, literal};
use super::{Function, Rules, RulesError};
use crate::{TokenId, Tokenizer};

/// Opens and closes a call.
pub(super) const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

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
    for (index, function) in rules.functions.iter().enumerate() {
        let fault = |error| RulesError::Function { index, error };
        functions.push(arguments::rule(function, guide(function), lark).map_err(fault)?);
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

/// A tag: its token where the vocabulary has one, as the model was taught, else its text.
fn tag(spelling: &str, tokenizer: &Tokenizer) -> String {
    let id = tokenizer.token_id(spelling);
    let added = |id: &TokenId| tokenizer.added_tokens().contains(id);
    id.filter(added).map_or_else(|| literal(spelling), lark::token)
}
