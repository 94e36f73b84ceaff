//! White space that an editor leaves behind and a diff shows for ever after.

use super::{Report, Tree};
use anyhow::Result;

const TEXTS: &[&str] =
    &["rs", "toml", "md", "py", "sh", "yml", "yaml", "txt", "h", "metal", "cu", "k", "js", "html", "css", ""];
/// Where a tab is not part of the language.
const NO_TABS: &[&str] = &["rs", "toml", "md", "py", "yml", "yaml", "sh"];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (file, text) in tree.texts(TEXTS) {
        if file.is_data() {
            continue;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            report.error(&file.path, "the last line has no newline");
        }
        if text.ends_with("\n\n") {
            report.error(&file.path, "empty lines at the end");
        }
        let tabs = NO_TABS.contains(&file.extension());
        for (index, line) in text.split('\n').enumerate() {
            if line.ends_with('\r') {
                report.error_at(&file.path, index + 1, "carriage return");
            } else if line.ends_with([' ', '\t']) {
                report.error_at(&file.path, index + 1, "trailing whitespace");
            }
            if tabs && line.starts_with('\t') {
                report.error_at(&file.path, index + 1, "tab as indentation");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    #[test]
    fn each_fault_is_found() {
        let cases = [
            ("a \n", "a.rs:1: trailing whitespace"),
            ("a\n\nb\t\n", "a.rs:3: trailing whitespace"),
            ("a\r\n", "a.rs:1: carriage return"),
            ("a\n\tb\n", "a.rs:2: tab as indentation"),
            ("a", "a.rs: the last line has no newline"),
            ("a\n\n", "a.rs: empty lines at the end"),
        ];
        for (text, expected) in cases {
            assert_eq!(errors(check, &[("a.rs", text)]), [expected]);
        }
    }

    #[test]
    fn clean_files_and_data_pass() {
        let files = [
            ("a.rs", "a\n    b\n"),
            (".ci/run", "a\n"),
            ("models/nano/t.jinja", "a \n"),
            ("tests/data/x.txt", "a "),
        ];
        assert!(errors(check, &files).is_empty());
    }
}
