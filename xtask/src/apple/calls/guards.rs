//! Where in a text which macOS is certain, and in which function a place is.

use super::{OLDEST, Version, is_word};
use crate::scrub::word_offsets;
use std::ops::Range;

/// Types that exist only where their system does: whoever has one needs no guard.
const HOLDERS: [(&str, Version); 1] = [("ResidencySet", (15, 0))];

/// Regions of a text with the macOS that is certain there.
#[derive(Default)]
pub(super) struct Guards(Vec<(Range<usize>, Version)>);

impl Guards {
    /// Reads the guards of a text without comments and literals: `if available!(macos = N) { here }`, and
    /// `if !available!(macos = N) { return } here`.
    pub(super) fn read(code: &str) -> Result<Self, (usize, String)> {
        let mut guards = Self::default();
        for at in word_offsets(code, "available") {
            let Some(rest) = code[at..].strip_prefix("available!(") else { continue };
            let end = at + closing(&code[at..], '(', ')');
            let version = rest.trim_start().strip_prefix("macos").and_then(|rest| {
                let number = rest.trim_start().strip_prefix('=')?.split(')').next()?.trim();
                let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
                Some((major.parse().ok()?, minor.parse().ok()?))
            });
            let version: Version =
                version.ok_or_else(|| (at, "`available!` without a version of macOS".to_owned()))?;
            let ahead = code[..at].trim_end();
            let (ahead, negated) =
                ahead.strip_suffix('!').map_or((ahead, false), |ahead| (ahead.trim_end(), true));
            let is_if = ahead.ends_with("if") && !ahead[..ahead.len() - 2].ends_with(is_word);
            if !is_if || !code[end + 1..].trim_start().starts_with('{') {
                return Err((at, "`available!` is not the condition of an `if` by itself".to_owned()));
            }
            let open = end + 1 + code[end + 1..].find('{').unwrap_or_default();
            let block = open..open + closing(&code[open..], '{', '}');
            if !negated {
                guards.0.push((block, version));
                continue;
            }
            if word_offsets(&code[block.clone()], "return").next().is_none() {
                return Err((at, "the block under `!available!` does not return".to_owned()));
            }
            guards.0.push((block.end..block.end + enclosing_end(&code[block.end + 1..]), version));
        }
        for (holder, version) in HOLDERS {
            for (header, body) in impls(code) {
                if self_type(&header) != holder {
                    continue;
                }
                for (_, signature, function) in functions(code) {
                    if body.contains(&function.start) && signature.contains("self") {
                        guards.0.push((function, version));
                    }
                }
            }
        }
        Ok(guards)
    }

    /// What is certain at a place.
    pub(super) fn at(&self, at: usize) -> Version {
        let here = self.0.iter().filter(|(range, _)| range.contains(&at)).map(|&(_, version)| version);
        here.max().unwrap_or(OLDEST)
    }

    /// Holders that are made where their system is not certain.
    pub(super) fn faults(&self, code: &str) -> Vec<(usize, String)> {
        let mut faults = Vec::new();
        for (holder, version) in HOLDERS {
            let within = |at: usize| {
                impls(code).iter().any(|(header, body)| body.contains(&at) && self_type(header) == holder)
            };
            let made = word_offsets(code, "Self").filter(|&at| within(at)).map(|at| (at, "Self"));
            for (at, word) in made.chain(word_offsets(code, holder).map(|at| (at, holder))) {
                let is_made =
                    code[at + word.len()..].starts_with('(') && !code[..at].trim_end().ends_with("struct");
                if is_made && self.at(at) < version {
                    let words = format!(
                        "a {holder} needs macOS {}.{} and is not guarded by it",
                        version.0, version.1
                    );
                    faults.push((at, words));
                }
            }
        }
        faults
    }
}

/// The type that an `impl` is for.
fn self_type(header: &str) -> &str {
    header.rsplit_once(" for ").map_or(header, |(_, name)| name)
}

/// Offset of what closes the first `open` of a text; the text's end if nothing does.
pub(super) fn closing(text: &str, open: char, close: char) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    text.len()
}

/// Offset of the brace that closes the block in which a text starts.
fn enclosing_end(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Headers and bodies of the `impl`s that start a line or stand at the text's start.
fn impls(code: &str) -> Vec<(String, Range<usize>)> {
    let starts = word_offsets(code, "impl").filter(|&at| {
        let ahead = code[..at].trim_end_matches(' ');
        ahead.is_empty() || ahead.ends_with(['\n', '}', ';']) || ahead.ends_with("unsafe")
    });
    starts
        .filter_map(|at| {
            let open = at + code[at..].find('{')?;
            let header = code[at + 4..open].split_whitespace().collect::<Vec<_>>().join(" ");
            Some((header, open..open + closing(&code[open..], '{', '}')))
        })
        .collect()
}

/// Offset of what ends a signature: the body's brace, or a semicolon outside of brackets.
fn body(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        (depth == 0 && matches!(c, '{' | ';')).then_some(at)
    })
}

/// Names, signatures and bodies of functions.
fn functions(code: &str) -> Vec<(String, &str, Range<usize>)> {
    let mut functions = Vec::new();
    for at in word_offsets(code, "fn") {
        let name: String = code[at + 2..].trim_start().chars().take_while(|&c| is_word(c)).collect();
        let Some(open) = body(&code[at..]).map(|open| at + open) else { continue };
        if code[open..].starts_with('{') && !name.is_empty() {
            functions.push((name, &code[at..open], open..open + closing(&code[open..], '{', '}')));
        }
    }
    functions
}

/// `impl header, function` of a place.
pub(super) fn place(code: &str, at: usize) -> String {
    let function = functions(code).into_iter().rfind(|(.., body)| body.contains(&at));
    let function = function.map_or_else(|| "-".to_owned(), |(name, ..)| name);
    match impls(code).into_iter().rfind(|(_, body)| body.contains(&at)) {
        Some((header, _)) => format!("{header}, {function}"),
        None => function,
    }
}
