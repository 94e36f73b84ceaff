//! The report: a table of the parts, then what each said.

use super::part::Outcome;
use anyhow::Result;
use std::{fmt, io::Write};

/// Parts that have run.
pub(super) struct Report {
    device: String,
    outcomes: Vec<Outcome>,
}

impl Report {
    pub(super) fn new(device: &str) -> Self {
        Self { device: device.to_owned(), outcomes: Vec::new() }
    }

    /// Adds a part, and tells whoever waits.
    pub(super) fn push(&mut self, outcome: Outcome, out: &mut impl Write) -> Result<()> {
        writeln!(out, "{:<20} {:<7} {:>6.0} s", outcome.name, verdict(&outcome), outcome.took.as_secs_f64())?;
        if !outcome.passed {
            writeln!(out, "{}", outcome.output)?;
        }
        out.flush()?;
        self.outcomes.push(outcome);
        Ok(())
    }

    /// True if a part failed.
    pub(super) fn failed(&self) -> bool {
        self.outcomes.iter().any(|outcome| !outcome.passed)
    }
}

fn verdict(outcome: &Outcome) -> &'static str {
    if outcome.passed { "ok" } else { "FAILED" }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Lily on this machine's GPU: `{}`\n", self.device)?;
        writeln!(f, "Written by `cargo xtask verify-metal`. Attach it to an issue as it is.\n")?;
        writeln!(f, "| part | result | seconds | left out |\n|---|---|---|---|")?;
        for outcome in &self.outcomes {
            let (verdict, seconds) = (verdict(outcome), outcome.took.as_secs_f64());
            let skips = outcome.skips.join("; ");
            writeln!(f, "| {} | {verdict} | {seconds:.0} | {skips} |", outcome.name)?;
        }
        for outcome in &self.outcomes {
            writeln!(
                f,
                "\n## {}\n\n`{}`\n\n```text\n{}\n```",
                outcome.name, outcome.command, outcome.output
            )?;
        }
        Ok(())
    }
}
