//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod eval;
pub(crate) mod info;
pub(crate) mod parse;
pub(crate) mod render;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod top;
pub(crate) mod tune;

use crate::{
    cli::{Cli, Command},
    printer::write_to,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use clap::CommandFactory;
use std::process::ExitCode;

/// Runs the command; without one, shows the help.
pub(crate) fn run(cli: &Cli, terminal: &Terminal) -> Result<ExitCode> {
    let options = &cli.global;
    match &cli.command {
        None => {
            let help = Cli::command().render_help();
            let help =
                if terminal.colors(Stream::Stdout) { help.ansi().to_string() } else { help.to_string() };
            write_to(Stream::Stdout, &help)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Chat(args)) => chat::run(args, options, terminal),
        Some(Command::Run(args)) => run::run(args, options, terminal),
        Some(Command::Serve(args)) => serve::run(args, options, terminal),
        Some(Command::Info(args)) => info::run(args, options, terminal),
        Some(Command::Render(args)) => render::run(args, options, terminal),
        Some(Command::Bench(args)) => bench::run(args, options, terminal),
        Some(Command::Eval(args)) => eval::run(args, options, terminal),
        Some(Command::Parse(args)) => parse::run(args, options, terminal),
        Some(Command::Top(args)) => top::run(args, terminal),
        Some(Command::Tune(args)) => tune::run(args, options, terminal),
    }
}
