//! One request model behind all routes: [`Request`].
//!
//! Every wire format is read into it, and what a format cannot say keeps the checkpoint's default. The rule for
//! parameters: honoured, or a 400 that names the parameter. Fields that no one knows are ignored, as clients of this
//! API expect; fields that are known and would change the answer but cannot be honoured are refused unless they hold
//! the value that asks for nothing ([`unsupported`]).

pub(crate) mod foreign;
pub(crate) mod format;
pub(crate) mod idle;
pub(crate) mod messages;
pub(crate) mod prompts;
pub(crate) mod results;
pub(crate) mod sampling;
pub(crate) mod stream_options;
pub(crate) mod system;
pub(crate) mod thinking;
pub(crate) mod tools;
pub(crate) mod unsupported;

use crate::Server;
use crate::error::ApiError;
use crate::fields::{Fields, wrong};
use crate::guided::Form;
use foreign::Route;
use lily_engine::{SamplingParams, TokenId};
use lily_text::json::Value;
use std::time::Duration;

/// Fields of a body. Each is looked for by its name, so that very many would take their time.
const MAX_FIELDS: usize = 1_024;

/// A request, parsed and checked.
#[derive(Debug)]
pub(crate) struct Request {
    /// What to answer.
    pub(crate) input: Input,
    /// How to choose tokens.
    pub(crate) sampling: SamplingParams,
    /// Most tokens of an answer; `None` is to the end of the context.
    pub(crate) max_tokens: Option<usize>,
    /// Texts that end an answer.
    pub(crate) stop: Vec<String>,
    /// Log-probabilities, with this many best candidates.
    pub(crate) logprobs: Option<usize>,
    /// Answers wanted.
    pub(crate) choices: usize,
    /// Send the answer while it is written.
    pub(crate) stream: bool,
    /// End a stream with a usage chunk.
    pub(crate) include_usage: bool,
    /// Tell in comment lines of a stream how far the reading of the prompt is (an extension).
    pub(crate) include_progress: bool,
    /// Carry thinking in the field for its signature, and do not show it (messages).
    pub(crate) hide_thinking: bool,
    /// Time from arrival to the end of the answer.
    pub(crate) deadline: Option<Duration>,
}

/// What a request wants answered.
#[derive(Debug)]
pub(crate) enum Input {
    /// A conversation, rendered by the chat template.
    Chat(Conversation),
    /// Plain prompts, continued as they are, in some form.
    Text(Vec<PlainPrompt>, Form),
}

/// A prompt that is continued as it is.
#[derive(Debug)]
pub(crate) enum PlainPrompt {
    /// Text, in which spellings of control tokens are those tokens.
    Text(String),
    /// Tokens.
    Ids(Vec<TokenId>),
}

/// The messages of a request and all that the template and the answer's reading need.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// As on the wire of chat completions.
    pub(crate) messages: Vec<Value>,
    /// Further template variables.
    pub(crate) kwargs: Vec<(String, Value)>,
    /// Tools, and what the answer may be.
    pub(crate) form: Form,
}

impl Request {
    /// Reads the body of `POST /v1/chat/completions`.
    ///
    /// Of `max_tokens` and its newer name `max_completion_tokens` the latter wins.
    pub(crate) fn from_chat(body: Value, server: &Server) -> Result<Self, ApiError> {
        let limits = &server.config.limits;
        let mut fields = body_fields(body, server)?;
        foreign::refuse(&fields, Route::Chat)?;
        unsupported::check_chat(&mut fields)?;
        let messages = messages::read(&mut fields, limits.messages)?;
        let tools = tools::read_tools(&mut fields, limits.tools)?;
        let choice = tools::read_choice(&mut fields, &tools, true)?;
        let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
        let form = Form::new(tools, choice, parallel, format::read_nested(&mut fields)?);
        let kwargs = thinking::read_kwargs(&mut fields, &server.config, thinking::Asked::default())?;
        let old = fields.integer("max_tokens", 1, i64::MAX)?;
        let max_tokens = fields.integer("max_completion_tokens", 1, i64::MAX)?.or(old);
        let wanted = fields.boolean("logprobs")?.unwrap_or(false);
        let logprobs = match fields.integer("top_logprobs", 0, 20)? {
            Some(_) if !wanted => {
                return Err(ApiError::invalid("top_logprobs", "needs logprobs to be true"));
            }
            top => wanted.then_some(top.unwrap_or(0) as usize),
        };
        let input = Input::Chat(Conversation { messages, kwargs, form });
        Self::from_common(Route::Chat, input, max_tokens, logprobs, fields, server)
    }

    /// Reads the body of `POST /v1/completions`.
    ///
    /// Without `max_tokens` an answer goes on to the end of the context, as on every other route.
    pub(crate) fn from_completions(body: Value, server: &Server) -> Result<Self, ApiError> {
        let mut fields = body_fields(body, server)?;
        foreign::refuse(&fields, Route::Completions)?;
        unsupported::check_completions(&mut fields)?;
        let prompts = prompts::read(&mut fields, server)?;
        let form = Form::plain(format::read_nested(&mut fields)?);
        let max_tokens = fields.integer("max_tokens", 1, i64::MAX)?;
        let logprobs = fields.integer("logprobs", 0, 20)?.map(|top| top as usize);
        Self::from_common(
            Route::Completions,
            Input::Text(prompts, form),
            max_tokens,
            logprobs,
            fields,
            server,
        )
    }

