//! One choice of an answer while it is generated: engine events in, pieces of a message out.

use crate::elsewhere::Kept;
use crate::error::ApiError;
use crate::mailbox::{Overrun, Receiver, mailbox};
use crate::metrics::TokenClock;
use crate::request_log::RequestLog;
use crate::state::Server;
use lily_engine::{
    CancelToken, Event, FinishReason, GenerationError, GenerationRequest, TokenId, TokenLogprob, Usage,
};
use lily_text::parser::{self, Event as Piece, MessageParser};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What happens in a turn, in order; after `Finish` or an error there is nothing.
#[derive(Debug)]
pub(crate) enum TurnEvent {
    /// Prompt tokens consumed so far.
    Prefill { done: usize, total: usize },
    /// A token was generated: new pieces (maybe none) and its log-probability where asked for.
    Token { pieces: Vec<Piece>, logprob: Option<TokenLogprob> },
    /// The end.
    Finish(Finish),
}

/// How a turn ended.
#[derive(Debug)]
pub(crate) struct Finish {
    /// Pieces that had been held back.
    pub(crate) pieces: Vec<Piece>,
    /// Why.
    pub(crate) end: End,
    /// The stop string that ended it.
    pub(crate) stop: Option<String>,
    /// What it cost.
    pub(crate) usage: Usage,
    /// Tokens generated while the model was thinking.
    pub(crate) reasoning_tokens: usize,
}

/// Why a turn ended, as clients tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The model came to its end.
    Stop,
    /// A stop string.
    StopString,
    /// `max_tokens` or the context's end.
    Length,
    /// The model waits for the results of its calls.
    ToolCalls,
}

/// A running turn. Dropping it cancels the generation.
pub(crate) struct Turn {
    events: Receiver,
    cancel: CancelToken,
    reader: MessageParser,
    stop_ids: Vec<TokenId>,
    /// The first call is the last (`parallel_tool_calls: false`).
    single_call: bool,
    /// It is complete: nothing may follow.
    called: bool,
    /// What it has cost so far, as far as events tell; in the end the engine's own account.
    usage: Usage,
    times: Times,
    reasoning_tokens: usize,
    log: RequestLog,
    done: bool,
    limits: TurnLimits,
    /// The reader's tools, which are as large as a request makes them.
    _tools: Option<Kept<MessageParser>>,
}

/// When what happened, for the account of a turn that does not come to its end.
struct Times {
    submitted: Instant,
    begun: Option<Instant>,
    first_token: Option<Instant>,
}

/// What error messages need to know.
struct TurnLimits {
    stream_buffer: usize,
    retry_after: Duration,
    deadline: Option<Duration>,
}

/// What the reading of an answer needs beyond its generation.
pub(crate) struct TurnOptions {
    pub(crate) reader: MessageParser,
    pub(crate) single_call: bool,
    pub(crate) deadline: Option<Duration>,
    pub(crate) log: RequestLog,
}

impl Turn {
    /// Hands a generation to the engine.
    pub(crate) fn start(
        server: &Server,
        request: GenerationRequest,
        options: TurnOptions,
    ) -> Result<Self, ApiError> {
        let limits = &server.config.limits;
        let (sender, events) = mailbox(limits.stream_buffer);
        let turn = Self {
            events,
            cancel: request.cancel.clone(),
            _tools: options.reader.reads_calls().then(|| Kept::new(options.reader.clone())),
            reader: options.reader,
            stop_ids: request.stop_ids.clone(),
            single_call: options.single_call,
            called: false,
            usage: Usage { prompt_tokens: request.prompt.len(), ..Usage::default() },
            times: Times { submitted: Instant::now(), begun: None, first_token: None },
            reasoning_tokens: 0,
            log: options.log,
            done: false,
            limits: TurnLimits {
                stream_buffer: limits.stream_buffer,
                retry_after: limits.retry_after,
                deadline: options.deadline,
            },
        };
        let mut clock = TokenClock::new(Arc::clone(&server.metrics), turn.log.arrived());
        let sink = move |event| {
            clock.see(&event);
            sender.send(event)
        };
        match server.model.engine.submit(request, sink) {
            Ok(()) => Ok(turn),
            Err(error) => {
                let error = ApiError::from_submit(&error, limits.retry_after);
                let mut turn = turn;
                turn.fail(&error);
                Err(error)
            }
        }
    }

