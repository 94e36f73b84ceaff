//! Parameters of other routes and other servers, as data: what a client may believe in and would not get. Each is
//! refused by name, unless its value asks for what happens anyway.

use crate::error::ApiError;
use crate::fields::Fields;
use lily_text::json::Value;

/// The value, beside `null`, that asks for what happens anyway.
enum Harmless {
    /// There is none.
    Nothing,
    /// A truth value.
    Is(bool),
    /// An empty list or object.
    Empty,
    /// A number.
    Number(f64),
}

use Harmless::{Empty, Is, Nothing, Number};

/// A parameter: its name, the value that does no harm, and what there is in its place.
type Foreign = (&'static str, Harmless, &'static str);

/// A route that reads its parameters from a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/v1/chat/completions`, and a conversation for `/tokenize`.
    Chat,
    /// `/v1/completions`.
    Completions,
    /// `/v1/responses`.
    Responses,
    /// `/v1/messages`.
    Messages,
}

const FORM: &str = "this server's way is response_format";
const FLAT_FORM: &str = "this server's way is text.format";
const OUTPUT: &str = "this server's way is output_config.format";

/// Of other local servers, on every route.
const EVERYWHERE: [Foreign; 27] = [
    ("structured_outputs", Nothing, "this server's way is a JSON schema"),
    ("regex", Nothing, "this server's way is a JSON schema"),
    ("ebnf", Nothing, "this server's way is a JSON schema"),
    ("min_tokens", Number(0.0), ""),
    ("ignore_eos", Is(false), ""),
    ("stop_token_ids", Empty, "send stop strings"),
    ("bad_words", Empty, "send logit_bias"),
    ("allowed_token_ids", Nothing, "send logit_bias"),
    ("repeat_penalty", Number(1.0), "send repetition_penalty"),
    ("continue_final_message", Is(false), "every message is closed"),
    ("add_generation_prompt", Is(true), "an answer is always begun"),
    ("truncate_prompt_tokens", Number(-1.0), "a prompt is never cut"),
    ("return_token_strs", Is(false), "send the ids to /detokenize"),
    ("use_beam_search", Is(false), ""),
    ("length_penalty", Number(1.0), ""),
    ("typical_p", Number(1.0), ""),
    ("top_a", Number(0.0), ""),
    ("mirostat", Number(0.0), ""),
    ("dry_multiplier", Number(0.0), ""),
    ("xtc_probability", Number(0.0), ""),
    ("samplers", Empty, ""),
    ("prompt_logprobs", Nothing, ""),
    ("skip_special_tokens", Is(true), "special tokens are never part of an answer"),
    ("num_ctx", Nothing, "the context is set where the server is started"),
    ("options", Empty, "send its entries as parameters of this API"),
    ("format", Nothing, "this server's way is a JSON schema"),
    ("lora", Empty, ""),
];

const GUIDES: [&str; 8] = [
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "guided_decoding_backend",
    "guided_whitespace_pattern",
    "grammar",
    "json_schema",
];

const CHAT: [Foreign; 15] = [
    ("stop_sequences", Empty, "send stop"),
    ("max_output_tokens", Nothing, "send max_completion_tokens"),
    ("thinking", Nothing, "send enable_thinking or reasoning_effort"),
    ("reasoning", Empty, "send reasoning_effort"),
    ("output_config", Empty, FORM),
    ("output_format", Nothing, FORM),
    ("text", Empty, FORM),
    ("system", Nothing, "send a system message"),
    ("instructions", Nothing, "send a system message"),
    ("best_of", Number(1.0), "send n"),
    ("echo", Is(false), ""),
    ("suffix", Nothing, ""),
    ("prompt", Nothing, "send messages"),
    ("input", Nothing, "send messages"),
    ("max_tool_calls", Nothing, "parallel_tool_calls: false ends an answer after one"),
];

