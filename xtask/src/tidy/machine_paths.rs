//! A path that exists on one machine only: a home folder, a scratch folder, a mount of somebody's container.

use super::{Report, Tree};
use anyhow::Result;

/// First components of absolute paths that differ from machine to machine.
const FOLDERS: &[&str] =
    &["home", "root", "Users", "work", "workspace", "tmp", "mnt", "media", "scratch", "private"];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for file in tree.files.iter().filter(|file| !file.is_data()) {
        let Some(text) = file.text() else { continue };
        for (index, line) in text.lines().enumerate() {
            if let Some(path) = machine_path(line) {
                let message = format!(
                    "{path:?} is a path of one machine\nhint: take it from an argument or a variable"
                );
                report.error_at(&file.path, index + 1, message);
            }
        }
    }
    Ok(())
}

/// The first path in `line` that starts at one of [`FOLDERS`].
fn machine_path(line: &str) -> Option<&str> {
    for (at, _) in line.match_indices('/') {
        let joined = line[..at].chars().next_back().is_some_and(continues_a_path);
        let first = line[at + 1..].split('/').next()?;
        if !joined && line[at + 1 + first.len()..].starts_with('/') && FOLDERS.contains(&first) {
            return Some(path_at(line, at));
        }
    }
    let drive =
        line.find(":\\Users\\").filter(|&at| line[..at].ends_with(|c: char| c.is_ascii_alphabetic()))?;
    Some(path_at(line, drive - 1))
}

/// True if a `/` after `c` goes on with a relative path or a URL instead of starting an absolute path.
fn continues_a_path(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '~' | '}' | ')' | ']' | '>' | '*' | '$')
}

fn path_at(line: &str, at: usize) -> &str {
    let path = &line[at..];
    let end = path.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ')' | ',' | ';' | '|'));
    &path[..end.unwrap_or(path.len())]
}

#[cfg(test)]
mod tests {
    use super::{FOLDERS, check};
    use crate::tidy::testing::errors;

    #[test]
    fn every_such_folder_is_found() {
        for folder in FOLDERS {
            let line = format!("let p = \"/{folder}/x/y\";\n");
            assert_eq!(errors(check, &[("a.rs", &line)]).len(), 1, "{line}");
        }
        let windows = ["see C:", "\\Users\\x\n"].concat();
        assert_eq!(errors(check, &[("a.md", &windows)]).len(), 1);
    }

    #[test]
    fn the_message_names_the_path_and_its_line() {
        let text = ["first\ncd `/ho", "me/jo/lily`, then\n"].concat();
        let found = errors(check, &[("README.md", &text)]);
        assert!(found[0].starts_with("README.md:2: \"/ho"), "{found:?}");
        assert!(found[0].contains("me/jo/lily\" is a path"), "{found:?}");
    }

    #[test]
    fn other_paths_pass() {
        for folder in FOLDERS {
            for line in [
                format!("https://example.org/{folder}/x"),
                format!("./{folder}/x ../{folder}/x ~/{folder}/x a/{folder}/x"),
                format!("$HOME/{folder}/x ${{HOME}}/{folder}/x $(pwd)/{folder}/x"),
                format!("/v1/{folder}/x"),
                format!("/{folder}"),
                format!("/{folder}x/y"),
            ] {
                assert!(errors(check, &[("a.sh", &line)]).is_empty(), "{line}");
            }
        }
    }
}
