//! From a checked request to running turns.

use crate::error::ApiError;
use crate::guided::{Form, Guided};
use crate::one_call::OneCall;
use crate::request::{Conversation, Input, PlainPrompt, Request};
use crate::request_log::RequestLog;
use crate::state::Server;
use crate::turn::{Turn, TurnOptions};
use lily_engine::{GenerationRequest, TokenConstraint, TokenId};
use lily_text::parser::{MessageParser, Start};
use lily_text::{RenderRequest, Tokenizer, prepare_messages};
use std::sync::Arc;
use std::time::Instant;

/// A prompt as the model reads it.
pub(crate) struct Prompt {
    /// Its tokens.
    pub(crate) ids: Vec<TokenId>,
    /// Lengths of the prefixes that later requests are likely to share.
    pub(crate) borders: Vec<usize>,
    /// Where the answer begins.
    pub(crate) start: Start,
}

/// Who asks, for the log.
pub(crate) struct Origin<'a> {
    /// The answer's id.
    pub(crate) id: &'a str,
    /// The route.
    pub(crate) route: &'static str,
    /// When the request arrived.
    pub(crate) arrived: Instant,
}

/// All that comes before a generation.
struct Prepared {
    prompts: Vec<Prompt>,
    /// What reads an answer.
    reader: MessageParser,
    /// One call at most.
    single_call: bool,
    constraint: Option<Box<dyn TokenConstraint>>,
}

/// Starts all choices of a request. Rendering and encoding are done here, so that their errors come before the first
/// byte of an answer.
pub(crate) async fn start(
    server: &Arc<Server>,
    request: Request,
    origin: Origin<'_>,
) -> Result<Vec<Turn>, ApiError> {
    server.check_open()?;
    let Request { input, sampling, max_tokens, stop, logprobs, choices, deadline, .. } = request;
    let ends = deadline.and_then(|limit| Some((limit, origin.arrived.checked_add(limit)?)));
    let prepared = prepare(server, input);
    let Prepared { prompts, reader, single_call, constraint } = match ends {
        Some((limit, ends)) => match tokio::time::timeout_at(ends.into(), prepared).await {
            Ok(prepared) => prepared?,
            Err(_) => return Err(ApiError::deadline(limit)),
        },
        None => prepared.await?,
    };
    let mut generations = Vec::with_capacity(prompts.len() * choices);
    for prompt in prompts {
        for choice in 0..choices {
            let mut generation = GenerationRequest::new(prompt.ids.clone());
            generation.max_tokens = max_tokens;
            generation.snapshot_at.clone_from(&prompt.borders);
            generation.sampling = sampling.clone();
            // Choices of one request must differ although they share its seed.
            generation.sampling.seed = sampling.seed.map(|seed| seed.wrapping_add(choice as u64));
            generation.stop_ids.clone_from(&server.model.stop_ids);
            generation.stop.clone_from(&stop);
            generation.logprobs = logprobs;
            generation.deadline = ends.map(|(_, ends)| ends);
            generation.constraint.clone_from(&constraint);
            generations.push(generation);
        }
    }
    // Requests with several answers do not take the last places from each other, with none left for either.
    let _turn = if generations.len() > 1 { Some(server.submitting.lock().await) } else { None };
    let start = |generation| {
        let (reader, log) = (reader.clone(), RequestLog::new(server, &origin));
        Turn::start(server, generation, TurnOptions { reader, single_call, deadline, log })
    };
    generations.into_iter().map(start).collect()
}

