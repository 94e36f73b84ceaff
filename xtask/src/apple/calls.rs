//! The calls of Metal, read from the text of the host code: each is in the table, says from which macOS on it exists, is
//! guarded where that is newer than the program, and stands where [`EXPECTED`] says, with the same arguments. Nothing of it was
//! ever executed, so that whoever changes a call is made to read its page and to say so twice.

mod guards;
mod table;

use crate::{
    scrub::{code_only, line_of, word_offsets},
    tree::Tree,
};
use guards::Guards;
use std::collections::BTreeSet;

/// Where the calls are.
pub(crate) const FOLDER: &str = "crates/lily-gpu/src/device/metal/api/";
/// Modules whose functions are not Metal's.
const OWN: &str = "crates/lily-gpu/src/device/metal/";
/// The calls of each function, in their order.
const EXPECTED: &str = include_str!("calls/expected.txt");
/// Calls that the bindings do not check.
const UNCHECKED: [&str; 4] = ["msg_send", "msg_send_id", "sel", "extern_methods"];

/// A version of macOS.
type Version = (u32, u32);
/// The oldest that the program is made for.
const OLDEST: Version = (14, 0);

/// A call in a text.
struct Call {
    name: String,
    at: usize,
    /// With its arguments, on one line.
    text: String,
}

/// What is wrong with the calls in files of [`FOLDER`], given with paths from the root: path, line and words each. `own` are
/// the texts of modules whose functions may be called too.
pub(crate) fn faults(files: &[(&str, &str)], own: &[&str]) -> Vec<(String, usize, String)> {
    let own: BTreeSet<String> = own.iter().flat_map(|text| functions(&code_only(text))).collect();
    let (mut faults, mut found) = (Vec::new(), Vec::new());
    for (path, text) in files {
        let code = code_only(text);
        let mut fault = |at: usize, words: String| {
            faults.push(((*path).to_owned(), line_of(&code, at), words));
        };
        for name in UNCHECKED {
            if let Some(at) = word_offsets(&code, name).next() {
                fault(at, format!("{name}: only the bindings know a call's types"));
            }
        }
        let guards = match Guards::read(&code) {
            Ok(guards) => guards,
            Err((at, words)) => {
                fault(at, words);
                continue;
            }
        };
        for (at, words) in guards.faults(&code) {
            fault(at, words);
        }
        for call in calls(&code) {
            let Some(since) = table::since(&call.name, &code) else {
                if !table::RUST.contains(&call.name.as_str()) && !own.contains(&call.name) {
                    fault(
                        call.at,
                        format!("{} is in no table: from which macOS on does it exist?", call.name),
                    );
                }
                continue;
            };
            if since > OLDEST && guards.at(call.at) < since {
                fault(
                    call.at,
                    format!("{} needs macOS {}.{} and is not guarded by it", call.name, since.0, since.1),
                );
            }
            let file = path.strip_prefix(FOLDER).unwrap_or(path);
            let row = format!("{file} | {} | {}", guards::place(&code, call.at), call.text);
            found.push((row, (*path).to_owned(), line_of(&code, call.at)));
        }
    }
    let expected: Vec<&str> = EXPECTED.lines().filter(|line| !line.starts_with('#')).collect();
    let differs = (0..expected.len().max(found.len()))
        .find(|&at| expected.get(at).copied() != found.get(at).map(|(row, ..)| row.as_str()));
    if let Some(at) = differs {
        let wanted = expected.get(at).copied().unwrap_or("nothing more");
        let (row, path, line) = found.get(at).cloned().unwrap_or_else(|| {
            ("nothing more".to_owned(), files.last().map_or("", |(path, _)| path).to_owned(), 1)
        });
        faults.push((path, line, format!("{row:?}, where calls/expected.txt has {wanted:?}")));
    }
    faults
}

/// The files of [`FOLDER`] with their paths, and the texts of [`OWN`].
pub(crate) fn texts(tree: &Tree) -> (Vec<(&str, &str)>, Vec<&str>) {
    let of =
        |folder: &'static str| tree.texts(&["rs"]).filter(move |(file, _)| file.path.starts_with(folder));
    let files = of(FOLDER).map(|(file, text)| (file.path.as_str(), text)).collect();
    let own = of(OWN)
        .filter(|(file, _)| !file.path.starts_with("crates/lily-gpu/src/device/metal/queue/simulated"));
    (files, own.map(|(_, text)| text).collect())
}

/// Every row of [`EXPECTED`] as the texts have it: what to write there after a change.
#[cfg(test)]
fn rows(files: &[(&str, &str)]) -> Vec<String> {
    let mut rows = Vec::new();
    for (path, text) in files {
        let code = code_only(text);
        for call in calls(&code) {
            if table::since(&call.name, &code).is_some() {
                let file = path.strip_prefix(FOLDER).unwrap_or(path);
                rows.push(format!("{file} | {} | {}", guards::place(&code, call.at), call.text));
            }
        }
    }
    rows
}

