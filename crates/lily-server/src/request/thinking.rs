//! Whether the model thinks: the switches that clients use, and the template variables behind them.
//!
//! Strongest first: `chat_template_kwargs.enable_thinking` and its top-level alias `enable_thinking` (they must not
//! contradict each other), then `reasoning_effort` and what a format has in its place (neither may these), then the
//! server's own setting, then the template. The model knows thinking and not thinking and no degrees between: an effort
//! of `none` or `minimal` is off, any other is on.

use crate::ServerConfig;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use lily_text::json::Value;

/// Marks thinking that this server gave out in a field that elsewhere holds a vendor's secret (`encrypted_content`,
/// `signature`): a client that keeps only that field can hand the thinking back. It is the plain text; there is no one
/// to hide it from.
pub(crate) const CARRIED: &str = "lily:";

const SWITCH: &str = "enable_thinking";
const NESTED: &str = "chat_template_kwargs.enable_thinking";
const PRESERVE: &str = "preserve_thinking";

/// Variables of a template that are not the client's to set.
const SET: [&str; 3] = ["messages", "tools", "add_generation_prompt"];

/// What templates call: a value in its place would break them, and the fault would seem to be in the messages.
const FUNCTIONS: [&str; 5] = ["raise_exception", "strftime_now", "namespace", "range", "dict"];

/// What a wire format says of thinking in its own way.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Asked {
    /// The parameter that says it, and what.
    pub(crate) thinking: Option<(&'static str, bool)>,
    /// What holds if nobody says anything, the server included.
    pub(crate) absent: Option<bool>,
    /// Whether thinking of earlier turns is to be kept.
    pub(crate) preserve: Option<bool>,
}

/// The template variables of a request. `asked` ranks with `reasoning_effort`, which must not contradict it; the
/// general switches are stronger than both.
pub(crate) fn read_kwargs(
    fields: &mut Fields,
    config: &ServerConfig,
    asked: Asked,
) -> Result<Vec<(String, Value)>, ApiError> {
    let mut kwargs = match fields.object("chat_template_kwargs")? {
        Some(kwargs) => kwargs.into_rest(),
        None => Vec::new(),
    };
    for (names, reason) in [
        (SET.as_slice(), "is set by the server and cannot be replaced"),
        (FUNCTIONS.as_slice(), "is a function of templates and cannot be replaced"),
    ] {
        if let Some(name) = names.iter().find(|name| kwargs.iter().any(|(key, _)| key == *name)) {
            return Err(ApiError::invalid(format!("chat_template_kwargs.{name}"), reason));
        }
    }
    let nested = boolean(&kwargs, SWITCH)?.is_some();
    for name in [SWITCH, PRESERVE] {
        let inner = boolean(&kwargs, name)?;
        match (fields.boolean(name)?, inner) {
            (Some(outer), Some(inner)) if outer != inner => {
                return Err(ApiError::invalid(name, format_args!("contradicts chat_template_kwargs.{name}")));
            }
            (Some(outer), None) => kwargs.push((name.to_owned(), Value::Bool(outer))),
            _ => {}
        }
    }
    if let Some(preserve) = asked.preserve
        && boolean(&kwargs, PRESERVE)?.is_none()
    {
        kwargs.retain(|(key, _)| key != PRESERVE);
        kwargs.push((PRESERVE.to_owned(), Value::Bool(preserve)));
    }
    let effort = read_effort(fields)?;
    if let (Some(effort), Some((name, own))) = (effort, asked.thinking)
        && effort != own
    {
        return Err(ApiError::invalid("reasoning_effort", format_args!("contradicts {name}")));
    }
    let asked_for = effort.map(|effort| ("reasoning_effort", effort)).or(asked.thinking);
    match boolean(&kwargs, SWITCH)? {
        Some(switch) => {
            let path = if nested { NESTED } else { SWITCH };
            check_forced(path, switch, config)?;
        }
        None => {
            if let Some((path, thinking)) = asked_for {
                check_forced(path, thinking, config)?;
            }
            let wanted = asked_for.map(|(_, thinking)| thinking);
            set(&mut kwargs, wanted.or(config.thinking).or(asked.absent));
        }
    }
    Ok(kwargs)
}

/// Refuses what asks for other thinking than the server's, where that is forced.
fn check_forced(path: &str, thinking: bool, config: &ServerConfig) -> Result<(), ApiError> {
    match config.thinking.filter(|_| config.force_thinking) {
        Some(forced) if forced != thinking => {
            let state = if forced { "on" } else { "off" };
            Err(ApiError::unsupported(path, format_args!("thinking is always {state} on this server")))
        }
        _ => Ok(()),
    }
}

fn set(kwargs: &mut Vec<(String, Value)>, thinking: Option<bool>) {
    if let Some(thinking) = thinking {
        kwargs.retain(|(key, _)| key != SWITCH);
        kwargs.push((SWITCH.to_owned(), Value::Bool(thinking)));
    }
}

/// `reasoning_effort`, as thinking on or off.
fn read_effort(fields: &mut Fields) -> Result<Option<bool>, ApiError> {
    let path = fields.at("reasoning_effort");
    fields.string("reasoning_effort")?.map(|effort| parse_effort(&path, &effort)).transpose()
}

/// An effort's word, as thinking on or off.
pub(crate) fn parse_effort(path: &str, effort: &str) -> Result<bool, ApiError> {
    match effort {
        "none" | "minimal" => Ok(false),
        "low" | "medium" | "high" | "xhigh" | "max" => Ok(true),
        _ => Err(ApiError::invalid(path, "must be none, minimal, low, medium, high, xhigh or max")),
    }
}

fn boolean(kwargs: &[(String, Value)], name: &str) -> Result<Option<bool>, ApiError> {
    match kwargs.iter().find(|(key, _)| key == name) {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, Value::Bool(value))) => Ok(Some(*value)),
        Some((_, other)) => Err(wrong(&format!("chat_template_kwargs.{name}"), "true or false", other)),
    }
}
