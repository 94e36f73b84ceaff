//! One part: a command, and what it said.

use std::{
    fmt,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// What a report keeps of a part that passed, from its end; of one that failed it keeps more.
const LINES: usize = 60;
const LINES_OF_A_FAILURE: usize = 400;

/// A command of cargo.
#[derive(Debug)]
pub(super) struct Part {
    name: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    skips: Vec<String>,
}

/// How a part went.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) passed: bool,
    pub(super) took: Duration,
    /// What was left out, in words.
    pub(super) skips: Vec<String>,
    /// The end of what it printed.
    pub(super) output: String,
}

impl Part {
    /// `cargo ARGUMENTS`.
    pub(super) fn cargo(name: &str, arguments: &[&str]) -> Self {
        let mut part =
            Self { name: name.to_owned(), arguments: Vec::new(), environment: Vec::new(), skips: Vec::new() };
        part.args(arguments);
        part
    }

    /// Its name in the report.
    #[cfg(test)]
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn args(&mut self, arguments: &[&str]) -> &mut Self {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Those of the comma-separated names that are features of `lily-gpu`: devices other than the emulator need none.
    pub(super) fn features(&mut self, names: &str) -> &mut Self {
        let needed: Vec<&str> =
            names.split(',').filter(|name| ["emulator", "device-tests"].contains(name)).collect();
        if !needed.is_empty() {
            let at =
                self.arguments.iter().position(|argument| argument == "--").unwrap_or(self.arguments.len());
            self.arguments.splice(at..at, ["--features".to_owned(), needed.join(",")]);
        }
        self
    }

    pub(super) fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says what it leaves out.
    pub(super) fn skips(&mut self, words: String) {
        self.skips.push(words);
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={value} ")?;
        }
        write!(f, "cargo {}", self.arguments.join(" "))
    }
}

/// Runs a part, whatever comes of it.
pub(super) fn run(root: &Path, part: &Part) -> Outcome {
    let start = Instant::now();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(&part.arguments)
        .envs(part.environment.iter().map(|(name, value)| (name, value)))
        .env("CARGO_TERM_COLOR", "never")
        .output();
    let (passed, text) = match output {
        Ok(output) => {
            let [stdout, stderr] =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (output.status.success(), format!("{stderr}\n{stdout}"))
        }
        Err(error) => (false, format!("it does not start: {error}")),
    };
    Outcome {
        name: part.name.clone(),
        command: part.to_string(),
        passed,
        took: start.elapsed(),
        skips: part.skips.clone(),
        output: end_of(&text, if passed { LINES } else { LINES_OF_A_FAILURE }),
    }
}

/// The last lines of a text without cargo's own progress.
fn end_of(text: &str, lines: usize) -> String {
    let progress =
        ["Compiling ", "Downloading ", "Downloaded ", "Running ", "Finished ", "Blocking ", "Locking "];
    let told: Vec<&str> = text
        .lines()
        .filter(|line| {
            !line.trim().is_empty() && !progress.iter().any(|word| line.trim_start().starts_with(word))
        })
        .collect();
    told[told.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_what_a_reader_can_type() {
        let mut part = Part::cargo("x", &["test", "-p", "lily-gpu", "--", "--nocapture"]);
        part.features("emulator,device-tests").env("A", "1");
        let wanted = "A=1 cargo test -p lily-gpu --features emulator,device-tests -- --nocapture";
        assert_eq!(part.to_string(), wanted);
        let mut metal = Part::cargo("x", &["run"]);
        assert_eq!(metal.features("metal").to_string(), "cargo run");
    }

    #[test]
    fn progress_is_not_told() {
        let text = "   Compiling a v1\n    Finished `test`\ntest one ... ok\n\ntest two ... ok\n";
        assert_eq!(end_of(text, 9), "test one ... ok\ntest two ... ok");
        assert_eq!(end_of(text, 1), "test two ... ok");
    }
}
