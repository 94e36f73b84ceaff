//! A relative link in a document leads to a file of the repository, and its fragment to a heading there.

use super::{Report, Tree};
use crate::markdown::{anchors, link_targets, prose};
use anyhow::Result;

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (file, text) in tree.texts(&["md"]) {
        for line in prose(text) {
            for target in link_targets(line.text) {
                if let Some(fault) = fault(tree, &file.path, text, &target) {
                    report.error_at(&file.path, line.number, fault);
                }
            }
        }
    }
    Ok(())
}

/// What is wrong with a link in the document at `path`.
fn fault(tree: &Tree, path: &str, text: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (relative, fragment) =
        target.split_once('#').map_or((target, None), |(file, part)| (file, Some(part)));
    let headings = if relative.is_empty() {
        Some(text)
    } else {
        let Some(resolved) = resolve(path, relative) else {
            return Some(format!("{target:?} leaves the repository"));
        };
        let folder = format!("{}/", resolved.trim_end_matches('/'));
        if resolved.is_empty() || tree.files.iter().any(|file| file.path.starts_with(&folder)) {
            None
        } else if let Some(file) = tree.get(&resolved) {
            file.text()
        } else {
            return Some(format!("{target:?} leads to no file"));
        }
    };
    match (headings, fragment) {
        (Some(document), Some(fragment)) if !anchors(document).iter().any(|anchor| anchor == fragment) => {
            Some(format!("{target:?} leads to no heading"))
        }
        _ => None,
    }
}

/// `relative` as seen from the document at `path`; `None` if it climbs out of the repository.
fn resolve(path: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if relative.starts_with('/') {
        return None;
    }
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    fn found(link: &str) -> Vec<String> {
        let document = format!("# One\n\nSee [it]({link}).\n");
        errors(
            check,
            &[("docs/a.md", &document), ("docs/b.md", "# Two\n"), ("README.md", "# R\n"), ("src/c.rs", "")],
        )
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for link in [
            "b.md",
            "b.md#two",
            "#one",
            "../README.md#r",
            "../src",
            "../src/",
            "https://x.org/y",
            "../src/c.rs",
        ] {
            assert!(found(link).is_empty(), "{link}");
        }
    }

    #[test]
    fn links_that_do_not_are_found() {
        for link in ["c.md", "b.md#three", "#two", "../../x.md", "/docs/b.md", "../source"] {
            assert_eq!(found(link).len(), 1, "{link}");
        }
        assert_eq!(found("c.md"), ["docs/a.md:3: \"c.md\" leads to no file"]);
    }

    #[test]
    fn code_is_no_link() {
        assert!(errors(check, &[("a.md", "```\n[x](y.md)\n```\n`[x](y.md)`\n")]).is_empty());
    }
}