const COMPLETIONS: [Foreign; 13] = [
    ("max_completion_tokens", Nothing, "send max_tokens"),
    ("max_output_tokens", Nothing, "send max_tokens"),
    ("stop_sequences", Empty, "send stop"),
    ("top_logprobs", Nothing, "send logprobs with a number"),
    ("reasoning_effort", Nothing, "a plain prompt is continued as it is"),
    ("reasoning", Empty, "a plain prompt is continued as it is"),
    ("thinking", Nothing, "a plain prompt is continued as it is"),
    ("functions", Empty, "see /v1/chat/completions"),
    ("function_call", Nothing, "see /v1/chat/completions"),
    ("store", Is(false), "completions are not kept"),
    ("output_format", Nothing, FORM),
    ("system", Nothing, "send it as part of the prompt"),
    ("input", Nothing, "send prompt"),
];

const RESPONSES: [Foreign; 11] = [
    ("logprobs", Is(false), "send top_logprobs, or include message.output_text.logprobs"),
    ("max_tool_calls", Nothing, "parallel_tool_calls: false ends an answer after one"),
    ("stop_sequences", Empty, "send stop"),
    ("thinking", Nothing, "send reasoning.effort"),
    ("output_format", Nothing, FLAT_FORM),
    ("output_config", Empty, FLAT_FORM),
    ("system", Nothing, "send instructions"),
    ("best_of", Number(1.0), ""),
    ("echo", Is(false), ""),
    ("suffix", Nothing, ""),
    ("functions", Empty, "send tools"),
];

const MESSAGES: [Foreign; 13] = [
    ("parallel_tool_calls", Is(true), "send tool_choice.disable_parallel_tool_use"),
    ("top_logprobs", Nothing, ""),
    ("max_completion_tokens", Nothing, "send max_tokens"),
    ("max_output_tokens", Nothing, "send max_tokens"),
    ("stream_options", Empty, "a stream always ends with its usage"),
    ("reasoning", Empty, "send thinking"),
    ("text", Empty, OUTPUT),
    ("echo", Is(false), ""),
    ("best_of", Number(1.0), ""),
    ("instructions", Nothing, "send system"),
    ("prompt", Nothing, "send messages"),
    ("input", Nothing, "send messages"),
    ("functions", Empty, "send tools"),
];

/// Refuses what does not belong to a route.
pub(crate) fn refuse(fields: &Fields, route: Route) -> Result<(), ApiError> {
    let (own, form): (&[Foreign], _) = match route {
        Route::Chat => (&CHAT, FORM),
        Route::Completions => (&COMPLETIONS, FORM),
        Route::Responses => (&RESPONSES, FLAT_FORM),
        Route::Messages => (&MESSAGES, OUTPUT),
    };
    if let Some(name) = GUIDES.into_iter().find(|name| fields.get(name).is_some()) {
        return Err(foreign(name, form));
    }
    refuse_listed(fields, own)?;
    refuse_everywhere(fields)
}

/// Refuses what belongs to no route.
pub(crate) fn refuse_everywhere(fields: &Fields) -> Result<(), ApiError> {
    refuse_listed(fields, &EVERYWHERE)
}

fn refuse_listed(fields: &Fields, list: &[Foreign]) -> Result<(), ApiError> {
    for (name, harmless, instead) in list {
        if fields.get(name).is_some_and(|value| !harmless.allows(value)) {
            return Err(foreign(name, instead));
        }
    }
    Ok(())
}

fn foreign(name: &str, instead: &str) -> ApiError {
    let reason = "is not a parameter of this route";
    match instead {
        "" => ApiError::unsupported(name, reason),
        instead => ApiError::unsupported(name, format_args!("{reason}; {instead}")),
    }
}

impl Harmless {
    fn allows(&self, value: &Value) -> bool {
        match (self, value) {
            (Is(wanted), Value::Bool(value)) => wanted == value,
            (Empty, Value::Array(items)) => items.is_empty(),
            (Empty, Value::Object(fields)) => fields.is_empty(),
            (Number(wanted), Value::Float(number)) => wanted == number,
            (Number(wanted), Value::Integer(digits)) => digits.parse() == Ok(*wanted),
            _ => false,
        }
    }
}
