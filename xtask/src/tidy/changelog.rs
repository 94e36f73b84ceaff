//! CHANGELOG.md: what a user will notice, newest first, in the form of Keep a Changelog.

use super::{Report, Tree};
use crate::markdown::prose;
use anyhow::Result;

const PATH: &str = "CHANGELOG.md";
const UNRELEASED: &str = "## [Unreleased]";
const KINDS: &[&str] = &["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    let Some(text) = tree.get(PATH).and_then(|file| file.text()) else {
        report.error(PATH, "the file is missing");
        return Ok(());
    };
    if prose(text).find(|line| line.text.starts_with("## ")).is_none_or(|line| line.text.trim() != UNRELEASED)
    {
        report.error(PATH, format!("the first section must be {UNRELEASED}"));
    }
    for line in prose(text) {
        if let Some(kind) = line.text.strip_prefix("### ")
            && !KINDS.contains(&kind.trim())
        {
            report.error_at(PATH, line.number, format!("{kind:?} is none of {}", KINDS.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    #[test]
    fn the_usual_form_passes() {
        assert!(
            errors(check, &[("CHANGELOG.md", "# C\n\n## [Unreleased]\n\n### Added\n- x\n\n## 0.1.0\n")])
                .is_empty()
        );
    }

    #[test]
    fn every_other_is_found() {
        for text in ["# C\n", "# C\n## 0.1.0\n## [Unreleased]\n", "# C\n## [Unreleased]\n### News\n"] {
            assert_eq!(errors(check, &[("CHANGELOG.md", text)]).len(), 1, "{text}");
        }
        assert_eq!(errors(check, &[]).len(), 1);
    }
}