/// Makes all that comes before a generation.
async fn prepare(server: &Arc<Server>, input: Input) -> Result<Prepared, ApiError> {
    let (prompts, form) = match input {
        Input::Text(prompts, form) => {
            let ids = encode_plain(server, prompts).await?;
            let prompts = ids.into_iter().map(|ids| Prompt { ids, borders: Vec::new(), start: Start::Raw });
            (prompts.collect(), form)
        }
        Input::Chat(conversation) => {
            let (prompt, form) = render(server, conversation).await?;
            (vec![prompt], form)
        }
    };
    let start = prompts.first().map_or(Start::Raw, |prompt: &Prompt| prompt.start);
    // Schemas become grammars here, so that their errors come before the first byte of an answer.
    let place = match form.is_free() {
        true => None,
        false => Some(Arc::clone(&server.compilers).acquire_owned().await.map_err(|_| failed())?),
    };
    let server = Arc::clone(server);
    blocking(move || {
        let single_call = form.single_call;
        let reader = form.reader(start);
        let mut constraint: Option<Box<dyn TokenConstraint>> = match place.is_some() {
            true => Some(Box::new(Guided(form.guide(start, server.constrainer()?)?))),
            false => None,
        };
        if single_call && !form.tools.is_empty() {
            let text = server.model.tokenizer.detokenizer(true);
            constraint = Some(Box::new(OneCall::new(constraint, reader.clone(), text)));
        }
        // Kept until here, also if nobody waits for it any more.
        drop(place);
        Ok(Prepared { prompts, reader, single_call, constraint })
    })
    .await
}

/// Where a conversation's prompt is worth a snapshot: before the answer's header (the same question again, or the next
/// turn when thinking is left out of it), before the last user's turn (another question in its place), and after the
/// first turn (another conversation with the same instructions and tools).
fn borders(tokenizer: &Tokenizer, ids: &[TokenId]) -> Vec<usize> {
    let Some(start) = tokenizer.token_id("<|im_start|>") else { return Vec::new() };
    let user = tokenizer.encode("user");
    let starts = || ids.iter().enumerate().filter(|(_, id)| **id == start).map(|(at, _)| at);
    let is_user = |at: &usize| ids[at + 1..].starts_with(&user);
    let mut borders: Vec<usize> =
        [starts().nth(1), starts().rfind(is_user), starts().next_back()].into_iter().flatten().collect();
    borders.sort_unstable();
    borders.dedup();
    borders
}

/// Encodes plain prompts.
async fn encode_plain(
    server: &Arc<Server>,
    prompts: Vec<PlainPrompt>,
) -> Result<Vec<Vec<TokenId>>, ApiError> {
    let server = Arc::clone(server);
    blocking(move || {
        let encode = |prompt| match prompt {
            PlainPrompt::Text(text) => server.model.tokenizer.encode(&text),
            PlainPrompt::Ids(ids) => ids,
        };
        Ok(prompts.into_iter().map(encode).collect())
    })
    .await
}

/// Encodes one plain text.
pub(crate) async fn encode(server: &Arc<Server>, text: String) -> Result<Vec<TokenId>, ApiError> {
    let mut ids = encode_plain(server, vec![PlainPrompt::Text(text)]).await?;
    Ok(ids.pop().unwrap_or_default())
}

/// Does work that takes a while, away from the threads that serve connections.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| failed())?
}

fn failed() -> ApiError {
    ApiError::internal("reading the prompt failed; this is a fault of the server")
}

/// Renders and encodes a conversation; also returns the form that its answer is to have.
pub(crate) async fn render(
    server: &Arc<Server>,
    conversation: Conversation,
) -> Result<(Prompt, Form), ApiError> {
    let server = Arc::clone(server);
    blocking(move || {
        let Conversation { messages, kwargs, form } = conversation;
        let request = RenderRequest {
            messages: prepare_messages(messages)?,
            tools: form.definitions(),
            kwargs,
            add_generation_prompt: true,
        };
        let prompt = server.model.template.render(&request)?;
        let ids = server.model.tokenizer.encode_prompt(&prompt);
        let text = prompt.as_str();
        if server.config.log_text {
            tracing::info!(target: "lily_server::text", prompt = text, "rendered");
        }
        let start = Start::after_prompt(text);
        let borders = borders(&server.model.tokenizer, &ids);
        Ok((Prompt { ids, borders, start }, form))
    })
    .await
}