/// Names of the functions that a text defines.
fn functions(code: &str) -> Vec<String> {
    let name = |at: usize| {
        let rest = code[at + 2..].trim_start();
        rest[..rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())].to_owned()
    };
    word_offsets(code, "fn").map(name).filter(|name| !name.is_empty()).collect()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Calls of methods, of functions of Metal's types, and of functions with Metal's names.
fn calls(code: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    for (open, _) in code.match_indices('(') {
        let before = &code[..open];
        let start = before.rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1);
        let word = &before[start..];
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        let ahead = code[..start].trim_end();
        let name = if ahead.ends_with('.') {
            word.to_owned()
        } else if let Some(path) = ahead.strip_suffix("::") {
            let from = path.rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1);
            if !is_metal(&path[from..]) {
                continue;
            }
            format!("{}::{word}", &path[from..])
        } else if word == "autoreleasepool" || word.starts_with("MTLC") && is_metal(word) {
            word.to_owned()
        } else {
            continue;
        };
        let end = open + guards::closing(&code[open..], '(', ')');
        let text = format!("{name}{}", one_line(&code[open..=end]));
        calls.push(Call { name, at: start, text });
    }
    calls.sort_by_key(|call| call.at);
    calls
}

/// A type of Metal's or of Foundation's.
fn is_metal(word: &str) -> bool {
    word.starts_with("MTL") || word.starts_with("NS")
}

/// Without line breaks and what the formatter puts at them.
fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("( ", "(").replace(", )", ")").replace(" )", ")").replace(" .", ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn words(file: &str, text: &str) -> Vec<String> {
        let path = format!("{FOLDER}{file}");
        faults(&[(&path, text)], &[]).into_iter().map(|(_, line, words)| format!("{line}: {words}")).collect()
    }

    fn first(text: &str) -> String {
        words("x.rs", text).first().cloned().unwrap_or_default()
    }

    #[test]
    fn the_table_is_what_the_host_code_says() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::from_git(root).unwrap();
        let (files, _) = texts(&tree);
        let rows = rows(&files).join("\n");
        let expected: Vec<&str> = EXPECTED.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(rows, expected.join("\n"), "\nthe rows as they are:\n{rows}");
    }

    #[test]
    fn a_new_selector_needs_its_guard() {
        let call = "descriptor.setRequiredThreadsPerThreadgroup(size);";
        assert!(
            first(&format!("fn f() {{ {call} }}")).ends_with("needs macOS 26.0 and is not guarded by it")
        );
        let older = format!("fn f() {{ if available!(macos = 15.0) {{ {call} }} }}");
        assert!(first(&older).contains("needs macOS 26.0"));
        let other = format!("fn f() {{ if available!(macos = 26.0) {{ }} else {{ {call} }} }}");
        assert!(first(&other).contains("needs macOS 26.0"));
        let right = format!("fn f() {{ if available!(macos = 26.0) {{ {call} }} }}");
        assert!(!first(&right).contains("needs macOS"), "{}", first(&right));
        let early = format!("fn f() {{ if !available!(macos = 26.0) {{ return; }} {call} }}");
        assert!(!first(&early).contains("needs macOS"), "{}", first(&early));
        let not_early = format!("fn f() {{ if !available!(macos = 26.0) {{ log(); }} {call} }}");
        assert!(first(&not_early).contains("does not return"), "{}", first(&not_early));
        let after = format!("fn f() {{ if !available!(macos = 26.0) {{ return; }} }} fn g() {{ {call} }}");
        assert!(first(&after).contains("needs macOS 26.0"));
        let value = "fn f() { let new = available!(macos = 26.0); }";
        assert!(first(value).contains("is not the condition of an `if`"), "{}", first(value));
    }

    #[test]
    fn a_set_is_only_made_where_there_are_sets() {
        let made = "impl ResidencySet { fn new() -> Self { Self(set) } }";
        assert!(first(made).contains("needs macOS 15.0"), "{}", first(made));
        let used = "use objc2_metal::{MTLResidencySet}; impl Set for ResidencySet { fn end(&self) { self.0.endResidency(); } }";
        assert!(!first(used).contains("needs macOS"), "{}", first(used));
        let elsewhere = "use objc2_metal::{MTLResidencySet}; fn end(set: &S) { set.endResidency(); }";
        assert!(first(elsewhere).contains("needs macOS 15.0"), "{}", first(elsewhere));
    }

    #[test]
    fn a_method_that_no_table_has_is_a_fault() {
        assert_eq!(
            first("fn f() { device.location(); }"),
            "1: location is in no table: from which macOS on does it exist?"
        );
        assert!(
            first("fn f() { MTLHeapDescriptor::new(); }")
                .starts_with("1: MTLHeapDescriptor::new is in no table")
        );
        assert!(first("fn f() { msg_send![x, y] }").contains("only the bindings"));
        assert!(first("fn f() { encoder.endEncoding(); }").contains("where calls/expected.txt has"));
    }
}
