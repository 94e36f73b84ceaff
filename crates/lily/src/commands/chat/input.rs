//! Where a chat's lines come from: an editor on a terminal, plain lines from a pipe.

use super::{editor, history};
use crate::{
    printer::write_to,
    terminal::{Stream, Terminal},
};
use anyhow::{Context, Result};
use std::io::{self, BufRead};

/// What was entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Message(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the pipe.
    End,
}

/// A source of entries.
pub(super) enum Input {
    /// stdin and stdout are terminals.
    Editor(Box<editor::LineEditor>),
    /// stdin is a terminal but stdout is not: a prompt on stderr, no editing.
    Prompted(Lines),
    /// One line is one message, nothing is asked.
    Pipe(Lines),
}

impl Input {
    /// Chooses by what the streams are.
    pub(super) fn open(terminal: &Terminal, remember: bool) -> Result<Self> {
        Ok(match (terminal.stdin, terminal.stdout) {
            (true, true) => {
                let path = if remember { history::path() } else { None };
                Self::Editor(Box::new(editor::LineEditor::new(terminal, path)?))
            }
            (true, false) => Self::Prompted(Lines::default()),
            (false, _) => Self::Pipe(Lines::default()),
        })
    }

    /// Whether a person sits at the other end.
    pub(super) fn is_interactive(&self) -> bool {
        !matches!(self, Self::Pipe(_))
    }

    /// Reads the next entry.
    pub(super) fn next(&mut self) -> Result<Entry> {
        match self {
            Self::Editor(editor) => editor.next(),
            Self::Prompted(lines) => {
                write_to(Stream::Stderr, editor::PROMPT)?;
                lines.next(&mut io::stdin().lock())
            }
            Self::Pipe(lines) => lines.next(&mut io::stdin().lock()),
        }
    }
}

/// Lines, counted.
#[derive(Debug, Default)]
pub(super) struct Lines {
    read: usize,
}

impl Lines {
    /// The next line that is not blank.
    fn next(&mut self, from: &mut dyn BufRead) -> Result<Entry> {
        loop {
            let mut line = Vec::new();
            match from.read_until(b'\n', &mut line) {
                Ok(0) => return Ok(Entry::End),
                Ok(_) => self.read += 1,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Entry::Interrupted),
                Err(error) => return Err(error).context("stdin"),
            }
            let line = String::from_utf8(line)
                .map_err(|error| error.utf8_error())
                .with_context(|| format!("stdin, line {}: not UTF-8", self.read))?;
            if !line.trim().is_empty() {
                return Ok(Entry::Message(line.trim_end_matches(['\n', '\r']).to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_text_is_told_with_its_number() {
        let (mut lines, mut from) = (Lines::default(), &b"Hi\r\n\n\xff\xfe\n"[..]);
        assert_eq!(lines.next(&mut from).unwrap(), Entry::Message("Hi".to_owned()));
        let error = lines.next(&mut from).unwrap_err().to_string();
        assert_eq!(error, "stdin, line 3: not UTF-8");
        assert_eq!(lines.next(&mut from).unwrap(), Entry::End);
    }
}
