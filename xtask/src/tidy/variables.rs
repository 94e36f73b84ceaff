//! An environment variable that nobody can find might as well not exist: each is named in a document.

use super::{Report, Tree};
use crate::scrub::line_of;
use anyhow::Result;

const PREFIX: &str = concat!("LI", "LY_");
const SOURCES: &[&str] = &["rs", "py", "sh"];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    let documents: Vec<&str> = tree.texts(&["md"]).map(|(_, text)| text).collect();
    for (file, text) in tree.texts(SOURCES) {
        for (at, name) in names(text) {
            if !documents.iter().any(|document| names(document).any(|(_, known)| known == name)) {
                report.error_at(
                    &file.path,
                    line_of(text, at),
                    format!("no document (*.md) names the variable {name}"),
                );
            }
        }
    }
    Ok(())
}

/// The project's variables in a text, with their places.
fn names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices(PREFIX).filter_map(|(at, _)| {
        let rest = &text[at + PREFIX.len()..];
        let length = rest
            .find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
            .unwrap_or(rest.len());
        (length > 0).then(|| (at, &text[at..at + PREFIX.len() + length]))
    })
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, check};
    use crate::tidy::testing::errors;

    #[test]
    fn a_variable_that_no_document_names_is_found() {
        let code = format!("fn f() {{\n    std::env::var(\"{PREFIX}SECRET\");\n}}\n");
        let found = errors(check, &[("a.rs", &code), ("README.md", &format!("Set `{PREFIX}SECRETS`.\n"))]);
        assert_eq!(found, [format!("a.rs:2: no document (*.md) names the variable {PREFIX}SECRET")]);
        assert!(
            errors(check, &[("a.rs", &code), ("docs/x.md", &format!("Set `{PREFIX}SECRET`.\n"))]).is_empty()
        );
    }
}
