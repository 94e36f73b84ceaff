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
    /// That, or this word.
    EmptyOr(&'static str),
    /// A number.
    Number(f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of words that has only this one.
    Only(&'static str),
}

use Harmless::{Empty, EmptyOr, Is, Nothing, Number, Only, Word};

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
    /// A text for `/tokenize`, and tokens for `/detokenize`.
    Tokens,
}

const FORM: &str = "this server's way is response_format";
const FLAT_FORM: &str = "this server's way is text.format";
const OUTPUT: &str = "this server's way is output_config.format";

const MOST: &str = "send max_tokens (on /v1/responses max_output_tokens)";
const NO_BUDGET: &str = "thinking has no budget of its own; send enable_thinking and a limit of tokens";

/// Of other local servers, on every route.
const EVERYWHERE: [Foreign; 48] = [
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
    ("chat_template", Nothing, "the checkpoint's own template is used"),
    ("documents", Empty, "send them as text in a message"),
    ("return_token_ids", Is(false), "send the text to /tokenize"),
    ("n_predict", Number(-1.0), MOST),
    ("num_predict", Number(-1.0), MOST),
    ("max_new_tokens", Nothing, MOST),
    ("min_length", Number(0.0), ""),
    ("think", Nothing, "send enable_thinking"),
    ("thinking_budget", Number(-1.0), NO_BUDGET),
    ("reasoning_budget", Number(-1.0), NO_BUDGET),
    ("include_reasoning", Is(true), "enable_thinking: false is an answer without thinking"),
    ("random_seed", Nothing, "send seed"),
    ("stop_words", Empty, "send stop (on /v1/messages stop_sequences)"),
    ("tfs_z", Number(1.0), ""),
    ("typical", Number(1.0), ""),
    ("dynatemp_range", Number(0.0), ""),
    // Its default elsewhere, where a probability of 0 keeps it from having an effect.
    ("xtc_threshold", Number(0.1), ""),
    ("num_return_sequences", Number(1.0), "send n"),
    ("do_sample", Is(true), "send temperature: 0"),
    ("logits_processors", Empty, "send logit_bias"),
    ("keep_alive", Number(-1.0), "the model stays loaded until the server ends"),
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
    ("suffix", Word(&[""]), ""),
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
    ("suffix", Word(&[""]), ""),
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

const TOKENS: [Foreign; 2] = [
    ("parse_special", Is(true), "spellings of control tokens are those tokens"),
    ("with_pieces", Is(false), "send the ids to /detokenize"),
];

/// Every parameter that any route of this API or of its originals has: what a route leaves of them when it has read
/// its own is not honoured there. A parameter that is new to some route belongs here too.
const KNOWN: [Foreign; 65] = [
    ("access_programs", Empty, ""),
    ("anthropic_beta", Empty, ""),
    ("audio", Nothing, "answers are text"),
    ("background", Is(false), "answers are given while the client waits"),
    ("background_options", Empty, "answers are given while the client waits"),
    ("best_of", Number(1.0), ""),
    ("betas", Empty, ""),
    ("cache_control", Nothing, ""),
    ("chat_template_kwargs", Empty, "a plain prompt is continued as it is"),
    ("compaction", Nothing, "the context is not edited here"),
    ("container", Nothing, ""),
    ("context_management", Empty, ""),
    ("conversation", Nothing, ""),
    ("diagnostics", Empty, ""),
    ("echo", Is(false), ""),
    ("enable_thinking", Is(false), "a plain prompt is continued as it is"),
    ("fallback_credit_token", Nothing, ""),
    ("fallbacks", EmptyOr("default"), "one model is loaded and serves every name"),
    ("function_call", Nothing, "send tools"),
    ("functions", Empty, "send tools"),
    ("generate", Is(true), "an answer is always begun"),
    ("image", Empty, "this model reads text only"),
    ("include", Empty, ""),
    ("inference_geo", Word(&["global"]), "this server is where it is"),
    ("input", Nothing, ""),
    ("instructions", Nothing, ""),
    ("logprobs", Is(false), ""),
    ("max_completion_tokens", Nothing, ""),
    ("max_output_tokens", Nothing, ""),
    ("max_tokens", Nothing, ""),
    ("max_tool_calls", Nothing, ""),
    ("mcp_servers", Empty, ""),
    ("messages", Nothing, ""),
    ("modalities", Only("text"), "this model answers in text only"),
    ("moderation", Nothing, ""),
    ("n", Number(1.0), "one answer is given here"),
    ("output_config", Empty, ""),
    ("output_format", Nothing, ""),
    ("parallel_tool_calls", Is(true), ""),
    ("prediction", Nothing, ""),
    ("preserve_thinking", Is(false), "a plain prompt is continued as it is"),
    ("previous_response_id", Nothing, "see /v1/responses"),
    ("prompt", Nothing, ""),
    ("reasoning", Empty, ""),
    ("reasoning_effort", Nothing, ""),
    ("response_format", Nothing, ""),
    ("service_tier", Word(&["auto", "default"]), ""),
    ("speed", Word(&["standard"]), ""),
    ("stop", Empty, ""),
    ("stop_sequences", Empty, ""),
    ("store", Is(false), "see /v1/responses"),
    ("stream_options", Empty, ""),
    ("suffix", Word(&[""]), ""),
    ("system", Nothing, ""),
    ("text", Empty, ""),
    ("thinking", Nothing, ""),
    ("thread", Nothing, "send the whole conversation"),
    ("tool_choice", Word(&["none"]), ""),
    ("tools", Empty, ""),
    ("top_logprobs", Nothing, ""),
    ("truncation", Word(&["disabled"]), "a prompt is never cut"),
    ("user_profile_id", Nothing, ""),
    ("workspace_id", Nothing, ""),
    ("verbosity", Word(&["medium"]), ""),
    ("web_search_options", Nothing, ""),
];

/// Takes what is of no effect ([`super::idle`]) and refuses what a route has left of the known parameters: to be called
/// when it has read its own.
pub(crate) fn finish(mut fields: Fields, route: Route) -> Result<(), ApiError> {
    super::idle::read(&mut fields, route)?;
    for (name, value) in fields.left() {
        if let Some((name, harmless, instead)) = KNOWN.iter().find(|(known, ..)| *known == name)
            && !harmless.allows(value)
        {
            return Err(foreign(name, instead));
        }
    }
    Ok(())
}

/// Refuses what does not belong to a route.
pub(crate) fn refuse(fields: &Fields, route: Route) -> Result<(), ApiError> {
    let (own, form): (&[Foreign], _) = match route {
        Route::Chat => (&CHAT, FORM),
        Route::Completions => (&COMPLETIONS, FORM),
        Route::Responses => (&RESPONSES, FLAT_FORM),
        Route::Messages => (&MESSAGES, OUTPUT),
        Route::Tokens => (&TOKENS, FORM),
    };
    if let Some(name) = GUIDES.into_iter().find(|name| fields.get(name).is_some()) {
        return Err(foreign(name, form));
    }
    refuse_listed(fields, own)?;
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
            (Empty | EmptyOr(_), Value::Array(items)) => items.is_empty(),
            (Empty | EmptyOr(_), Value::Object(fields)) => fields.is_empty(),
            (EmptyOr(wanted), Value::String(word)) => wanted == word,
            (Number(wanted), Value::Float(number)) => wanted == number,
            (Number(wanted), Value::Integer(digits)) => digits.parse() == Ok(*wanted),
            (Word(words), Value::String(word)) => words.contains(&word.as_str()),
            (Only(word), Value::Array(items)) => {
                matches!(items.as_slice(), [Value::String(own)] if own == word)
            }
            _ => false,
        }
    }
}
