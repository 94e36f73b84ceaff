//! References within a document (`#/$defs/Name`), as JSON schemas have them.

/// The steps from the root to what a reference names: keys, and places in lists. `None` for a reference to anything but
/// a place in the same document.
pub(crate) fn steps(reference: &str) -> Option<Vec<String>> {
    let pointer = decoded(reference.strip_prefix('#')?)?;
    match pointer.strip_prefix('/') {
        Some(steps) => {
            Some(steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
        }
        None => pointer.is_empty().then(Vec::new),
    }
}

/// The place in a list that a step names.
pub(crate) fn index(step: &str) -> Option<usize> {
    let canonical = step == "0" || !step.starts_with(['0', '+']);
    step.parse().ok().filter(|_| canonical)
}

/// Text in which `%20` stands for a blank.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_steps() {
        let strings = |steps: &[&str]| Some(steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>());
        for (reference, expected) in [
            ("#", strings(&[])),
            ("#/", strings(&[""])),
            ("#/$defs/Node", strings(&["$defs", "Node"])),
            ("#/$defs/a~1b~0c", strings(&["$defs", "a/b~c"])),
            ("#/$defs/Page%3CUser%3E", strings(&["$defs", "Page<User>"])),
            ("#/anyOf/0", strings(&["anyOf", "0"])),
            ("#name", None),
            ("#/%", None),
            ("#/%ff", None),
            ("#/%+1", None),
            ("http://elsewhere#/a", None),
            ("", None),
        ] {
            assert_eq!(steps(reference), expected, "{reference}");
        }
        assert_eq!(
            ["0", "12", "01", "+1", "-1", "x"].map(index),
            [Some(0), Some(12), None, None, None, None]
        );
    }
}
