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
    Prompted,
    /// One line is one message, nothing is asked.
    Pipe,
}

impl Input {
    /// Chooses by what the streams are.
    pub(super) fn open(terminal: &Terminal, remember: bool) -> Result<Self> {
        Ok(match (terminal.stdin, terminal.stdout) {
            (true, true) => {
                let path = if remember { history::path() } else { None };
                Self::Editor(Box::new(editor::LineEditor::new(terminal, path)?))
            }
            (true, false) => Self::Prompted,
            (false, _) => Self::Pipe,
        })
    }

    /// Whether a person sits at the other end.
    pub(super) fn is_interactive(&self) -> bool {
        !matches!(self, Self::Pipe)
    }

    /// Reads the next entry.
    pub(super) fn next(&mut self) -> Result<Entry> {
        match self {
            Self::Editor(editor) => editor.next(),
            Self::Prompted => {
                write_to(Stream::Stderr, editor::PROMPT)?;
                read_line()
            }
            Self::Pipe => read_line(),
        }
    }
}

fn read_line() -> Result<Entry> {
    let mut line = String::new();
    loop {
        line.clear();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) => return Ok(Entry::End),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Entry::Interrupted),
            Err(error) => return Err(error).context("stdin"),
        }
        if !line.trim().is_empty() {
            return Ok(Entry::Message(line.trim_end_matches(['\n', '\r']).to_owned()));
        }
    }
}
