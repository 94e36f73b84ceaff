//! Line editing on a terminal.

use super::{history, input::Entry, multiline, slash};
use crate::terminal::{Stream, Terminal};
use anyhow::Result;
use rustyline::{
    Cmd, ColorMode, Config, Context, Editor, Helper, KeyEvent,
    completion::Completer,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::DefaultHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};
use std::{borrow::Cow, path::PathBuf};

/// What stands before the cursor.
pub(super) const PROMPT: &str = "> ";

/// An editor with a history.
pub(super) struct LineEditor {
    editor: Editor<ChatHelper, DefaultHistory>,
    history: Option<PathBuf>,
}

impl LineEditor {
    /// With the history in a file, if one is given and can be used.
    pub(super) fn new(terminal: &Terminal, history: Option<PathBuf>) -> Result<Self> {
        let colors = terminal.colors(Stream::Stdout);
        let config = Config::builder()
            .max_history_size(history::MAX_LINES)?
            .history_ignore_dups(true)?
            .history_ignore_space(true)
            .bracketed_paste(true)
            .color_mode(if colors { ColorMode::Enabled } else { ColorMode::Disabled })
            .build();
        let mut editor = Editor::with_config(config)?;
        let style = terminal.styles.prompt;
        editor.set_helper(Some(ChatHelper { prompt: format!("{style}{PROMPT}{style:#}") }));
        editor.bind_sequence(KeyEvent::alt('\r'), Cmd::Newline);
        let history = history.filter(|path| match history::prepare(path) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!("{}: {error}; what you type will not be remembered", path.display());
                false
            }
        });
        if let Some(path) = &history
            && let Err(error) = editor.load_history(path)
        {
            tracing::warn!("{}: {error}; starting with an empty history", path.display());
        }
        Ok(Self { editor, history })
    }

    /// Reads a message.
    pub(super) fn next(&mut self) -> Result<Entry> {
        let typed = match self.editor.readline(PROMPT) {
            Ok(typed) => typed,
            Err(ReadlineError::Interrupted) => return Ok(Entry::Interrupted),
            Err(ReadlineError::Eof) => return Ok(Entry::End),
            Err(error) => return Err(error.into()),
        };
        if !typed.trim().is_empty() {
            self.remember(&typed);
        }
        Ok(Entry::Message(multiline::message(&typed)))
    }

    fn remember(&mut self, typed: &str) {
        let added = self.editor.add_history_entry(typed);
        if let (Ok(true), Some(path)) = (added, &self.history)
            && let Err(error) = self.editor.append_history(path)
        {
            tracing::warn!("{}: {error}", path.display());
        }
    }
}

/// Completion of commands, messages of several lines, a coloured prompt.
struct ChatHelper {
    prompt: String,
}

impl Helper for ChatHelper {}

impl Hinter for ChatHelper {
    type Hint = String;
}

impl Completer for ChatHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..pos];
        let names = slash::COMMANDS.iter().map(|(name, ..)| (*name).to_owned());
        Ok((
            0,
            if typed.is_empty() {
                Vec::new()
            } else {
                names.filter(|name| name.starts_with(typed)).collect()
            },
        ))
    }
}

impl Validator for ChatHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let complete = multiline::is_complete(context.input());
        Ok(if complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Highlighter for ChatHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, default: bool) -> Cow<'b, str> {
        if default { Cow::Borrowed(&self.prompt) } else { Cow::Borrowed(prompt) }
    }
}
