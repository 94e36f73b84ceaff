//! A file is one noun or one operation: past 500 lines it is worth a look, past 1,000 a noun is missing.

use super::{Report, Tree};
use anyhow::Result;

const SOURCES: &[&str] = &["rs", "py", "sh", "h", "metal", "cu", "k", "js", "html", "css"];
const WARN: usize = 500;
const LIMIT: usize = 1000;

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (file, text) in tree.texts(SOURCES) {
        let lines = text.lines().count();
        if file.is_data() {
            continue;
        } else if lines > LIMIT {
            report.error(&file.path, format!("{lines} lines, the limit is {LIMIT}: which noun is missing?"));
        } else if lines > WARN {
            report.warning(&file.path, format!("{lines} lines: does it hold one noun?"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, WARN, check};
    use crate::{tidy::Report, tidy::testing::errors, tree::testing::plant};

    #[test]
    fn a_file_past_the_limit_is_an_error_and_one_at_it_is_not() {
        assert!(errors(check, &[("a.rs", &"\n".repeat(LIMIT))]).is_empty());
        let found = errors(check, &[("a.rs", &"\n".repeat(LIMIT + 1))]);
        assert_eq!(found, ["a.rs: 1001 lines, the limit is 1000: which noun is missing?"]);
        assert!(errors(check, &[("a.md", &"\n".repeat(LIMIT + 1))]).is_empty());
    }

    #[test]
    fn a_long_file_is_a_warning() {
        let (_folder, tree) = plant(&[("a.py", &"\n".repeat(WARN + 1)), ("b.py", &"\n".repeat(WARN))]);
        let mut report = Report::default();
        check(&tree, &mut report).unwrap();
        assert!(report.errors().is_empty());
        assert!(report.print(&mut Vec::new(), true).unwrap());
    }
}
