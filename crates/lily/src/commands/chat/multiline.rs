//! Messages of several lines: a line that ends in a backslash goes on, and so does everything between `"""` and `"""`.

const FENCE: &str = "\"\"\"";

/// Whether what was typed is a whole message.
pub(super) fn is_complete(typed: &str) -> bool {
    match typed.trim_start().strip_prefix(FENCE) {
        Some(rest) => rest.trim_end().ends_with(FENCE),
        None => !typed.ends_with('\\'),
    }
}

/// The message that was typed.
pub(super) fn message(typed: &str) -> String {
    let inside = typed.trim().strip_prefix(FENCE).and_then(|rest| rest.strip_suffix(FENCE));
    match inside {
        Some(text) => {
            let text = text.strip_prefix('\n').unwrap_or(text);
            text.strip_suffix('\n').unwrap_or(text).to_owned()
        }
        None => typed.replace("\\\n", "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslash_goes_on() {
        assert!(is_complete("one"));
        assert!(!is_complete("one\\"));
        assert!(is_complete("one\\\ntwo"));
        assert_eq!(message("one\\\ntwo"), "one\ntwo");
    }

    #[test]
    fn fences_go_on() {
        for open in ["\"\"\"", "\"\"\"a", "\"\"\"\na\n\nb"] {
            assert!(!is_complete(open), "{open:?}");
        }
        assert!(is_complete("\"\"\"\na\\\n\nb\n\"\"\""));
        assert_eq!(message("\"\"\"\na\\\n\nb\n\"\"\""), "a\\\n\nb");
        assert_eq!(message("\"\"\"a\"\"\" "), "a");
        assert!(is_complete("say \"\"\""), "only a leading fence opens");
    }
}
