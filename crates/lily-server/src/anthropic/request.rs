//! Reading a request in Anthropic's format.

use super::content::read_messages;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::guided::Form;
use crate::request::foreign::{self, Route};
use crate::request::format::{AnswerSchema, read_flat};
use crate::request::thinking::{self, Asked};
use crate::request::tools::{self, Tool, ToolChoice};
use crate::request::{
    Conversation, Input, Request, body_fields, deadline, idle, sampling, stop_strings, unsupported,
};
use crate::state::Server;
use lily_text::json::Value;

impl Request {
    /// Reads the body of `POST /v1/messages`.
    ///
    /// Without `thinking` or an effort the model does not think, as in the original, unless the server is set to have it
    /// think: a client that did not ask for thinking expects the answer in the first content block. `budget_tokens` is
    /// checked and otherwise a hint: this model's thinking has no budget but `max_tokens`.
    pub(crate) fn from_anthropic(body: Value, server: &Server) -> Result<Self, ApiError> {
        let limits = &server.config.limits;
        let mut fields = body_fields(body, server)?;
        foreign::refuse(&fields, Route::Messages)?;
        check_unsupported(&mut fields)?;
        let messages = read_messages(&mut fields, limits.messages)?;
        let tools = read_tools(&mut fields, limits.tools)?;
        let (choice, parallel) = read_choice(&mut fields, &tools)?;
        let (answer, effort) = read_output(&mut fields)?;
        let (thinking, hide_thinking) = read_thinking(&mut fields, effort)?;
        let asked = Asked { thinking, absent: Some(false), preserve: read_context(&mut fields)? };
        let kwargs = thinking::read_kwargs(&mut fields, &server.config, asked)?;
        let form = Form::new(tools, choice, parallel, answer);
        let stop = stop_strings(&mut fields, "stop_sequences", &form, server)?;
        let max_tokens = fields.integer("max_tokens", 1, i64::MAX)?;
        let request = Self {
            input: Input::Chat(Conversation { messages, kwargs, form }),
            sampling: sampling::read(&mut fields, server)?,
            max_tokens: max_tokens.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            stop,
            logprobs: None,
            choices: 1,
            stream: fields.boolean("stream")?.unwrap_or(false),
            include_usage: false,
            include_progress: false,
            hide_thinking,
            deadline: deadline(&mut fields, limits.deadline)?,
        };
        foreign::finish(fields, Route::Messages)?;
        Ok(request)
    }
}

/// The code by which the vendor's clients know to go on without a thread: their tool runner asks for one first.
pub(super) const NO_THREADS: &str = "thread_unsupported_request";

fn check_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["stop", "n", "logprobs", "response_format"] {
        if fields.get(name).is_some() {
            return Err(ApiError::unsupported(name, "is not a parameter of this route"));
        }
    }
    if fields.get("thread").is_some() {
        let reason = "is not a parameter of this route; send the whole conversation";
        let error = ApiError::unsupported("thread", reason);
        return Err(ApiError { code: Some(NO_THREADS), ..error });
    }
    unsupported::allow(fields, "service_tier", &["auto", "standard_only"])
}

/// Tools that the client runs, by schemas that only the vendor's models know: what their types begin with.
const BY_THE_CLIENT: [&str; 4] = ["bash_", "computer_", "memory_", "text_editor_"];

/// Tools in this format, as chat completions has them. Other tools that run on the vendor's servers are left out; a
/// client that would run them itself waits for calls, and is told that there will be none.
fn read_tools(fields: &mut Fields, most: usize) -> Result<Vec<Tool>, ApiError> {
    tools::read_list(fields, most, |mut tool, wire| {
        match tool.string("type")?.as_deref() {
            None | Some("custom") => {}
            Some("function") => {
                let reason = "is of another API; a tool of this route has name, description and input_schema \
                              beside each other, and type custom or none";
                return Err(ApiError::unsupported(tool.at("type"), reason));
            }
            Some(kind) if BY_THE_CLIENT.iter().any(|start| kind.starts_with(start)) => {
                let reason = "only function tools are served: this model does not know the schema of that type; \
                              send name, description and input_schema";
                return Err(ApiError::unsupported(tool.at("type"), reason));
            }
            Some(_) => return Ok(None),
        }
        idle::cache_control(&mut tool)?;
        // Arguments are always sent while they are written.
        tool.boolean("eager_input_streaming")?;
        tool.array("input_examples")?;
        tools::check_deferred(&mut tool)?;
        let part = |name: &str| wire.get(name).filter(|value| **value != Value::Null).cloned();
        let function = vec![
            ("name", part("name")),
            ("description", part("description")),
            ("parameters", part("input_schema")),
            ("strict", part("strict")),
            ("input_examples", part("input_examples")),
        ];
        Tool::read(tool, "input_schema", tools::wire(function)).map(Some)
    })
}

