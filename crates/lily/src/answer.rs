//! One generation, streamed: events of the engine become spans of thinking and answer.

use crate::{
    failure::Advice,
    reasoning::{Span, Splitter},
};
use anyhow::Result;
use lily_engine::{Engine, Event, FinishReason, GenerationRequest, SubmitError, Usage};
use std::{
    ops::ControlFlow,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

/// How long an interrupt may go unnoticed.
const POLL: Duration = Duration::from_millis(30);

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Finished(FinishReason),
    /// The user stopped it.
    Interrupted,
}

impl End {
    /// The name in machine-readable output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Finished(FinishReason::EndOfText | FinishReason::StopString) => "stop",
            Self::Finished(FinishReason::Length) => "length",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) end: End,
    /// The stop string that ended it.
    pub(crate) stop: Option<String>,
    pub(crate) usage: Usage,
    /// From the call to the first token.
    pub(crate) time_to_first_token: Option<Duration>,
    /// From the call to the end.
    pub(crate) total: Duration,
}

/// What a listener gets while an answer comes in.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Prefill { done: usize, total: usize },
    Reasoning(&'a str),
    Text(&'a str),
}

/// Runs a request to its end. `show` gets every piece as it comes; its error ends the generation, as does `interrupt`
/// becoming true.
pub(crate) fn generate(
    engine: &Engine,
    request: GenerationRequest,
    splitter: Splitter,
    interrupt: Option<&AtomicBool>,
    mut show: impl FnMut(Piece<'_>) -> Result<()>,
) -> Result<Answer> {
    let start = Instant::now();
    let prompt_tokens = request.prompt.len();
    let (sender, events) = mpsc::channel();
    // Once `events` is dropped, the next send fails and the engine drops the generation.
    let forward = move |event| match sender.send(event) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    engine.submit(request, forward).map_err(refused)?;

    let mut collector = Collector::new(splitter, prompt_tokens, start);
    loop {
        if interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            collector.close(&mut show)?;
            return Ok(collector.answer(End::Interrupted));
        }
        match events.recv_timeout(POLL) {
            Ok(event) => {
                if let Some(answer) = collector.take(event, &mut show)? {
                    return Ok(answer);
                }
            }
            Err(RecvTimeoutError::Timeout) => collector.wait(&mut show)?,
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the engine ended before the answer did"),
        }
    }
}

fn refused(error: SubmitError) -> anyhow::Error {
    let advice = match &error {
        SubmitError::Sampling(error) => {
            Advice::usage(error.to_string(), "`--help` lists the sampling options and their ranges")
        }
        SubmitError::EmptyPrompt => {
            Advice::usage("the prompt is empty", "give some text as an argument or on stdin")
        }
        SubmitError::PromptTooLong { .. } => Advice::new(
            error.to_string(),
            "shorten the prompt, or raise --context (it can go up to the model's own limit, see `lily info`)",
        ),
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(advice)
}

/// Gathers an answer from events.
struct Collector {
    splitter: Splitter,
    start: Instant,
    text: String,
    reasoning: String,
    stop: Option<String>,
    usage: Usage,
    /// Prompt tokens that were read.
    prefilled: usize,
    time_to_first_token: Option<Duration>,
}

impl Collector {
    fn new(splitter: Splitter, prompt_tokens: usize, start: Instant) -> Self {
        let usage = Usage { prompt_tokens, ..Usage::default() };
        let (text, reasoning) = (String::new(), String::new());
        Self { splitter, start, text, reasoning, stop: None, usage, prefilled: 0, time_to_first_token: None }
    }

    fn take(
        &mut self,
        event: Event,
        show: &mut impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<Option<Answer>> {
        match event {
            Event::Prefill { done, total } => {
                self.prefilled = done;
                show(Piece::Prefill { done, total })?;
            }
            Event::Token { text, .. } => {
                self.usage.completion_tokens += 1;
                self.time_to_first_token.get_or_insert_with(|| self.start.elapsed());
                let spans = self.splitter.push(&text);
                self.hand_on(spans, show)?;
            }
            Event::Finished { text, reason, stop, usage } => {
                let spans = self.splitter.push(&text);
                self.hand_on(spans, show)?;
                self.close(show)?;
                (self.stop, self.usage) = (stop, usage);
                return Ok(Some(self.answer(End::Finished(reason))));
            }
            Event::Failed(error) => return Err(error.into()),
        }
        Ok(None)
    }

    /// Nothing came for a while: keeps the listener informed, since the first chunk of a prompt alone can take long.
    fn wait(&self, show: &mut impl FnMut(Piece<'_>) -> Result<()>) -> Result<()> {
        match self.time_to_first_token {
            None => show(Piece::Prefill { done: self.prefilled, total: self.usage.prompt_tokens }),
            Some(_) => Ok(()),
        }
    }

    /// Hands on what was held back.
    fn close(&mut self, show: &mut impl FnMut(Piece<'_>) -> Result<()>) -> Result<()> {
        let spans = self.splitter.finish();
        self.hand_on(spans, show)
    }

    fn hand_on(&mut self, spans: Vec<Span>, show: &mut impl FnMut(Piece<'_>) -> Result<()>) -> Result<()> {
        for span in spans {
            match span {
                Span::Reasoning(text) => {
                    show(Piece::Reasoning(&text))?;
                    self.reasoning.push_str(&text);
                }
                Span::Answer(text) => {
                    show(Piece::Text(&text))?;
                    self.text.push_str(&text);
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, end: End) -> Answer {
        Answer {
            text: std::mem::take(&mut self.text),
            reasoning: std::mem::take(&mut self.reasoning),
            end,
            stop: self.stop.take(),
            usage: self.usage.clone(),
            time_to_first_token: self.time_to_first_token,
            total: self.start.elapsed(),
        }
    }
}
