//! Finding things in a kernel's text: a scanner for the dialect's few forms, not a C++ parser.

use super::ScalarType;
use std::collections::HashMap;

/// One argument of a `KERNEL(...)`.
pub(super) struct Argument {
    pub(super) kind: Kind,
    pub(super) index: u32,
    pub(super) element: String,
    pub(super) name: String,
}

pub(super) enum Kind {
    In,
    Out,
    InOut,
    Params,
}

impl Argument {
    /// `IN(3, float, x)` and its like.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('(')?;
        let kind = match kind.trim() {
            "IN" => Kind::In,
            "OUT" => Kind::Out,
            "INOUT" => Kind::InOut,
            "PARAMS" => Kind::Params,
            _ => return None,
        };
        let [index, element, name] = split_arguments(rest.strip_suffix(')')?).try_into().ok()?;
        let name: &str = name;
        let index: &str = index;
        Some(Self {
            kind,
            index: index.parse().ok()?,
            element: str::to_owned(element),
            name: name.to_owned(),
        })
    }
}

/// The text with comments made blank.
pub(super) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        rest = if from.starts_with("//") {
            from.find('\n').map_or("", |end| &from[end..])
        } else if from.starts_with("/*") {
            out.push(' ');
            from.find("*/").map_or("", |end| &from[end + 2..])
        } else {
            out.push('/');
            &from[1..]
        };
    }
    out.push_str(rest);
    out
}

/// The arguments of each `KERNEL(...)`: name, threads, bindings.
pub(super) fn kernels(text: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("KERNEL(") {
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        if !text[line_start..at].trim().is_empty() {
            continue;
        }
        let inside = &text[at + "KERNEL(".len()..];
        if let Some(end) = closing(inside) {
            found.push(split_arguments(&inside[..end]));
        }
    }
    found
}

/// Where the parenthesis that was opened before `text` closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Parts between commas that stand in no parentheses.
pub(super) fn split_arguments(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// What follows `// WHAT ENTRY:`, the lines that go on with it (`//   `) included.
pub(super) fn declared(text: &str, what: &str, entry: &str) -> Option<String> {
    let mut lines = text.lines();
    let first = lines.by_ref().find_map(|line| {
        let rest = line.strip_prefix("// ")?.strip_prefix(what)?.strip_prefix(' ')?;
        rest.trim_start().strip_prefix(entry)?.strip_prefix(':')
    })?;
    let rest = lines.map_while(|line| line.strip_prefix("//   "));
    Some(std::iter::once(first).chain(rest).map(str::trim).collect::<Vec<_>>().join(" "))
}

/// `#define NAME value` without arguments, the first of each name.
pub(super) fn macros(text: &str) -> HashMap<&str, &str> {
    let mut found = HashMap::new();
    for line in text.lines() {
        let Some((name, value)) =
            line.trim().strip_prefix("#define ").and_then(|rest| rest.trim().split_once(char::is_whitespace))
        else {
            continue;
        };
        if !name.contains('(') {
            found.entry(name).or_insert(value.trim());
        }
    }
    found
}

/// The fields of `struct NAME { ... };` if all are scalars of four bytes.
pub(super) fn fields(text: &str, name: &str) -> Option<Vec<(String, ScalarType)>> {
    let (_, rest) = text.split_once(&format!("struct {name} {{"))?;
    let (body, _) = rest.split_once('}')?;
    let mut found = Vec::new();
    for declaration in body.split(';').map(str::trim).filter(|declaration| !declaration.is_empty()) {
        let (scalar, names) = declaration.split_once(char::is_whitespace)?;
        let scalar = match scalar {
            "uint" => ScalarType::Uint,
            "int" => ScalarType::Int,
            "float" => ScalarType::Float,
            _ => return None,
        };
        for name in names.split(',').map(str::trim) {
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return None;
            }
            found.push((name.to_owned(), scalar));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_taken_apart() {
        let text = without_comments(
            "// KERNEL(no, 1)\n/* KERNEL(neither, 1) */\nKERNEL(yes, (A + 1) * 32, IN(0, uint, w), // codes\n  PARAMS(1, P, p))\n{ }\n",
        );
        assert_eq!(kernels(&text), [vec!["yes", "(A + 1) * 32", "IN(0, uint, w)", "PARAMS(1, P, p)"]]);
    }

    #[test]
    fn fields_of_four_bytes_only() {
        let text = "struct P { uint rows, stride; float eps; };\nstruct Q { bf16 x; };";
        let names: Vec<String> = fields(text, "P").expect("scalars").into_iter().map(|f| f.0).collect();
        assert_eq!(names, ["rows", "stride", "eps"]);
        assert_eq!(fields(text, "Q"), None);
        assert_eq!(fields(text, "R"), None);
    }
}
