//! Writes an answer while it comes in: text to stdout, thinking dimmed to where a person can see it.

use crate::{
    answer::Piece,
    json,
    progress::PrefillBar,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use std::io::{self, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Nothing,
    Reasoning,
    Text,
}

/// The writer of one answer.
pub(crate) struct Printer<'t> {
    terminal: &'t Terminal,
    /// Where thinking goes; nowhere if no terminal would show it.
    reasoning: Option<Stream>,
    bar: PrefillBar,
    phase: Phase,
    at_line_start: bool,
}

impl<'t> Printer<'t> {
    /// Thinking goes to stderr, so that stdout holds the answer alone, and only if a person looks at stderr.
    pub(crate) fn new(terminal: &'t Terminal) -> Self {
        Self {
            terminal,
            reasoning: terminal.stderr.then_some(Stream::Stderr),
            bar: PrefillBar::new(terminal),
            phase: Phase::Nothing,
            at_line_start: true,
        }
    }

    /// Shows a piece at once.
    pub(crate) fn show(&mut self, piece: &Piece<'_>) -> Result<()> {
        match *piece {
            Piece::Prefill { done, total } => self.bar.update(done, total),
            Piece::Reasoning(text) => {
                let Some(stream) = self.reasoning else { return Ok(()) };
                self.bar.clear();
                if self.phase == Phase::Nothing && !self.terminal.colors(stream) {
                    // Without a dimmed style, words have to tell thinking from answer.
                    write_to(stream, "[thinking] ")?;
                }
                self.phase = Phase::Reasoning;
                let text = self.terminal.foreign(stream, text);
                write_to(stream, &self.terminal.paint(stream, self.terminal.styles.dim, &text))?;
            }
            Piece::Call(call) => {
                self.bar.clear();
                self.end_reasoning()?;
                let begin = if self.phase == Phase::Text && !self.at_line_start { "\n" } else { "" };
                (self.phase, self.at_line_start) = (Phase::Text, true);
                let line = format!("{begin}{}\n", json::call_line(call));
                write_to(Stream::Stdout, &self.terminal.foreign(Stream::Stdout, &line))?;
            }
            Piece::Text(text) => {
                self.bar.clear();
                self.end_reasoning()?;
                self.phase = Phase::Text;
                self.at_line_start = text.ends_with('\n');
                write_to(Stream::Stdout, &self.terminal.foreign(Stream::Stdout, text))?;
            }
        }
        Ok(())
    }

    /// Ends the last line.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.bar.clear();
        match self.phase {
            Phase::Reasoning => write_to(Stream::Stderr, "\n"),
            Phase::Text if !self.at_line_start => write_to(Stream::Stdout, "\n"),
            _ => Ok(()),
        }
    }

    fn end_reasoning(&mut self) -> Result<()> {
        if self.phase == Phase::Reasoning { write_to(Stream::Stderr, "\n\n") } else { Ok(()) }
    }
}

/// Writes and flushes, so that text shows while it is made.
pub(crate) fn write_to(stream: Stream, text: &str) -> Result<()> {
    fn write(mut out: impl Write, text: &str) -> io::Result<()> {
        out.write_all(text.as_bytes())?;
        out.flush()
    }
    match stream {
        Stream::Stdout => write(io::stdout().lock(), text)?,
        Stream::Stderr => write(io::stderr().lock(), text)?,
    }
    Ok(())
}
