//! What errors may repeat of a request: names and ids that are plain words.

/// Bytes of a word that is repeated.
const LONGEST: usize = 80;

/// What stands for text that is no word.
const ELLIPSIS: &str = "…";

/// True if a client's text is a word that can be looked for, such as a name or an id: letters, digits and `_-.:|/`, at
/// most 80 bytes of them.
pub fn is_word(text: &str) -> bool {
    let legible = |c: char| c.is_alphanumeric() || "_-.:|/".contains(c);
    !text.is_empty() && text.len() <= LONGEST && text.chars().all(legible)
}

/// A client's text if it is a word, else `…`. A word may begin with `$`, as keys of schemas do.
pub fn shown(text: &str) -> &str {
    if is_word(text.strip_prefix('$').unwrap_or(text)) { text } else { ELLIPSIS }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn words_are_shown() {
        for word in ["a", "größe", "call_1", "a/b:c|d.e-f", "$defs", &"x".repeat(80)] {
            assert_eq!(shown(word), word);
        }
        for other in ["", "$", "a b", "a\u{1b}[31m", "a\nb", "\"a\"", "<b>", "\u{202e}a", &"x".repeat(81)] {
            assert_eq!(shown(other), "…", "{other:?}");
        }
    }
}
