//! One generation, streamed: events of the engine become pieces of thinking, answer and calls.

use crate::failure::Advice;
use anyhow::Result;
use lily_engine::{Engine, Event, FinishReason, GenerationRequest, SubmitError, Usage};
use lily_text::parser::{self, MessageParser, ToolCall};
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

/// A whole answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// The calls that are complete.
    pub(crate) calls: Vec<ToolCall>,
    /// Markup of a call that the text ended in before there was a name.
    pub(crate) incomplete: Option<String>,
    pub(crate) end: End,
    /// The stop string that ended it.
    pub(crate) stop: Option<String>,
    pub(crate) usage: Usage,
    /// From the call to the first token.
    pub(crate) time_to_first_token: Option<Duration>,
    /// From the call to the end.
    pub(crate) total: Duration,
}

impl Answer {
    /// The end, as machine-readable output names it.
    pub(crate) fn finish_reason(&self) -> &'static str {
        match self.end {
            End::Finished(FinishReason::Length) => "length",
            // The model stopped within the head of a call: that is no complete answer.
            End::Finished(_) if self.incomplete.is_some() => "length",
            End::Finished(_) if !self.calls.is_empty() => "tool_calls",
            End::Finished(FinishReason::EndOfText | FinishReason::StopString) => "stop",
            End::Interrupted => "interrupted",
        }
    }
}

/// What a listener gets while an answer comes in.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Prefill {
        done: usize,
        total: usize,
    },
    Reasoning(&'a str),
    Text(&'a str),
    /// A call, complete.
    Call(&'a ToolCall),
}

/// Runs a request to its end. `show` gets every piece as it comes; its error ends the generation, as does `interrupt`
/// becoming true.
pub(crate) fn generate(
    engine: &Engine,
    request: GenerationRequest,
    parser: MessageParser,
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

    let mut collector = Collector::new(parser, prompt_tokens, start);
    loop {
        if interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            collector.close(parser::End::Cut, &mut show)?;
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
    parser: MessageParser,
    start: Instant,
    text: String,
    reasoning: String,
    /// Every call begun, and whether it has ended.
    calls: Vec<(ToolCall, bool)>,
    incomplete: Option<String>,
    stop: Option<String>,
    usage: Usage,
    /// Prompt tokens that were read.
    prefilled: usize,
    time_to_first_token: Option<Duration>,
}

impl Collector {
    fn new(parser: MessageParser, prompt_tokens: usize, start: Instant) -> Self {
        Self {
            parser,
            start,
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            incomplete: None,
            stop: None,
            usage: Usage { prompt_tokens, ..Usage::default() },
            prefilled: 0,
            time_to_first_token: None,
        }
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
                let events = self.parser.push(&text);
                self.hand_on(events, show)?;
            }
            Event::Finished { text, reason, stop, usage } => {
                let events = self.parser.push(&text);
                self.hand_on(events, show)?;
                let end = if reason == FinishReason::Length { parser::End::Cut } else { parser::End::Stop };
                self.close(end, show)?;
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
    fn close(&mut self, end: parser::End, show: &mut impl FnMut(Piece<'_>) -> Result<()>) -> Result<()> {
        let events = self.parser.finish(end);
        self.hand_on(events, show)
    }

    fn hand_on(
        &mut self,
        events: Vec<parser::Event>,
        show: &mut impl FnMut(Piece<'_>) -> Result<()>,
    ) -> Result<()> {
        for event in events {
            match event {
                parser::Event::Reasoning(text) => {
                    show(Piece::Reasoning(&text))?;
                    self.reasoning.push_str(&text);
                }
                parser::Event::Content(text) => {
                    show(Piece::Text(&text))?;
                    self.text.push_str(&text);
                }
                parser::Event::CallStart { name, .. } => {
                    self.calls.push((ToolCall { name, arguments: String::new() }, false));
                }
                parser::Event::CallArguments { call, json } => {
                    if let Some((call, _)) = self.calls.get_mut(call) {
                        call.arguments.push_str(&json);
                    }
                }
                parser::Event::CallEnd { call } => {
                    if let Some((call, ended)) = self.calls.get_mut(call) {
                        *ended = true;
                        show(Piece::Call(call))?;
                    }
                }
                parser::Event::Incomplete(text) => self.incomplete = Some(text),
            }
        }
        Ok(())
    }

    fn answer(&mut self, end: End) -> Answer {
        Answer {
            text: std::mem::take(&mut self.text),
            reasoning: std::mem::take(&mut self.reasoning),
            calls: self.calls.drain(..).filter(|(_, ended)| *ended).map(|(call, _)| call).collect(),
            incomplete: self.incomplete.take(),
            end,
            stop: self.stop.take(),
            usage: self.usage.clone(),
            time_to_first_token: self.time_to_first_token,
            total: self.start.elapsed(),
        }
    }
}
