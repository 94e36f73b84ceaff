//! From an error to what the user reads and the exit code: 0 success, 1 failure, 2 wrong usage.

use crate::terminal::{Stream, Terminal};
use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

/// An error message with a hint on what to do; used as context on an error, or as the error itself.
#[derive(Debug)]
pub(crate) struct Advice {
    message: String,
    hint: Option<String>,
    usage: bool,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Advice {}

impl Advice {
    /// What went wrong, and what to do about it.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()), usage: false }
    }

    /// The command line is at fault (exit code 2).
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()), usage: true }
    }
}

/// Writes the error with its causes and hints to stderr, each text once, and gives the exit code. A reader that went
/// away (broken pipe) had what it wanted: success, and silence.
pub(crate) fn report(error: &anyhow::Error, terminal: &Terminal) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let (text, usage) =
        (describe(error, terminal), error.downcast_ref::<Advice>().is_some_and(|advice| advice.usage));
    // Nothing can be done if stderr is gone too.
    let _ = io::stderr().lock().write_all(text.as_bytes());
    if usage { ExitCode::from(2) } else { ExitCode::FAILURE }
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// `error:` line, `cause:` lines, `hint:` lines. Libraries put hints of their own on lines that start with `hint:`.
pub(crate) fn describe(error: &anyhow::Error, terminal: &Terminal) -> String {
    let (mut said, mut hints) = (Vec::<String>::new(), Vec::<String>::new());
    for cause in error.chain() {
        let (message, own_hints) = split_hints(&cause.to_string());
        // Some errors repeat their source in their own text.
        if !said.iter().any(|earlier| earlier.contains(&message)) {
            said.push(message);
        }
        hints.extend(own_hints);
    }
    // As context, the advice is no link of the chain itself; anyhow finds the outermost.
    hints.extend(error.downcast_ref::<Advice>().and_then(|advice| advice.hint.clone()));
    let mut told = std::collections::HashSet::new();
    hints.retain(|hint| told.insert(hint.clone()));

    let style = |text: &'static str, style| terminal.paint(Stream::Stderr, style, text);
    let mut out = String::new();
    for (index, message) in said.iter().enumerate() {
        let label = if index == 0 {
            style("error", terminal.styles.error)
        } else {
            style("  cause", terminal.styles.dim)
        };
        out.push_str(&format!("{label}: {}\n", terminal.visible(message)));
    }
    for hint in hints {
        out.push_str(&format!("{}: {}\n", style("hint", terminal.styles.hint), terminal.visible(&hint)));
    }
    out
}

fn split_hints(text: &str) -> (String, Vec<String>) {
    let (hints, message): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.trim_start().starts_with("hint:"));
    let hints = hints.iter().map(|line| line.trim_start()["hint:".len()..].trim().to_owned()).collect();
    (message.join("\n"), hints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn repeated_causes_are_said_once_and_hints_come_last() {
        let inner: Result<(), _> = Err(io::Error::other("disk on fire"));
        let error = inner
            .context("config.json: disk on fire")
            .context(Advice::new("cannot open the model in /m", "call someone"))
            .unwrap_err();
        let text = describe(&error, &Terminal::plain());
        assert_eq!(
            text,
            "error: cannot open the model in /m\n  cause: config.json: disk on fire\nhint: call someone\n"
        );
    }

    #[test]
    fn a_hint_line_inside_a_message_becomes_a_hint() {
        let error = anyhow::anyhow!("port 80 is taken\nhint: choose another");
        assert_eq!(describe(&error, &Terminal::plain()), "error: port 80 is taken\nhint: choose another\n");
    }

    #[test]
    fn broken_pipe_is_found_anywhere_in_the_chain() {
        let error =
            anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing the answer");
        assert!(is_broken_pipe(&error));
        assert!(!is_broken_pipe(&anyhow::anyhow!("other")));
    }
}
