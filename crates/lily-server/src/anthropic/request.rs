//! Reading a request in Anthropic's format.

use super::content::read_messages;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::guided::Form;
use crate::request::foreign::{self, Route};
use crate::request::format::{AnswerSchema, read_flat};
use crate::request::tools::{self, Tool, ToolChoice};
use crate::request::{
    Conversation, Input, Request, body_fields, deadline, sampling, stop_strings, thinking, unsupported,
};
use crate::state::Server;
use lily_text::json::Value;

impl Request {
    /// Reads the body of `POST /v1/messages`.
    ///
    /// Without `thinking` the model does not think, as in the original, unless the server is set to have it think: a
    /// client that did not ask for thinking expects the answer in the first content block. `budget_tokens` is checked
    /// and otherwise a hint: this model's thinking has no budget but `max_tokens`.
    pub(crate) fn from_anthropic(body: Value, server: &Server) -> Result<Self, ApiError> {
        let limits = &server.config.limits;
        let mut fields = body_fields(body, server)?;
        foreign::refuse(&fields, Route::Messages)?;
        check_unsupported(&mut fields)?;
        let messages = read_messages(&mut fields, limits.messages)?;
        let tools = read_tools(&mut fields, limits.tools)?;
        let (choice, parallel) = read_choice(&mut fields, &tools)?;
        let answer = read_output(&mut fields)?;
        let kwargs = read_kwargs(&mut fields, server)?;
        let form = Form::new(tools, choice, parallel, answer);
        let stop = stop_strings(&mut fields, "stop_sequences", &form, server)?;
        let max_tokens = fields.integer("max_tokens", 1, i64::MAX)?;
        Ok(Self {
            input: Input::Chat(Conversation { messages, kwargs, form }),
            sampling: sampling::read(&mut fields, server)?,
            max_tokens: max_tokens.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            stop,
            logprobs: None,
            choices: 1,
            stream: fields.boolean("stream")?.unwrap_or(false),
            include_usage: false,
            include_progress: false,
            deadline: deadline(&mut fields, limits.deadline)?,
        })
    }
}

fn check_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["mcp_servers", "container"] {
        if fields.get(name).is_some_and(|value| *value != Value::Array(Vec::new())) {
            return Err(ApiError::unsupported(name, "is not supported by this server"));
        }
    }
    for name in ["stop", "n", "logprobs", "response_format"] {
        if fields.get(name).is_some() {
            return Err(ApiError::unsupported(name, "is not a parameter of this route"));
        }
    }
    unsupported::allow(fields, "service_tier", &["auto", "standard_only"])
}

/// Tools in this format, as chat completions has them. Tools with a type of their own run on the vendor's servers (or
/// have schemas that only its models know) and are left out.
fn read_tools(fields: &mut Fields, most: usize) -> Result<Vec<Tool>, ApiError> {
    tools::read_list(fields, most, |mut tool, wire| {
        if tool.string("type")?.is_some_and(|kind| kind != "custom") {
            return Ok(None);
        }
        let part = |name: &str| wire.get(name).filter(|value| **value != Value::Null).cloned();
        let function = vec![
            ("name", part("name")),
            ("description", part("description")),
            ("parameters", part("input_schema")),
            ("strict", part("strict")),
        ];
        Tool::read(tool, "input_schema", tools::wire(function)).map(Some)
    })
}

/// `tool_choice`, and whether more than one call may be made.
fn read_choice(fields: &mut Fields, tools: &[Tool]) -> Result<(ToolChoice, bool), ApiError> {
    const PATH: &str = "tool_choice";
    let Some(mut choice) = fields.object(PATH)? else { return Ok((ToolChoice::Auto, true)) };
    let parallel = !choice.boolean("disable_parallel_tool_use")?.unwrap_or(false);
    let kind = choice.string("type")?.ok_or_else(|| ApiError::invalid("tool_choice.type", "is missing"))?;
    let choice = match kind.as_str() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => tools::required(PATH, tools)?,
        "tool" => tools::named(choice.string("name")?, "tool_choice.name", tools)?,
        _ => return Err(ApiError::invalid("tool_choice.type", "must be auto, any, tool or none")),
    };
    Ok((choice, parallel))
}

/// `output_config`, and `output_format`, an older name of its `format`.
fn read_output(fields: &mut Fields) -> Result<Option<AnswerSchema>, ApiError> {
    let older = read_flat(fields.object("output_format")?)?;
    let Some(mut output) = fields.object("output_config")? else { return Ok(older) };
    // Efforts grade an answer that this model gives in one grade; they do not switch thinking here.
    if let Some(effort) = output.string("effort")? {
        thinking::parse_effort("output_config.effort", &effort)?;
    }
    Ok(read_flat(output.object("format")?)?.or(older))
}

/// The template variables: the general switches, with `thinking` as a spelling of its own here.
fn read_kwargs(fields: &mut Fields, server: &Server) -> Result<Vec<(String, Value)>, ApiError> {
    let mut asked = None;
    if let Some(mut thinking) = fields.object("thinking")? {
        let kind =
            thinking.string("type")?.ok_or_else(|| ApiError::invalid("thinking.type", "is missing"))?;
        thinking.integer("budget_tokens", 1, i64::MAX)?;
        asked = Some(match kind.as_str() {
            "enabled" | "adaptive" => true,
            "disabled" => false,
            _ => return Err(ApiError::invalid("thinking.type", "must be enabled, adaptive or disabled")),
        });
    }
    let fallback = server.config.thinking.is_none().then_some(false);
    thinking::read_kwargs(fields, &server.config, asked.or(fallback))
}