/// `tool_choice`, and whether more than one call may be made.
fn read_choice(fields: &mut Fields, tools: &[Tool]) -> Result<(ToolChoice, bool), ApiError> {
    const PATH: &str = "tool_choice";
    let mut choice = match fields.take(PATH) {
        None => return Ok((ToolChoice::Auto, true)),
        Some(value @ Value::Object(_)) => Fields::new(PATH, value)?,
        Some(other) => return Err(wrong(PATH, "an object with a type (auto, any, tool or none)", &other)),
    };
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

/// `output_config`: the form of an answer, also by its older name `output_format`, and its effort.
fn read_output(fields: &mut Fields) -> Result<(Option<AnswerSchema>, Option<bool>), ApiError> {
    let older = fields.object("output_format")?;
    let Some(mut output) = fields.object("output_config")? else { return Ok((read_flat(older)?, None)) };
    let effort = output.string("effort")?;
    let effort = effort.map(|effort| thinking::parse_effort("output_config.effort", &effort)).transpose()?;
    if output.get("task_budget").is_some() {
        return Err(ApiError::unsupported("output_config.task_budget", "is not supported; send max_tokens"));
    }
    match (output.object("format")?, older) {
        (Some(_), Some(_)) => Err(ApiError::invalid(
            "output_format",
            "is the older name of output_config.format; send one of them",
        )),
        (format, older) => Ok((read_flat(format.or(older))?, effort)),
    }
}

/// The parameter that says whether the model thinks, and what it says.
type Thinks = Option<(&'static str, bool)>;

/// `thinking`, and the effort of the output where that is absent: the two together say how much is thought, and this
/// model thinks or does not. An effort beside `disabled` is no contradiction, as answers have efforts too. Also whether what is thought is to be hidden.
fn read_thinking(fields: &mut Fields, effort: Option<bool>) -> Result<(Thinks, bool), ApiError> {
    let Some(mut thinking) = fields.object("thinking")? else {
        return Ok((effort.map(|effort| ("output_config.effort", effort)), false));
    };
    let kind = thinking.string("type")?.ok_or_else(|| ApiError::invalid("thinking.type", "is missing"))?;
    thinking.integer("budget_tokens", 1, i64::MAX)?;
    let hide = match thinking.string("display")?.as_deref() {
        None | Some("summarized") => false,
        Some("omitted") => true,
        Some(_) => return Err(ApiError::invalid("thinking.display", "must be summarized or omitted")),
    };
    let thinks = match kind.as_str() {
        "enabled" | "adaptive" => true,
        "disabled" => false,
        _ => return Err(ApiError::invalid("thinking.type", "must be enabled, adaptive or disabled")),
    };
    if thinks && effort == Some(false) {
        return Err(ApiError::invalid("output_config.effort", "contradicts thinking"));
    }
    Ok((Some(("thinking", thinks)), hide))
}

/// `context_management`: true where it asks for the thinking of all earlier turns to stay. No other edit can be honoured:
/// the prompt is what the request says.
fn read_context(fields: &mut Fields) -> Result<Option<bool>, ApiError> {
    let Some(mut management) = fields.object("context_management")? else { return Ok(None) };
    let mut preserve = None;
    for (index, edit) in management.array("edits")?.unwrap_or_default().into_iter().enumerate() {
        let mut edit = Fields::new(&format!("context_management.edits[{index}]"), edit)?;
        let path = edit.at("type");
        let kind = edit.string("type")?.ok_or_else(|| ApiError::invalid(&path, "is missing"))?;
        if !kind.starts_with("clear_thinking_") {
            return Err(ApiError::unsupported(path, "the context is not edited here"));
        }
        let keep = edit.take("keep");
        let says_all = |value: &Value| value.as_str() == Some("all");
        if !keep.is_some_and(|keep| says_all(&keep) || keep.get("type").is_some_and(says_all)) {
            let reason = "must be all; thinking is not cleared by counts of turns here";
            return Err(ApiError::unsupported(edit.at("keep"), reason));
        }
        preserve = Some(true);
    }
    Ok(preserve)
}
