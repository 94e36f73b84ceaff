//! Runs generations and collects what they answered.

use lily_engine::testing::{Call, Fault, ScriptedBackend, byte_tokenizer};
use lily_engine::{
    Engine, EngineOptions, Event, FinishReason, Generation, GenerationError, GenerationRequest, TokenId,
    TokenLogprob, Usage,
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Rows of the scripted logits: more than the tokenizer's 261 ids.
pub(crate) const ROWS: usize = 270;

/// All that a generation answered.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) ids: Vec<TokenId>,
    pub(crate) text: String,
    pub(crate) deltas: Vec<String>,
    pub(crate) logprobs: Vec<Option<TokenLogprob>>,
    pub(crate) prefill: Vec<(usize, usize)>,
    pub(crate) reason: Option<FinishReason>,
    pub(crate) stop: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) error: Option<GenerationError>,
}

impl Answer {
    pub(crate) fn of(generation: Generation) -> Self {
        let mut answer = Self::default();
        for event in generation {
            answer.take_in(event);
        }
        answer
    }

    pub(crate) fn take_in(&mut self, event: Event) {
        assert!(self.reason.is_none() && self.error.is_none(), "{event:?} after the last event");
        match event {
            Event::Prefill { done, total } => self.prefill.push((done, total)),
            Event::Token { id, text, logprob } => {
                self.ids.push(id);
                self.text += &text;
                self.deltas.push(text);
                self.logprobs.push(logprob);
            }
            Event::Finished { text, reason, stop, usage } => {
                self.text += &text;
                self.deltas.push(text);
                self.reason = Some(reason);
                self.stop = stop;
                self.usage = usage;
            }
            Event::Failed(error) => self.error = Some(error),
        }
    }
}

pub(crate) fn engine(backend: ScriptedBackend) -> Engine {
    Engine::start(backend, byte_tokenizer(), EngineOptions::default())
}

pub(crate) fn engine_with(backend: ScriptedBackend, options: EngineOptions) -> Engine {
    Engine::start(backend, byte_tokenizer(), options)
}

pub(crate) fn run(engine: &Engine, request: GenerationRequest) -> Answer {
    Answer::of(engine.generate(request).expect("the request is taken"))
}

/// A request for at most `max_tokens` after a prompt.
pub(crate) fn request(prompt: &[TokenId], max_tokens: usize) -> GenerationRequest {
    GenerationRequest { max_tokens: Some(max_tokens), ..GenerationRequest::new(prompt.to_vec()) }
}

/// Token ids from numbers.
pub(crate) fn ids(numbers: impl IntoIterator<Item = u32>) -> Vec<TokenId> {
    numbers.into_iter().map(TokenId).collect()
}

/// A script that notes every call and goes on.
pub(crate) fn noting<T: Send + 'static>(
    note: impl Fn(&Call<'_>) -> Option<T> + Send + 'static,
) -> (Arc<Mutex<Vec<T>>>, impl FnMut(&Call<'_>) -> Fault + Send + 'static) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let to = notes.clone();
    let script = move |call: &Call<'_>| {
        to.lock().unwrap().extend(note(call));
        Fault::None
    };
    (notes, script)
}

/// Waits until something is so; fails when it takes longer than any machine should need.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
