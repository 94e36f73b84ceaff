//! Reading `POST /v1/responses`.

use super::input;
use super::items::Item;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::guided::Form;
use crate::request::foreign::{self, Route};
use crate::request::format::{AnswerSchema, read_flat};
use crate::request::thinking::{self, Asked};
use crate::request::tools::{self, Tool};
use crate::request::{
    Conversation, Input, Request, body_fields, deadline, sampling, stop_strings, stream_options, system,
    unsupported,
};
use crate::state::Server;
use lily_text::json::Value;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// What a response repeats of its request, and what becomes of it.
#[derive(Default)]
pub(super) struct Terms {
    /// Fields of the response object. They may be as large as a request, and are written several times: they are text
    /// by then.
    pub(super) echo: Vec<(&'static str, Box<RawValue>)>,
    /// The input of this request as a list of items.
    pub(super) input: Vec<Item>,
    /// The conversation so far as messages, without instructions.
    pub(super) messages: Vec<Value>,
    /// Bytes of these messages as JSON, about.
    pub(super) bytes: usize,
    /// Keep the response.
    pub(super) store: bool,
    /// Carry the thinking in `encrypted_content` too.
    pub(super) carry_reasoning: bool,
    /// Log-probabilities in the text.
    pub(super) logprobs: bool,
}

/// Reads a body.
pub(super) fn read(body: Value, server: &Server) -> Result<(Request, Terms), ApiError> {
    let limits = &server.config.limits;
    let mut fields = body_fields(body, server)?;
    let mut echo = echo(&fields)?;
    foreign::refuse(&fields, Route::Responses)?;
    check_unsupported(&mut fields)?;
    let answer = read_text(&mut fields)?;
    let (carry_reasoning, text_logprobs) = read_include(&mut fields)?;
    let top = fields.integer("top_logprobs", 0, 20)?;
    let logprobs = (text_logprobs || top.is_some()).then_some(top.unwrap_or(0) as usize);

    let (mut messages, items) = read_conversation(&mut fields, server, limits.messages)?;
    let remembered = messages.clone();
    if let Some(instructions) = fields.string("instructions")? {
        messages.insert(0, system::message("system", vec![("content", Value::String(instructions))]));
    }
    let tools = read_tools(&mut fields, limits.tools)?;
    let choice = tools::read_choice(&mut fields, &tools, false)?;
    let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    let form = Form::new(tools, choice, parallel, answer);
    let asked = read_reasoning(&mut fields)?;
    let kwargs = thinking::read_kwargs(&mut fields, &server.config, asked)?;
    let store = fields.boolean("store")?.unwrap_or(true);
    let max_tokens = fields.integer("max_output_tokens", 1, i64::MAX)?;
    let sampling = sampling::read(&mut fields, server)?;
    echo.push(("temperature", raw(&shortest(sampling.temperature))?));
    echo.push(("top_p", raw(&shortest(sampling.top_p))?));
    let stop = stop_strings(&mut fields, "stop", &form, server)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    // A stream of this route ends with its usage always.
    if stream_options::read(&mut fields, stream)?.progress {
        let reason = "is not supported on this route; see /v1/chat/completions";
        return Err(ApiError::unsupported("stream_options.include_progress", reason));
    }
    let conversation = Conversation { messages: system::gather(messages), kwargs, form };
    let request = Request {
        input: Input::Chat(conversation),
        sampling,
        max_tokens: max_tokens.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        stop,
        logprobs,
        choices: 1,
        stream,
        include_usage: false,
        include_progress: false,
        hide_thinking: false,
        deadline: deadline(&mut fields, limits.deadline)?,
    };
    foreign::finish(fields, Route::Responses)?;
    let terms = Terms {
        echo,
        input: items,
        bytes: remembered.iter().map(|message| message.to_python_json().len()).sum(),
        messages: remembered,
        store,
        carry_reasoning,
        logprobs: logprobs.is_some(),
    };
    Ok((request, terms))
}

/// A number as its reader wrote it: 0.7, and not the digits of its 32 bits in 64.
fn shortest(number: f32) -> serde_json::Value {
    serde_json::from_str(&number.to_string()).unwrap_or_else(|_| number.into())
}

fn check_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    if fields.boolean("background")? == Some(true) {
        return Err(ApiError::unsupported(
            "background",
            "answers are given while the client waits; send false",
        ));
    }
    for name in ["prompt", "conversation"] {
        if fields.get(name).is_some() {
            return Err(ApiError::unsupported(name, "is not supported; send instructions and input"));
        }
    }
    for name in ["messages", "response_format", "max_tokens", "max_completion_tokens", "n"] {
        if fields.get(name).is_some() {
            return Err(ApiError::unsupported(name, "is not a parameter of this route"));
        }
    }
    unsupported::allow(fields, "truncation", &["disabled"])?;
    unsupported::allow(fields, "service_tier", &["auto", "default"])?;
    Ok(())
}

/// `text`: the form of the answer.
fn read_text(fields: &mut Fields) -> Result<Option<AnswerSchema>, ApiError> {
    let Some(mut text) = fields.object("text")? else { return Ok(None) };
    unsupported::allow(&mut text, "verbosity", &["medium"])?;
    read_flat(text.object("format")?)
}

