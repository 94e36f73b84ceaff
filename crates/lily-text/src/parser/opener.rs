//! Tags, whole or in part.

use super::schema::Tools;

pub(super) const CALL_OPEN: &str = "<tool_call>";
pub(super) const CALL_CLOSE: &str = "</tool_call>";
pub(super) const FUNCTION_OPEN: &str = "<function=";
pub(super) const FUNCTION_CLOSE: &str = "</function>";
pub(super) const PARAMETER_OPEN: &str = "<parameter=";
pub(super) const PARAMETER_CLOSE: &str = "</parameter>";

/// Names longer than this are no names.
const MAX_NAME: usize = 256;

/// White space longer than this does not join two tags; so a long run of it is looked at once.
const MAX_BLANK: usize = 256;

/// What the beginning of a text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Match<T> {
    /// It is what was looked for, this many bytes long.
    Full(T, usize),
    /// It is the beginning of it; more text will tell.
    Partial,
    /// It is something else.
    No,
}

/// The text begins with `tag`.
pub(super) fn tag(text: &str, tag: &str) -> Match<()> {
    if text.starts_with(tag) {
        Match::Full((), tag.len())
    } else if tag.starts_with(text) {
        Match::Partial
    } else {
        Match::No
    }
}

/// The text begins with `<function=NAME>` or the like, with a name that is not empty.
pub(super) fn named_tag(text: &str, open: &str) -> Match<String> {
    let start = match tag(text, open) {
        Match::Full((), length) => length,
        Match::Partial => return Match::Partial,
        Match::No => return Match::No,
    };
    match text[start..].char_indices().find(|(_, letter)| matches!(letter, '>' | '<' | '\n')) {
        Some((at, '>')) if at <= MAX_NAME => match text[start..start + at].trim() {
            "" => Match::No,
            name => Match::Full(name.to_owned(), start + at + 1),
        },
        None if text.len() - start <= MAX_NAME => Match::Partial,
        _ => Match::No,
    }
}

/// What opens a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opener {
    /// A function block; the bytes are those of its head.
    Function {
        /// The function.
        name: String,
        /// It stands in an envelope.
        envelope: bool,
    },
    /// The JSON dialect; the bytes are those before the object.
    Json,
}

/// Where a possible opener stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// In the thinking, where only a call of a declared tool is one.
    pub(super) thinking: bool,
    /// Nothing but blanks before it on its line.
    pub(super) line_start: bool,
}

/// The text without the white space that it begins with; `None` if there is too much of it.
pub(super) fn after_blank(text: &str) -> Option<&str> {
    let blank = text.char_indices().find(|(at, letter)| *at > MAX_BLANK || !letter.is_whitespace());
    match blank {
        Some((at, _)) if at > MAX_BLANK => None,
        Some((at, _)) => Some(&text[at..]),
        None if text.len() > MAX_BLANK => None,
        None => Some(""),
    }
}

/// The text begins with what opens a call.
pub(super) fn opener(text: &str, place: Place, tools: &Tools) -> Match<Opener> {
    match tag(text, CALL_OPEN) {
        Match::Full((), length) => {
            let Some(inner) = after_blank(&text[length..]) else { return Match::No };
            let before = text.len() - inner.len();
            if inner.is_empty() {
                return Match::Partial;
            }
            match named_tag(inner, FUNCTION_OPEN) {
                Match::Full(name, head) if !place.thinking || tools.declares(&name) => {
                    Match::Full(Opener::Function { name, envelope: true }, before + head)
                }
                Match::Partial => Match::Partial,
                _ if inner.starts_with('{') && place.line_start => Match::Full(Opener::Json, before),
                _ => Match::No,
            }
        }
        // A bare function block: `<` begins either.
        envelope if place.line_start && !place.thinking => match named_tag(text, FUNCTION_OPEN) {
            Match::Full(name, head) if tools.declares(&name) => {
                Match::Full(Opener::Function { name, envelope: false }, head)
            }
            Match::Partial => Match::Partial,
            _ if envelope == Match::Partial => Match::Partial,
            _ => Match::No,
        },
        Match::Partial => Match::Partial,
        Match::No => Match::No,
    }
}

/// Finds the end of a JSON object that arrives in pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct ObjectScan {
    begin: usize,
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl ObjectScan {
    /// One that begins at a byte of the text.
    pub(super) fn from(at: usize) -> Self {
        ObjectScan { begin: at, at, ..ObjectScan::default() }
    }

    /// Where it begins.
    pub(super) fn begin(&self) -> usize {
        self.begin
    }

    /// Where the object ends; goes on where it stopped, in a text that has only grown. `Partial` if it does not end yet,
    /// `No` if an envelope ends before it does.
    pub(super) fn end(&mut self, text: &str) -> Match<()> {
        while let Some(byte) = text.as_bytes().get(self.at) {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                } else if *byte == b'\\' {
                    self.escaped = true;
                } else if *byte == b'"' {
                    self.in_string = false;
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    b'<' => match tag(&text[self.at..], CALL_CLOSE) {
                        Match::Full(..) => return Match::No,
                        Match::Partial => return Match::Partial,
                        Match::No => {}
                    },
                    _ => {}
                }
                if self.depth == 0 {
                    return Match::Full((), self.at + 1);
                }
            }
            self.at += 1;
        }
        Match::Partial
    }
}
