//! `lily chat`: a conversation in the terminal.

mod conversation;
mod editor;
mod history;
mod input;
mod multiline;
mod session;
mod slash;
mod stats;

use crate::{
    cli::{GlobalOptions, Switch},
    failure,
    load::{self, Loaded},
    printer::write_to,
    sampling::SamplingArgs,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use clap::Args;
use input::{Entry, Input};
use lily_engine::EngineOptions;
use session::{Session, Verdict};
use std::process::ExitCode;

const LONG: &str = "\
Talk to the model.

On a terminal: arrow keys edit and recall earlier lines; a line that ends in a backslash, or starts with \"\"\", \
goes on; Alt-Enter starts a new line. Ctrl-C stops the answer, or clears the line; twice, or Ctrl-D, leaves. `/help` \
lists the commands inside.

From a pipe: every line is one message, answers go to stdout, everything else to stderr; the exit code is 1 if any \
message failed.";

/// Talk to the model
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct ChatArgs {
    /// System message
    #[arg(short, long, value_name = "TEXT")]
    system: Option<String>,

    /// Whether the model thinks before it answers [default: the chat template's]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    think: Option<Switch>,

    /// Neither read nor write the history of typed lines ($XDG_STATE_HOME/lily/history)
    #[arg(long)]
    no_history: bool,

    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Runs the command.
pub(crate) fn run(args: &ChatArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    // One conversation at a time.
    let engine = EngineOptions { max_running: 1, ..EngineOptions::default() };
    let model = load::load(options, engine, terminal)?;
    model.text.template()?;
    let sampling = args.sampling.apply(model.defaults.clone());
    sampling
        .validate()
        .map_err(|error| failure::Advice::usage(error.to_string(), "see `lily chat --help`"))?;

    let mut input = Input::open(terminal, !args.no_history)?;
    if input.is_interactive() {
        greet(&model, terminal)?;
    }
    let conversation = conversation::Conversation::new(args.system.clone(), args.think.map(Switch::is_on));
    let mut session =
        Session::new(&model, terminal, conversation, sampling, &args.sampling, input.is_interactive())?;
    // Leaving does not wait for what the engine may still be at.
    talk(&mut session, &mut input, terminal)
}

/// Reads and answers until the user leaves.
fn talk(session: &mut Session<'_>, input: &mut Input, terminal: &Terminal) -> Result<ExitCode> {
    let (mut interrupts, mut failed) = (0, false);
    loop {
        let entry = input.next()?;
        let message = match entry {
            Entry::End => break,
            Entry::Interrupted => {
                interrupts += 1;
                if interrupts > 1 {
                    break;
                }
                write_to(
                    Stream::Stderr,
                    &terminal.paint(Stream::Stderr, terminal.styles.dim, "(Ctrl-C again or Ctrl-D leaves)"),
                )?;
                write_to(Stream::Stderr, "\n")?;
                continue;
            }
            Entry::Message(message) => message,
        };
        interrupts = 0;
        match session.handle(&message)? {
            Verdict::Continue => {}
            Verdict::Failed => failed = true,
            Verdict::Leave => break,
        }
    }
    // In a conversation, an error that was shown and lived with is no failure of the program.
    Ok(if failed && !input.is_interactive() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn greet(model: &Loaded, terminal: &Terminal) -> Result<()> {
    let styles = &terminal.styles;
    let title = format!("Lily {} · {}", env!("CARGO_PKG_VERSION"), model.name);
    let details = format!(
        " ({})\n{} · ready in {} ms\nType a message. /help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves.",
        model.place,
        model.engine.describe(),
        model.took.as_millis(),
    );
    let (title, details) = (terminal.visible(&title), terminal.visible(&details));
    let title = terminal.paint(Stream::Stderr, styles.strong, &title);
    let details = terminal.paint(Stream::Stderr, styles.dim, &details);
    write_to(Stream::Stderr, &format!("{title}{details}\n\n"))
}
