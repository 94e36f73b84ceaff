//! Why a schema cannot become a grammar, in the words of its writer: the library that makes grammars speaks of its own
//! settings and repeats what it was given.

/// What a complaint says, and what its reader can make of it. The first that fits counts.
const WORDS: [(&str, &str); 26] = [
    ("coerce_one_of", "oneOf cannot be enforced where its choices may overlap; use anyOf"),
    ("NoExtensionBias", "no answer can have this form"),
    ("too many expressions constructed", TOO_COMPLEX),
    ("lexer fuel", TOO_COMPLEX),
    ("lexer state", TOO_COMPLEX),
    ("items; max is", TOO_COMPLEX),
    ("fuel exhausted", TOO_COMPLEX),
    ("TooComplex", TOO_COMPLEX),
    ("too big", TOO_COMPLEX),
    ("too complex", TOO_COMPLEX),
    ("schema too large", "the schema is too large"),
    ("Unable to determine if regex is empty", "the pattern is too complex beside minLength and maxLength"),
    ("Regex is empty", "no string matches the pattern within minLength and maxLength"),
    ("doesn't match length constraints", "the constant is not as long as minLength and maxLength say"),
    ("lookarounds not supported", "a pattern must not look around; ^ and $ may stand at its ends only"),
    ("look-around", "a pattern must not look around; ^ and $ may stand at its ends only"),
    ("regex parse error", "the pattern cannot be read as a regular expression"),
    (
        "Invalid type",
        "type must be string, number, integer, boolean, null, array, object, or a list of these",
    ),
    (
        "type must be a string",
        "type must be string, number, integer, boolean, null, array, object, or a list of these",
    ),
    ("$ref must be a string", "a $ref must be a string"),
    ("schema must be an object or boolean", "a schema must be an object, true or false"),
    (
        "min/maxProperties only supported",
        "minProperties and maxProperties can be enforced only if every property is required",
    ),
    (
        "circular references with sibling keys",
        "a $ref that leads back to itself cannot stand beside other keys",
    ),
    ("intersection stack level", "its schemas refer to each other too often to be joined"),
    ("multipleOf", "multipleOf must be a positive number with few digits"),
    ("Infinite numbers", "a bound is too large for a number"),
];

const TOO_COMPLEX: &str = "it is too complex: write smaller bounds of repetitions and lengths";
const UNENFORCED: &str = "it cannot be enforced";

/// Characters of a complaint that are passed on.
const MOST: usize = 120;

/// Says a complaint in other words.
pub(super) fn brief(error: &str) -> String {
    if let Some((_, keys)) = error.split_once("Unimplemented keys: ") {
        let keys: Vec<&str> = quoted(keys.lines().next().unwrap_or_default(), '"').collect();
        return format!("{} cannot be enforced", keys.join(", "));
    }
    // "Expected array for 'required', got 3".
    if let Some((_, rest)) = error.split_once("Expected ")
        && let Some(key) = quoted(rest, '\'').next()
    {
        return format!("{key} has a value of the wrong type");
    }
    if let Some((_, ours)) = WORDS.iter().find(|(theirs, _)| error.contains(theirs)) {
        return (*ours).to_owned();
    }
    let line = error.lines().next().unwrap_or_default();
    // Without its place in a grammar that its reader never saw.
    let line = line.rsplit_once("): ").map_or(line, |(_, rest)| rest);
    let line = line.strip_prefix("failed to compile JSON schema: ").unwrap_or(line);
    if let Some(detail) = line.strip_prefix("Unsatisfiable schema: ") {
        return with_detail("no value can be valid", detail);
    }
    // "properties must be an object".
    if let Some((key, kind)) = line.split_once(" must be an ")
        && [key, kind].iter().all(|word| word.chars().all(|c| c.is_ascii_alphabetic()))
    {
        return line.to_owned();
    }
    with_detail(UNENFORCED, line)
}

/// A reason, and a complaint behind it if that repeats nothing that it was given.
fn with_detail(reason: &str, detail: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ()-.,;:/$".contains(c);
    match detail.trim() {
        detail if !detail.is_empty() && detail.len() <= MOST && detail.chars().all(plain) => {
            format!("{reason} ({detail})")
        }
        _ => reason.to_owned(),
    }
}

/// What stands in quotation marks and is a word.
fn quoted(text: &str, mark: char) -> impl Iterator<Item = &str> {
    let words = text.split(mark).skip(1).step_by(2);
    words.filter(|word| word.len() <= 40 && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '$'))
}

#[cfg(test)]
mod tests {
    use super::brief;

    #[test]
    fn nothing_is_repeated() {
        for (theirs, ours) in [
            ("<lark>(1): Unimplemented keys: [\"if\", \"not\"]\nmore", "if, not cannot be enforced"),
            ("Expected array for 'required', got \"\u{7}secret\"", "required has a value of the wrong type"),
            (
                "Invalid type: secret",
                "type must be string, number, integer, boolean, null, array, object, or a list of these",
            ),
            (
                "Unsatisfiable schema: minLength (5) is greater than maxLength (2)",
                "no value can be valid (minLength (5) is greater than maxLength (2))",
            ),
            ("at <lark>(3): something \"secret\"", "it cannot be enforced"),
            ("at <lark>(3): something new", "it cannot be enforced (something new)"),
            ("", "it cannot be enforced"),
        ] {
            assert_eq!(brief(theirs), ours);
        }
    }
}