    /// Tokens of the prompt.
    pub(crate) fn prompt_tokens(&self) -> usize {
        self.usage.prompt_tokens
    }

    /// The next event; `None` after the end. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Option<Result<TurnEvent, ApiError>> {
        if self.done {
            return None;
        }
        let result = match self.events.next().await {
            Some(Ok(event)) => self.take(event),
            Some(Err(Overrun)) => Err(ApiError::slow_reader(self.limits.stream_buffer)),
            None => Err(ApiError::internal("the engine ended without an answer")),
        };
        if let Err(error) = &result {
            self.fail(error);
        }
        Some(result)
    }

    fn take(&mut self, event: Event) -> Result<TurnEvent, ApiError> {
        match event {
            Event::Prefill { done, total } => {
                self.prefill(done);
                Ok(TurnEvent::Prefill { done, total })
            }
            Event::Token { id, text, logprob } => Ok(self.token(id, &text, logprob)),
            Event::Finished { text, reason, stop, usage } => {
                self.log.text(&text);
                let mut pieces = self.reader.push(&text);
                pieces.extend(self.reader.finish(match reason {
                    FinishReason::Length => parser::End::Cut,
                    FinishReason::EndOfText | FinishReason::StopString => parser::End::Stop,
                }));
                self.end_at_call(&mut pieces);
                self.usage = usage;
                let end = match reason {
                    _ if self.called => End::ToolCalls,
                    FinishReason::Length => End::Length,
                    // The model stopped within the head of a call: that is no complete answer, whoever ended it.
                    _ if pieces.iter().any(|piece| matches!(piece, Piece::Incomplete(_))) => End::Length,
                    _ if self.reader.calls() > 0 => End::ToolCalls,
                    FinishReason::StopString => End::StopString,
                    FinishReason::EndOfText => End::Stop,
                };
                Ok(self.finish(pieces, end, stop))
            }
            Event::Failed(GenerationError::DeadlinePassed) => {
                Err(ApiError::deadline(self.limits.deadline.unwrap_or_default()))
            }
            Event::Failed(error) => Err(ApiError::from_generation(&error, self.limits.retry_after)),
        }
    }

    /// The first of these events comes with a place for the generation and tells what is cached, the others what has
    /// been read.
    fn prefill(&mut self, done: usize) {
        match self.times.begun {
            None => {
                self.times.begun = Some(Instant::now());
                self.usage.queue = self.times.submitted.elapsed();
                self.usage.cached_tokens = done;
            }
            Some(begun) => self.usage.prefill = begun.elapsed(),
        }
    }

    fn token(&mut self, id: TokenId, text: &str, logprob: Option<TokenLogprob>) -> TurnEvent {
        self.log.token();
        self.log.text(text);
        self.usage.completion_tokens += 1;
        self.usage.decode = self.times.first_token.get_or_insert_with(Instant::now).elapsed();
        if self.reader.in_reasoning() {
            self.reasoning_tokens += 1;
        }
        if self.called {
            // The engine ends an answer behind its one call; one that goes on is ended here.
            self.cancel.cancel();
            return self.finish(Vec::new(), End::ToolCalls, None);
        }
        let mut pieces = self.reader.push(text);
        self.end_at_call(&mut pieces);
        // A stop id is no part of the answer.
        let logprob = logprob.filter(|_| !self.stop_ids.contains(&id));
        TurnEvent::Token { pieces, logprob }
    }

    /// Leaves out what follows the one call.
    fn end_at_call(&mut self, pieces: &mut Vec<Piece>) {
        if self.called {
            pieces.clear();
        } else if self.single_call
            && let Some(end) = pieces.iter().position(|piece| matches!(piece, Piece::CallEnd { .. }))
        {
            self.called = true;
            pieces.truncate(end + 1);
        }
    }

    fn finish(&mut self, pieces: Vec<Piece>, end: End, stop: Option<String>) -> TurnEvent {
        self.done = true;
        let usage = self.usage.clone();
        self.log.finished(end, &usage);
        TurnEvent::Finish(Finish { pieces, end, stop, usage, reasoning_tokens: self.reasoning_tokens })
    }

    fn fail(&mut self, error: &ApiError) {
        self.done = true;
        self.cancel.cancel();
        self.log.failed(error, &self.usage);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.cancel.cancel();
        if !self.done {
            self.log.cancelled(&self.usage);
        }
    }
}
