//! The command line: global options and the list of commands. Each command's own options sit beside its code.

use crate::commands;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::num::NonZeroUsize;

const EXAMPLES: &str = "\
Examples:
  lily chat                                  talk to the embedded model
  lily --model ~/models/Qwen3.6-35B-A3B-4bit chat
  lily run \"What is 12 + 30?\"                one answer on stdout
  git diff | lily run \"Summarise this change:\"
  lily serve --port 8080                     a server for OpenAI and Anthropic clients

Exit codes: 0 success, 1 failure, 2 wrong usage.";

/// Lily runs Qwen3.6-35B-A3B (and its small sibling, nano, which is built in) on the machine in front of you.
#[derive(Debug, Parser)]
#[command(name = "lily", version, about, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options that every command takes, before or after its name.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalOptions {
    /// Checkpoint folder, or `nano` for the embedded model (the default)
    #[arg(short, long, global = true, env = "LILY_MODEL", value_name = "PATH")]
    pub(crate) model: Option<String>,

    /// What runs the model
    #[arg(long, global = true, value_enum, default_value_t = BackendChoice::Cpu, value_name = "NAME")]
    pub(crate) backend: BackendChoice,

    /// Threads that compute on the CPU [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Precision of activations on the CPU [default: the backend's]
    #[arg(long, global = true, value_enum, value_name = "TYPE")]
    pub(crate) precision: Option<PrecisionChoice>,

    /// Where the weights are [default: mapped]
    #[arg(long, global = true, value_enum, value_name = "WHERE")]
    pub(crate) weights: Option<WeightsChoice>,

    /// Longest context in tokens, prompt and answer together [default: the model's]
    #[arg(long = "context", global = true, value_name = "N", id = "context_limit")]
    context: Option<NonZeroUsize>,

    /// Log what happens to stderr (-vv: more, -vvv: everything)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// When to use colours [also: the environment variable NO_COLOR]
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
}

impl GlobalOptions {
    /// `--threads` as the backends count.
    pub(crate) fn threads(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }

    /// `--context` as the backends count.
    pub(crate) fn context(&self) -> Option<usize> {
        self.context.map(NonZeroUsize::get)
    }
}

/// The implementations of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendChoice {
    /// The machine's GPU (Metal on macOS, else CUDA) if it serves, else the CPU
    Auto,
    /// Packed weights, SIMD kernels, all cores
    Cpu,
    /// An NVIDIA GPU
    Cuda,
    /// The GPU of an Apple silicon Mac
    Metal,
    /// Plain f32, slow: the oracle that the others are checked against
    Reference,
}

/// Activation types of the CPU backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrecisionChoice {
    /// 8-bit integers per group: fastest
    Int8,
    /// bfloat16
    Bf16,
    /// Single precision: slowest, most exact
    F32,
}

/// Where the weights are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightsChoice {
    /// In the files, mapped: ready at once (on a GPU only where it can read them there)
    Mapped,
    /// Read into memory: slower to load, on a CPU faster to run
    Resident,
}

/// When to write colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Chat(commands::chat::ChatArgs),
    Run(commands::run::RunArgs),
    Serve(commands::serve::ServeArgs),
    Info(commands::info::InfoArgs),
    Render(commands::render::RenderArgs),
    Bench(commands::bench::BenchArgs),
    Eval(commands::eval::EvalArgs),
    Parse(commands::parse::ParseArgs),
    Top(commands::top::TopArgs),
    Tune(commands::tune::TuneArgs),
}

/// A switch with the values `on` and `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Self::On
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn declaration_is_consistent() {
        Cli::command().debug_assert();
    }
}