    /// Reads the parameters that have the same name on every OpenAI route.
    fn from_common(
        route: Route,
        input: Input,
        max_tokens: Option<i64>,
        logprobs: Option<usize>,
        mut fields: Fields,
        server: &Server,
    ) -> Result<Self, ApiError> {
        let limits = &server.config.limits;
        let sampling = sampling::read(&mut fields, server)?;
        let choices = fields.integer("n", 1, limits.choices as i64)?.unwrap_or(1) as usize;
        let (prompts, form) = match &input {
            Input::Chat(conversation) => (1, &conversation.form),
            Input::Text(prompts, form) => (prompts.len(), form),
        };
        check_answers(prompts, choices, server)?;
        let stop = stop_strings(&mut fields, "stop", form, server)?;
        let stream = fields.boolean("stream")?.unwrap_or(false);
        let extras = stream_options::read(&mut fields, stream)?;
        let deadline = deadline(&mut fields, limits.deadline)?;
        foreign::finish(fields, route)?;
        let max_tokens = max_tokens.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        Ok(Self {
            input,
            sampling,
            max_tokens,
            stop,
            logprobs,
            choices,
            stream,
            include_usage: extras.usage,
            include_progress: extras.progress,
            hide_thinking: false,
            deadline,
        })
    }
}

/// The fields of a body: checks `model`, and takes in a literal `extra_body` (what SDK users write when they forget
/// that the SDK unpacks it): its fields count as if they stood in the body. A field that is in both places must say the
/// same in both, and there is no `extra_body` within another.
pub(crate) fn body_fields(body: Value, server: &Server) -> Result<Fields, ApiError> {
    let mut fields = Fields::new("", body)?;
    fields.check_count(MAX_FIELDS)?;
    if let Some(extra) = fields.object("extra_body")? {
        extra.check_count(MAX_FIELDS)?;
        if extra.get("extra_body").is_some() {
            return Err(ApiError::invalid("extra_body.extra_body", "there is no extra_body within another"));
        }
        fields.adopt(extra)?;
    }
    if let Some(name) = fields.string("model")? {
        server.check_model(&name)?;
    }
    Ok(fields)
}

/// Refuses more answers than can ever be taken at once: told to come back later, a client would never stop.
fn check_answers(prompts: usize, choices: usize, server: &Server) -> Result<(), ApiError> {
    let most = server.config.limits.answers.min(server.model.engine.capacity());
    let answers = prompts.saturating_mul(choices);
    if answers <= most {
        return Ok(());
    }
    let limit = format!("at most {most} are given to one request on this server");
    if prompts == 1 {
        return Err(ApiError::invalid("n", format_args!("{choices} answers are asked for; {limit}")));
    }
    let asked = format!("{prompts} prompts with {choices} choices each are {answers} answers");
    Err(ApiError::invalid("prompt", format_args!("{asked}; {limit}")))
}

/// Stop strings: absent, one string, or a list; the empty string would end every answer at once and is refused. So are
/// stop strings beside a form of the answer: one could cut it, and half a form would look like a whole one, a call that must
/// be made like none.
pub(crate) fn stop_strings(
    fields: &mut Fields,
    name: &str,
    form: &Form,
    server: &Server,
) -> Result<Vec<String>, ApiError> {
    let limits = &server.config.limits;
    let path = fields.at(name);
    let strings = match fields.take(name) {
        None => Vec::new(),
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(items)) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| match item {
                Value::String(text) => Ok(text),
                other => Err(wrong(&format!("{path}[{index}]"), "a string", &other)),
            })
            .collect::<Result<_, _>>()?,
        Some(other) => {
            return Err(ApiError::invalid(
                path,
                format_args!("must be a string or a list, not {}", other.kind()),
            ));
        }
    };
    if !strings.is_empty() && form.has_schema() {
        let reason = "cannot be combined with an answer held to JSON, which it could cut; such an answer ends by itself";
        return Err(ApiError::unsupported(path, reason));
    }
    if !strings.is_empty() && form.is_required() {
        let reason =
            "cannot be combined with a required call, which it could cut; such an answer ends by itself";
        return Err(ApiError::unsupported(path, reason));
    }
    if strings.len() > limits.stop_strings {
        return Err(ApiError::invalid(
            path,
            format_args!("at most {} stop strings are taken", limits.stop_strings),
        ));
    }
    if strings.iter().any(String::is_empty) {
        return Err(ApiError::invalid(path, "an empty stop string would end the answer before it begins"));
    }
    if strings.iter().any(|text| text.len() > limits.stop_bytes) {
        return Err(ApiError::invalid(
            path,
            format_args!("at most {} bytes a stop string", limits.stop_bytes),
        ));
    }
    Ok(strings)
}

/// `deadline_seconds`, an extension: the time this answer may take. The server's own limit holds if it is shorter.
pub(crate) fn deadline(fields: &mut Fields, limit: Option<Duration>) -> Result<Option<Duration>, ApiError> {
    let own = fields.number("deadline_seconds", 0.001, 1e9)?.map(Duration::from_secs_f64);
    Ok(match (own, limit) {
        (Some(own), Some(limit)) => Some(own.min(limit)),
        (own, limit) => own.or(limit),
    })
}
