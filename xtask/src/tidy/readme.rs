//! README.md marks the two commands of a fresh machine, which CI runs as they stand.

use super::{Report, Tree};
use crate::readme::command;
use anyhow::Result;

const PATH: &str = "README.md";

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    let Some(text) = tree.get(PATH).and_then(|file| file.text()) else {
        report.error(PATH, "the file is missing");
        return Ok(());
    };
    for name in ["chat", "test"] {
        if let Err(error) = command(text, name) {
            report.error(PATH, error.to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::errors;

    const CHAT: &str = "<!-- chat-command -->\n```sh\ncargo run\n```\n";
    const TEST: &str = "<!-- test-command -->\n```sh\ncargo test\n```\n";

    #[test]
    fn both_commands_must_be_there() {
        assert!(errors(check, &[("README.md", &format!("{CHAT}{TEST}"))]).is_empty());
        assert_eq!(errors(check, &[("README.md", CHAT)]).len(), 1);
        assert_eq!(errors(check, &[("README.md", TEST)]).len(), 1);
        assert_eq!(errors(check, &[]).len(), 1);
    }
}
