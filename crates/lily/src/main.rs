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
mod printer;
mod progress;
mod prompt;
mod reasoning;
mod request_file;
mod sampling;
mod terminal;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let terminal = terminal::Terminal::detect(cli.global.color, cli.global.verbose > 0);
    logging::start(&cli.global, &terminal);
    match commands::run(&cli, &terminal) {
        Ok(code) => code,
        Err(error) => failure::report(&error, &terminal),
    }
}
