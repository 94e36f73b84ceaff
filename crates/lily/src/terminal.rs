//! What the user sees: which streams are terminals, colours, and the filter that keeps control characters of foreign
//! text (a model's answer, a template's message) from reaching a terminal.

use crate::cli::ColorChoice;
use anstyle::{AnsiColor, Style};
use std::{
    borrow::Cow,
    io::{self, IsTerminal},
};

/// A place to write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The styles in use, in one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Styles {
    pub(crate) error: Style,
    pub(crate) warning: Style,
    pub(crate) hint: Style,
    pub(crate) dim: Style,
    pub(crate) strong: Style,
    pub(crate) prompt: Style,
}

const STYLES: Styles = Styles {
    error: AnsiColor::Red.on_default().bold(),
    warning: AnsiColor::Yellow.on_default().bold(),
    hint: AnsiColor::Cyan.on_default().bold(),
    dim: Style::new().dimmed(),
    strong: Style::new().bold(),
    prompt: AnsiColor::Green.on_default().bold(),
};

/// The three standard streams.
#[derive(Debug, Clone)]
pub(crate) struct Terminal {
    /// stdin is a terminal.
    pub(crate) stdin: bool,
    /// stdout is a terminal.
    pub(crate) stdout: bool,
    /// stderr is a terminal.
    pub(crate) stderr: bool,
    color_stdout: bool,
    color_stderr: bool,
    progress: bool,
    pub(crate) styles: Styles,
}

impl Terminal {
    /// Looks at the streams and at the environment (`NO_COLOR`, `TERM=dumb`). A log on stderr leaves no place for
    /// progress bars.
    pub(crate) fn detect(color: ColorChoice, log: bool) -> Self {
        let (stdin, stdout, stderr) =
            (io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal());
        let wanted = |is_terminal: bool| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && !no_color() && !dumb(),
        };
        Self {
            stdin,
            stdout,
            stderr,
            color_stdout: wanted(stdout),
            color_stderr: wanted(stderr),
            progress: stderr && !dumb() && !log,
            styles: STYLES,
        }
    }

    /// No terminal, no colours: for tests.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        let no = false;
        Self {
            stdin: no,
            stdout: no,
            stderr: no,
            color_stdout: no,
            color_stderr: no,
            progress: no,
            styles: STYLES,
        }
    }

    /// Whether colours go to `stream`.
    pub(crate) fn colors(&self, stream: Stream) -> bool {
        match stream {
            Stream::Stdout => self.color_stdout,
            Stream::Stderr => self.color_stderr,
        }
    }

    /// Whether `stream` is a terminal.
    pub(crate) fn is_terminal(&self, stream: Stream) -> bool {
        match stream {
            Stream::Stdout => self.stdout,
            Stream::Stderr => self.stderr,
        }
    }

    /// Whether progress bars may be drawn on stderr.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress
    }

    /// `text` in a style, where the stream takes colours.
    pub(crate) fn paint<'a>(&self, stream: Stream, style: Style, text: &'a str) -> Cow<'a, str> {
        if self.colors(stream) && !text.is_empty() {
            Cow::Owned(format!("{style}{text}{style:#}"))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Foreign text, safe to show to a person on stderr.
    #[expect(clippy::unused_self, reason = "reads as a property of the terminal at every call")]
    pub(crate) fn visible<'a>(&self, text: &'a str) -> Cow<'a, str> {
        visible(text)
    }

    /// Foreign text for a stream: filtered on a terminal, exact otherwise.
    pub(crate) fn foreign<'a>(&self, stream: Stream, text: &'a str) -> Cow<'a, str> {
        if self.is_terminal(stream) { visible(text) } else { Cow::Borrowed(text) }
    }
}

fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Replaces control characters (but newline and tab) by visible ones, so that no escape sequence survives: C0 and DEL by
/// their control pictures, C1 and the direction overrides (which can make text read otherwise than it is) by U+FFFD.
fn visible(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_direction_override(c));
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let replace = |c: char| match c {
        c if harmless(c) => c,
        '\u{7f}' => '\u{2421}',
        c if c < ' ' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'),
        _ => '\u{fffd}',
    };
    Cow::Owned(text.chars().map(replace).collect())
}

fn is_direction_override(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_survive() {
        assert_eq!(visible("a\u{1b}[31mred\u{1b}[0m"), "a\u{241b}[31mred\u{241b}[0m");
        assert_eq!(visible("\u{9b}2J\u{7f}\r\u{202e}"), "\u{fffd}2J\u{2421}\u{240d}\u{fffd}");
    }

    #[test]
    fn plain_text_passes_untouched() {
        let text = "Zeile 1\n\tZeile 2: äöü 漢字 🙂";
        assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
    }
}
