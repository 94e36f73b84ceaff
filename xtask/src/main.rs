//! The project's own chores: `cargo xtask tidy` and what continuous integration needs from the README.

mod apple;
mod markdown;
mod msl;
mod mutate;
mod readme;
mod scrub;
mod tidy;
mod tree;
mod verify_metal;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::{io::Write, path::PathBuf, process::ExitCode};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Chore,
}

/// One chore.
#[derive(Subcommand)]
enum Chore {
    /// Check what no compiler checks: layers, file sizes, links, stray paths, unsafe code and so on.
    Tidy {
        /// Run only this check (repeatable); see --list.
        #[arg(long, value_name = "CHECK")]
        only: Vec<String>,
        /// List the checks and what each is for.
        #[arg(long)]
        list: bool,
        /// Count warnings as errors.
        #[arg(long)]
        strict: bool,
    },
    /// Take each barrier out of the kernels in turn and expect the emulator to object.
    MutateKernels {
        /// Only barriers of this file, such as gemv.k (repeatable).
        #[arg(long, value_name = "FILE")]
        only: Vec<String>,
    },
    /// Check, lint and link for Apple silicon on a machine without Apple's tools.
    Apple(apple::Options),
    /// Check every kernel's text for Metal, in every specialisation that plans ask for. Needs clang 19 and numpy.
    Msl {
        /// A checkpoint whose plans to check besides nano's and the full-size model's (repeatable).
        #[arg(long, value_name = "FOLDER")]
        model: Vec<PathBuf>,
    },
    /// On a Mac: verify and measure everything that other machines cannot, and write one report.
    VerifyMetal(verify_metal::Options),
    /// Print the command that the README gives for `chat` or `test`, so that CI runs exactly that.
    ReadmeCommand {
        /// `chat` or `test`.
        name: String,
    },
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode> {
    let root = workspace_root()?;
    let mut out = std::io::stdout().lock();
    match &cli.command {
        Chore::Tidy { list: true, .. } => {
            for check in tidy::CHECKS {
                writeln!(out, "{:<14} {}", check.name, check.purpose)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Chore::Tidy { only, strict, .. } => {
            let tree = tree::Tree::from_git(&root)?;
            let report = tidy::run(&tree, only)?;
            let failed = report.print(&mut out, *strict)?;
            Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Chore::MutateKernels { only } => {
            let failed = mutate::run(&root, only, &mut out)?;
            Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Chore::Apple(options) => {
            let failed = apple::run(&root, options, &mut out)?;
            Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Chore::Msl { model } => {
            let failed = msl::run(&root, model, &mut out)?;
            Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Chore::VerifyMetal(options) => {
            let failed = verify_metal::run(&root, options, &mut out)?;
            Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Chore::ReadmeCommand { name } => {
            let path = root.join("README.md");
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            writeln!(out, "{}", readme::command(&text, name)?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The folder of the workspace: the parent of this package.
fn workspace_root() -> Result<PathBuf> {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "xtask".into()));
    let root =
        here.canonicalize().with_context(|| format!("{}: run this as `cargo xtask`", here.display()))?;
    Ok(root.parent().context("xtask has no parent folder")?.to_path_buf())
}
