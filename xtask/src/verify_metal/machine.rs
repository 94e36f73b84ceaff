//! The machine, as its own tools describe it.

use super::part::Outcome;
use std::process::Command;

/// What to ask, on macOS and elsewhere; what is not there says nothing.
const QUESTIONS: [(&str, &[&str]); 6] = [
    ("sw_vers", &[]),
    ("sysctl", &["hw.model", "machdep.cpu.brand_string", "hw.memsize", "hw.ncpu", "iogpu.wired_limit_mb"]),
    ("pmset", &["-g", "therm"]),
    ("uname", &["-srm"]),
    ("rustc", &["--version"]),
    ("git", &["describe", "--always", "--dirty"]),
];

/// The first part of a report.
pub(super) fn describe() -> Outcome {
    let answers = QUESTIONS.iter().filter_map(|(tool, arguments)| {
        let output = Command::new(tool).args(*arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (!text.is_empty()).then(|| format!("$ {tool} {}\n{text}", arguments.join(" ")))
    });
    Outcome {
        name: "system".to_owned(),
        command: QUESTIONS.map(|(tool, _)| tool).join(", "),
        passed: true,
        output: answers.collect::<Vec<_>>().join("\n"),
        ..Outcome::default()
    }
}
