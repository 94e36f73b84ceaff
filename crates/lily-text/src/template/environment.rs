//! The Jinja environment that Hugging Face renders chat templates in.
#![expect(clippy::needless_pass_by_value, reason = "the engine hands arguments over by value")]

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Rest;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

use super::python::Budget;
use super::{TemplateError, filters, methods, python, strftime};

/// The name under which the template is stored.
const NAME: &str = "chat_template";
/// The variable that holds the time at which rendering began.
pub(super) const NOW: &str = "__lily_now";
/// How deep macros and blocks may nest.
const MAX_RECURSION: usize = 100;

/// A compiled template.
#[derive(Debug)]
pub(super) struct Compiled {
    environment: Environment<'static>,
}

impl Compiled {
    pub(super) fn new(source: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(broken)?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_recursion_limit(MAX_RECURSION);
        environment.set_unknown_method_callback(methods::call);
        environment.set_formatter(|out, state, value| {
            let written = match value.as_str() {
                Some(text) => out.write_str(text),
                None => out.write_str(&python::to_str(value, Budget::of(state))?),
            };
            written.map_err(|_| Error::new(ErrorKind::WriteFailure, "the output could not be written"))
        });
        filters::add_to(&mut environment);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, prepare(source)).map_err(broken)?;
        Ok(Compiled { environment })
    }

    /// Renders with top-level variables. One unit of fuel is an instruction or 64 bytes of text.
    pub(super) fn render(&self, variables: Value, fuel: u64) -> Result<String, TemplateError> {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        environment.get_template(NAME).and_then(|template| template.render(variables)).map_err(broken)
    }
}

/// What Jinja2 and Hugging Face do to a source before it is parsed: newlines are unified, and the `generation` blocks
/// that mark a model's own words for training are transparent.
fn prepare(source: &str) -> String {
    let mut out = source.replace("\r\n", "\n").replace('\r', "\n");
    for (tag, replacement) in [("endgeneration", "endif"), ("generation", "if true")] {
        for open in ["{%", "{%-", "{%+"] {
            for close in ["%}", "-%}", "+%}"] {
                for blank in [" ", ""] {
                    let found = format!("{open}{blank}{tag}{blank}{close}");
                    if out.contains(&found) {
                        out = out.replace(&found, &format!("{open} {replacement} {close}"));
                    }
                }
            }
        }
    }
    out
}

/// Carries the template's own words through the engine's error.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let mut words = python::to_str(message, Budget::of(state))?;
    if words.trim().is_empty() {
        "the chat template refused the request and gave no reason".clone_into(&mut words);
    }
    Err(Error::new(ErrorKind::InvalidOperation, words.clone()).with_source(Refusal(words)))
}

fn strftime_now(state: &State, format: &Value, _rest: Rest<Value>) -> Result<Value, Error> {
    let format =
        format.as_str().ok_or_else(|| filters::invalid("strftime_now: the format must be a string"))?;
    let now = state.lookup(NOW).and_then(|now| now.as_i64()).unwrap_or_else(strftime::now);
    Ok(Value::from(strftime::strftime(now, format)))
}

fn broken(error: Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(current) = cause {
        if let Some(refusal) = current.downcast_ref::<Refusal>() {
            return TemplateError::Refused(refusal.0.clone());
        }
        cause = current.source();
    }
    let message = match error.kind() {
        ErrorKind::OutOfFuel => "it does too much work or writes too much text for this request".to_owned(),
        kind => match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind.to_string(),
        },
    };
    TemplateError::Broken { line: error.line().unwrap_or(0), message }
}
