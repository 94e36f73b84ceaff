//! What the checks found.

use std::io::{self, Write};

/// One thing to mend.
#[derive(Debug)]
struct Problem {
    check: &'static str,
    place: String,
    message: String,
    warning: bool,
}

/// Everything found so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    check: &'static str,
    ran: usize,
    problems: Vec<Problem>,
}

impl Report {
    /// From here on, problems belong to `check`.
    pub(crate) fn begin(&mut self, check: &'static str) {
        self.check = check;
        self.ran += 1;
    }

    /// A fault in a file as a whole.
    pub(crate) fn error(&mut self, path: &str, message: impl Into<String>) {
        self.push(path.to_owned(), message.into(), false);
    }

    /// A fault on a line, counted from one.
    pub(crate) fn error_at(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.push(format!("{path}:{line}"), message.into(), false);
    }

    /// Something to look at that fails nothing.
    pub(crate) fn warning(&mut self, path: &str, message: impl Into<String>) {
        self.push(path.to_owned(), message.into(), true);
    }

    fn push(&mut self, place: String, message: String, warning: bool) {
        self.problems.push(Problem { check: self.check, place, message, warning });
    }

    /// Errors as `place: message`.
    #[cfg(test)]
    pub(crate) fn errors(&self) -> Vec<String> {
        let errors = self.problems.iter().filter(|problem| !problem.warning);
        errors.map(|problem| format!("{}: {}", problem.place, problem.message)).collect()
    }

    /// Prints every problem and a summary; true when something must be mended.
    pub(crate) fn print(&self, out: &mut impl Write, strict: bool) -> io::Result<bool> {
        for problem in &self.problems {
            let level = if problem.warning && !strict { "warning" } else { "error" };
            writeln!(out, "{level}[{}] {}: {}", problem.check, problem.place, problem.message)?;
        }
        let warnings = self.problems.iter().filter(|problem| problem.warning).count();
        let errors = self.problems.len() - warnings;
        writeln!(out, "tidy: {} checks, {errors} errors, {warnings} warnings", self.ran)?;
        Ok(errors > 0 || (strict && warnings > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn errors_fail_and_warnings_fail_only_when_strict() {
        let mut report = Report::default();
        report.begin("length");
        assert!(!report.print(&mut Vec::new(), true).unwrap());
        report.warning("a.rs", "long");
        assert!(!report.print(&mut Vec::new(), false).unwrap());
        assert!(report.print(&mut Vec::new(), true).unwrap());
        report.error_at("a.rs", 3, "wrong");
        let mut out = Vec::new();
        assert!(report.print(&mut out, false).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "warning[length] a.rs: long\nerror[length] a.rs:3: wrong\ntidy: 1 checks, 1 errors, 1 warnings\n"
        );
    }
}
