//! `lily`: talk to a Qwen3.6 mixture-of-experts model, serve it, measure it, look into it.

mod answer;
mod backend;
mod cli;
mod commands;
mod embedded;
mod failure;
mod json;
mod load;
mod logging;
mod memory;
mod model;
mod panics;
mod printer;
mod progress;
mod prompt;
mod request_file;
mod sampling;
mod terminal;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let terminal = terminal::Terminal::detect(cli.global.color, cli.global.verbose > 0);
    // A command that gives one answer shows why there is none; a server shows it in its log.
    let shows_faults = !matches!(cli.command, Some(cli::Command::Serve(_)));
    logging::start(&cli.global, &terminal, shows_faults);
    panics::tell_once();
    match commands::run(&cli, &terminal) {
        Ok(code) => code,
        Err(error) => failure::report(&error, &terminal),
    }
}
