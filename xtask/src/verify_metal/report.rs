//! The report: a table of the parts, then what each said.

use super::part::Outcome;
use anyhow::{Context, Result};
use std::{
    fmt,
    io::Write,
    path::{Path, PathBuf},
};

/// Parts that have run, in a file that is complete after each.
pub(super) struct Report {
    device: String,
    path: PathBuf,
    outcomes: Vec<Outcome>,
}

impl Report {
    /// # Errors
    /// If the file cannot be written: better now than after an hour.
    pub(super) fn new(device: &str, path: &Path) -> Result<Self> {
        let report = Self { device: device.to_owned(), path: path.to_owned(), outcomes: Vec::new() };
        report.write()?;
        Ok(report)
    }

    /// Adds a part, and tells whoever waits.
    pub(super) fn push(&mut self, outcome: Outcome, out: &mut impl Write) -> Result<()> {
        let (name, seconds) = (&outcome.name, outcome.took.as_secs_f64());
        writeln!(out, "{name:<22} {:<7} {seconds:>6.0} s  {}", verdict(&outcome), outcome.summary)?;
        if let Some(failure) = &outcome.failure {
            writeln!(out, "{}\n{}: {failure}", outcome.output, outcome.name)?;
        }
        out.flush()?;
        self.outcomes.push(outcome);
        self.write()
    }

    /// Names of the parts that failed.
    pub(super) fn failed(&self) -> Vec<&str> {
        let failed = self.outcomes.iter().filter(|outcome| outcome.failure.is_some());
        failed.map(|outcome| outcome.name.as_str()).collect()
    }

    fn write(&self) -> Result<()> {
        std::fs::write(&self.path, self.to_string())
            .with_context(|| format!("the report cannot be written: {}", self.path.display()))
    }
}

fn verdict(outcome: &Outcome) -> &'static str {
    if outcome.failure.is_none() { "ok" } else { "FAILED" }
}

/// In a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Lily on this machine's GPU: `{}`\n", self.device)?;
        writeln!(f, "Written by `cargo xtask verify-metal`. Attach it to an issue as it is.\n")?;
        writeln!(f, "| part | result | seconds | what came of it | left out |\n|---|---|---|---|---|")?;
        for outcome in &self.outcomes {
            let (verdict, seconds) = (verdict(outcome), outcome.took.as_secs_f64());
            let came = outcome.failure.as_deref().unwrap_or(&outcome.summary);
            let skips = outcome.skips.join("; ");
            writeln!(
                f,
                "| {} | {verdict} | {seconds:.0} | {} | {} |",
                outcome.name,
                cell(came),
                cell(&skips)
            )?;
        }
        for outcome in &self.outcomes {
            writeln!(
                f,
                "\n## {}\n\n`{}`\n\n````text\n{}\n````",
                outcome.name, outcome.command, outcome.output
            )?;
        }
        Ok(())
    }
}
