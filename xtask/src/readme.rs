//! The README's two commands: marked there, run by CI, so that neither can drift from the other.

use anyhow::{Result, bail};

/// The one command in the fenced block that follows the line `<!-- NAME-command -->`.
pub(crate) fn command<'a>(readme: &'a str, name: &str) -> Result<&'a str> {
    let marker = format!("<!-- {name}-command -->");
    let mut places = readme.match_indices(&marker);
    let Some((at, _)) = places.next() else {
        bail!("README.md has no line {marker}");
    };
    if places.next().is_some() {
        bail!("README.md has more than one line {marker}");
    }
    let mut lines = readme[at + marker.len()..].lines().skip(1);
    if !lines.next().is_some_and(|line| line.starts_with("```")) {
        bail!("README.md: a fenced block must follow {marker}");
    }
    let body: Vec<&str> = lines.take_while(|line| !line.starts_with("```")).collect();
    match body[..] {
        [command] if !command.trim().is_empty() => Ok(command.trim()),
        _ => bail!(
            "README.md: the block after {marker} must hold exactly one command, it has {} lines",
            body.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_marked_command_is_found() {
        let text = "# T\n<!-- test-command -->\n```sh\ncargo test\n```\n";
        assert_eq!(command(text, "test").unwrap(), "cargo test");
    }

    #[test]
    fn a_missing_doubled_empty_or_long_block_is_refused() {
        let block = "<!-- test-command -->\n```sh\ncargo test\n```\n";
        for text in [
            String::new(),
            format!("{block}{block}"),
            "<!-- test-command -->\ncargo test\n".to_owned(),
            "<!-- test-command -->\n```\n```\n".to_owned(),
            "<!-- test-command -->\n```\na\nb\n```\n".to_owned(),
        ] {
            assert!(command(&text, "test").is_err(), "{text}");
        }
    }
}
