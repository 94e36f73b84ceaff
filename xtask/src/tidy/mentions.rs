//! A document that a comment, a message or a script names must be there.

use super::{Report, Tree};
use crate::scrub::line_of;
use anyhow::Result;

const SOURCES: &[&str] = &["rs", "py", "sh", "toml", "yml", "yaml", ""];
const SUFFIX: &str = ".md";

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (file, text) in tree.texts(SOURCES) {
        // The checks themselves name documents that are not there, to see them missed.
        if file.is_data() || file.path.starts_with("xtask/src/") {
            continue;
        }
        for (at, name) in names(text) {
            let known = tree.files.iter().any(|other| {
                other.path == name
                    || other.path.strip_suffix(name).is_some_and(|folder| folder.ends_with('/'))
            });
            if !known {
                report.error_at(&file.path, line_of(text, at), format!("there is no document {name}"));
            }
        }
    }
    Ok(())
}

/// Names of Markdown files in a text, with the place where each ends.
fn names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    text.match_indices(SUFFIX).filter_map(move |(at, _)| {
        let start = text[..at]
            .rfind(|c| !is_path(c))
            .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
        let ends = !text[at + SUFFIX.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
        let name = text[start..at + SUFFIX.len()].trim_start_matches("./").trim_start_matches("../");
        (ends && start < at).then_some((at, name))
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    const FILES: [(&str, &str); 2] = [("docs/precision.md", ""), ("crates/a/README.md", "")];

    fn found(text: &str) -> Vec<String> {
        let files: Vec<_> = FILES.into_iter().chain([("crates/a/src/lib.rs", text)]).collect();
        errors(check, &files)
    }

    #[test]
    fn documents_that_are_there_pass() {
        for text in
            ["//! See docs/precision.md.\n", "// `precision.md`\n", "let x = \"README.md\";\n", "a.mdx .md\n"]
        {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn documents_that_are_not_are_found() {
        assert_eq!(
            found("//!\n//! See (DESIGN.md).\n"),
            ["crates/a/src/lib.rs:2: there is no document DESIGN.md"]
        );
        assert_eq!(found("// docs/README.md\n").len(), 1);
        assert_eq!(found("// µdocs/README.md\n").len(), 1);
    }
}
