//! One conversation: takes lines, answers messages, obeys commands.

use super::{
    conversation::Conversation,
    slash::{self, NotSlash, Slash},
    stats::Stats,
};
use crate::{
    answer::{self, Answer, End},
    failure,
    load::Loaded,
    printer::{Printer, write_to},
    prompt,
    sampling::SamplingArgs,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use lily_engine::{FinishReason, SamplingParams};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// What becomes of the conversation after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Continue,
    /// The message was not answered; the user was told why.
    Failed,
    Leave,
}

/// A conversation with a model.
pub(super) struct Session<'a> {
    model: &'a Loaded,
    terminal: &'a Terminal,
    conversation: Conversation,
    sampling: SamplingParams,
    limits: &'a SamplingArgs,
    interactive: bool,
    /// Becomes true with Ctrl-C.
    interrupt: Arc<AtomicBool>,
    stats: Stats,
}

impl<'a> Session<'a> {
    /// A new conversation. From now on, Ctrl-C stops answers and not the program (where a person is at the keyboard).
    pub(super) fn new(
        model: &'a Loaded,
        terminal: &'a Terminal,
        conversation: Conversation,
        sampling: SamplingParams,
        limits: &'a SamplingArgs,
        interactive: bool,
    ) -> Result<Self> {
        let interrupt = Arc::new(AtomicBool::new(false));
        if interactive {
            signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupt))?;
        }
        let stats = Stats::default();
        Ok(Self { model, terminal, conversation, sampling, limits, interactive, interrupt, stats })
    }

    /// Answers a message, or obeys a command.
    pub(super) fn handle(&mut self, line: &str) -> Result<Verdict> {
        match slash::parse(line) {
            Ok(command) => self.obey(command),
            Err(NotSlash::Argument(reason)) => self.misused(&reason),
            // From a pipe, text that merely starts with a slash is a message.
            Err(NotSlash::Unknown(name)) if self.interactive => self
                .misused(&format!("there is no command {name}; a leading space sends the line as a message")),
            Err(_) if line.trim().is_empty() => Ok(Verdict::Continue),
            Err(_) => self.ask(line),
        }
    }

    fn obey(&mut self, command: Slash<'_>) -> Result<Verdict> {
        match command {
            Slash::Help => self.tell(&help())?,
            Slash::Reset => {
                self.conversation.reset();
                self.tell("the conversation starts over")?;
            }
            Slash::Retry => match self.conversation.take_back() {
                Some(message) => return self.ask(&message),
                None => self.tell("there is no message to answer again")?,
            },
            Slash::System(None) => {
                let system = self.conversation.system.as_deref().unwrap_or("there is no system message");
                self.tell(system)?;
            }
            Slash::System(Some(text)) => {
                self.conversation.system = Some(text.to_owned()).filter(|text| text != "none");
                self.tell("the system message holds from the next message on")?;
            }
            Slash::Think(None) => {
                let state = self
                    .conversation
                    .thinking
                    .map_or("as the chat template has it", |on| if on { "on" } else { "off" });
                self.tell(&format!("thinking is {state}"))?;
            }
            Slash::Think(Some(on)) => {
                self.conversation.thinking = Some(on);
                self.tell(if on { "thinking is on" } else { "thinking is off" })?;
            }
            Slash::Stats => self.tell(&self.stats.table(self.model.engine.max_context()))?,
            Slash::Quit => return Ok(Verdict::Leave),
        }
        Ok(Verdict::Continue)
    }

    /// One turn. A message that cannot be answered is taken back, so that the conversation stays usable.
    fn ask(&mut self, message: &str) -> Result<Verdict> {
        self.conversation.ask(message);
        let mut printer = Printer::new(self.terminal);
        let answer = self.answer(&mut printer);
        printer.finish()?;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if failure::is_broken_pipe(&error) => return Err(error),
            Err(error) => {
                self.conversation.take_back();
                write_to(Stream::Stderr, &failure::describe(&error, self.terminal))?;
                if self.stats.context() > 0 && is_too_long(&error) {
                    self.tell("the conversation has grown too long: /reset starts over")?;
                }
                return Ok(Verdict::Failed);
            }
        };
        self.explain_end(&answer)?;
        self.stats.add(&answer);
        if answer.text.is_empty() && answer.end == End::Interrupted {
            self.conversation.take_back();
        } else {
            self.conversation.answered(&answer);
        }
        if self.interactive {
            write_to(Stream::Stderr, "\n")?;
        }
        Ok(Verdict::Continue)
    }

    fn answer(&self, printer: &mut Printer<'_>) -> Result<Answer> {
        let prompt = prompt::render(&self.model.text, &self.conversation.request())?;
        let mut request = self.model.request(prompt.tokens, self.sampling.clone());
        request.max_tokens = self.limits.max_tokens();
        request.stop.clone_from(&self.limits.stop);
        // The next turn's prompt goes on from here: the generation prompt after it will have become an answer.
        request.snapshot_at.extend(prompt.turn_end);
        self.interrupt.store(false, Ordering::Relaxed);
        answer::generate(&self.model.engine, request, prompt.parser, Some(&self.interrupt), |piece| {
            printer.show(&piece)
        })
    }

    fn explain_end(&self, answer: &Answer) -> Result<()> {
        let limit = self.model.engine.max_context();
        let used = answer.usage.prompt_tokens + answer.usage.completion_tokens;
        let text = match answer.end {
            End::Interrupted => "[stopped]".to_owned(),
            End::Finished(FinishReason::Length) if used >= limit => {
                format!("[cut: the context of {limit} tokens is full; /reset starts over]")
            }
            End::Finished(FinishReason::Length) => {
                format!("[cut after {} tokens: --max-tokens]", answer.usage.completion_tokens)
            }
            End::Finished(_) => return Ok(()),
        };
        self.tell(&text)
    }

    fn misused(&self, reason: &str) -> Result<Verdict> {
        let label = self.terminal.paint(Stream::Stderr, self.terminal.styles.error, "error");
        write_to(Stream::Stderr, &format!("{label}: {}\n", self.terminal.visible(reason)))?;
        self.tell("/help lists the commands")?;
        Ok(Verdict::Failed)
    }

    /// A word to the user, apart from the answers.
    fn tell(&self, text: &str) -> Result<()> {
        let text = self.terminal.visible(text);
        let text = self.terminal.paint(Stream::Stderr, self.terminal.styles.dim, &text);
        write_to(Stream::Stderr, &format!("{text}\n"))
    }
}

fn is_too_long(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(lily_engine::SubmitError::PromptTooLong { .. }))
}

fn help() -> String {
    let lines = slash::COMMANDS
        .iter()
        .map(|(name, argument, text)| format!("{:<16}{text}", format!("{name} {argument}")));
    lines.collect::<Vec<_>>().join("\n")
}