/// The fields that a response repeats as they came.
fn echo(fields: &Fields) -> Result<Vec<(&'static str, Box<RawValue>)>, ApiError> {
    let absent = |name| match name {
        "metadata" => serde_json::json!({}),
        "parallel_tool_calls" | "store" => true.into(),
        "reasoning" => serde_json::json!({"effort": null, "summary": null}),
        "text" => serde_json::json!({"format": {"type": "text"}}),
        "tool_choice" => "auto".into(),
        "tools" => serde_json::json!([]),
        "top_logprobs" => 0.into(),
        _ => serde_json::Value::Null,
    };
    let names = [
        "instructions",
        "max_output_tokens",
        "metadata",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "store",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "user",
    ];
    let text = |name| fields.get(name).map_or_else(|| raw(&absent(name)), raw);
    names.into_iter().map(|name| Ok((name, text(name)?))).collect()
}

/// A value as JSON text.
pub(super) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, ApiError> {
    to_raw_value(value).map_err(|_| ApiError::internal("a value could not be written as JSON"))
}

/// What `include` may ask for.
const OWN: [&str; 2] = ["reasoning.encrypted_content", "message.output_text.logprobs"];

/// What `include` may ask of tools that run on a vendor's servers, and of input that this model does not read.
const OF_A_VENDOR: [&str; 6] = [
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
];

/// `include`: what of it is honoured. Results of tools that run on a vendor's servers cannot be asked for: there are
/// no such tools here, so there are no such results to leave out.
fn read_include(fields: &mut Fields) -> Result<(bool, bool), ApiError> {
    let (mut carry, mut logprobs) = (false, false);
    for (index, item) in fields.array("include")?.unwrap_or_default().into_iter().enumerate() {
        match item.as_str() {
            Some("reasoning.encrypted_content") => carry = true,
            Some("message.output_text.logprobs") => logprobs = true,
            Some(name) if OF_A_VENDOR.contains(&name) => {}
            Some(_) => return Err(unknown_include(&format!("include[{index}]"))),
            None => return Err(crate::fields::wrong(&format!("include[{index}]"), "a string", &item)),
        }
    }
    Ok((carry, logprobs))
}

/// True if `include` may ask for it.
pub(super) fn is_includable(name: &str) -> bool {
    OF_A_VENDOR.contains(&name) || OWN.contains(&name)
}

/// The error for what it may not ask for.
pub(super) fn unknown_include(path: &str) -> ApiError {
    ApiError::unsupported(path, format_args!("is not known; {} are", OWN.join(" and ")))
}

/// The conversation: what a stored response knows, then this request's input.
fn read_conversation(
    fields: &mut Fields,
    server: &Server,
    most: usize,
) -> Result<(Vec<Value>, Vec<Item>), ApiError> {
    let mut messages = Vec::new();
    if let Some(id) = fields.string("previous_response_id")? {
        let stored = server.responses.get(&id).ok_or_else(|| super::not_found("previous_response_id"))?;
        messages.extend(stored.messages.iter().cloned());
    }
    let input = fields.take("input").ok_or_else(|| ApiError::invalid("input", "is missing"))?;
    let items = input::read(input, server, &mut messages)?;
    if messages.len() > most {
        return Err(ApiError::invalid("input", format_args!("at most {most} messages are taken")));
    }
    Ok((messages, items))
}

/// Function tools, as chat completions has them; tools of other types are left out, as everywhere.
fn read_tools(fields: &mut Fields, most: usize) -> Result<Vec<Tool>, ApiError> {
    tools::read_list(fields, most, |mut tool, wire| {
        if !tools::is_function(&mut tool)? {
            return Ok(None);
        }
        tools::check_deferred(&mut tool)?;
        let part = |name| (name, wire.get(name).filter(|value| **value != Value::Null).cloned());
        tool.object("output_schema")?;
        let function = ["name", "description", "parameters", "strict", "output_schema"].map(part).to_vec();
        Tool::read(tool, "parameters", tools::wire(function)).map(Some)
    })
}

/// `reasoning`: its effort switches thinking, its context says whether that of earlier turns stays; a summary is not
/// made, the thinking itself is in the response.
fn read_reasoning(fields: &mut Fields) -> Result<Asked, ApiError> {
    const EFFORT: &str = "reasoning.effort";
    let mut asked = Asked::default();
    let Some(mut reasoning) = fields.object("reasoning")? else { return Ok(asked) };
    for name in ["summary", "generate_summary"] {
        unsupported::allow(&mut reasoning, name, &["auto"])?;
    }
    unsupported::allow(&mut reasoning, "mode", &["standard"])?;
    asked.preserve = match reasoning.string("context")?.as_deref() {
        None | Some("auto") => None,
        Some("all_turns") => Some(true),
        Some("current_turn") => Some(false),
        Some(_) => {
            return Err(ApiError::invalid("reasoning.context", "must be auto, current_turn or all_turns"));
        }
    };
    if let Some(effort) = reasoning.string("effort")? {
        asked.thinking = Some((EFFORT, thinking::parse_effort(EFFORT, &effort)?));
    }
    Ok(asked)
}
