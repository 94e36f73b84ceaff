//! Unfinished work belongs into an issue, not into the tree; an ignored test is one that cannot fail.

use super::{Report, Tree};
use crate::scrub::{code_only, line_of, word_offsets};
use anyhow::Result;

const SOURCES: &[&str] =
    &["rs", "py", "sh", "toml", "yml", "yaml", "h", "metal", "cu", "k", "js", "html", "css", ""];
/// Words for work left undone, in comments too.
const WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
/// Macros for code left unwritten.
const MACROS: &[&str] = &["todo", "unimplemented"];

pub(super) fn check(tree: &Tree, report: &mut Report) -> Result<()> {
    for (file, text) in tree.texts(SOURCES).filter(|(file, _)| !file.is_data()) {
        for word in WORDS {
            for at in word_offsets(text, word) {
                report.error_at(&file.path, line_of(text, at), format!("{word}: do it, or file an issue"));
            }
        }
        if file.extension() == "rs" {
            check_rust(&file.path, text, report);
        }
    }
    Ok(())
}

fn check_rust(path: &str, text: &str, report: &mut Report) {
    let code = code_only(text);
    for name in MACROS {
        for at in word_offsets(&code, name).filter(|at| code[at + name.len()..].starts_with('!')) {
            report.error_at(path, line_of(&code, at), format!("{name}!: nothing is left unwritten"));
        }
    }
    for at in word_offsets(&code, "ignore").filter(|&at| code[..at].trim_end().ends_with("#[")) {
        report.error_at(
            path,
            line_of(&code, at),
            "an ignored test: run it, or say at run time why it was skipped",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{MACROS, WORDS, check};
    use crate::tidy::testing::errors;

    #[test]
    fn words_in_comments_are_found() {
        for word in WORDS {
            assert_eq!(errors(check, &[("a.py", &format!("x = 1\n# {word}: later\n"))]).len(), 1, "{word}");
            assert!(errors(check, &[("a.py", &format!("x{word} = 1\n"))]).is_empty(), "{word}");
        }
    }

    #[test]
    fn macros_and_ignored_tests_are_found() {
        for name in MACROS {
            let found = errors(check, &[("a.rs", &format!("fn f() {{\n    {name}!()\n}}\n"))]);
            assert_eq!(found, [format!("a.rs:2: {name}!: nothing is left unwritten")]);
        }
        assert_eq!(errors(check, &[("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n")]).len(), 1);
        assert_eq!(errors(check, &[("a.rs", "#[test]\n#[ignore]\nfn f() {}\n")]).len(), 1);
    }

    #[test]
    fn talk_about_them_passes() {
        let text = "// the todo! macro\nfn f(ignore: bool) -> &'static str {\n    \"#[ignore] todo!\"\n}\n";
        assert!(errors(check, &[("a.rs", text)]).is_empty());
    }
}
