//! The inside of a function block: parameters and their values.

use super::opener::{
    CALL_CLOSE, CALL_OPEN, FUNCTION_CLOSE, FUNCTION_OPEN, Match, ObjectScan, PARAMETER_CLOSE, PARAMETER_OPEN,
    after_blank, named_tag, tag,
};
use super::schema::{Tools, Types};
use super::{End, Event};
use crate::json::Value;

/// Reads one function block, from behind its head on.
#[derive(Debug, Clone)]
pub(super) struct CallReader {
    call: usize,
    tool: String,
    given: Vec<String>,
    value: Option<ValueReader>,
    object: Option<ObjectScan>,
    /// Only a line that begins with the closing tag ends a value.
    exact: bool,
}

/// The value that is being read.
#[derive(Debug, Clone)]
struct ValueReader {
    types: Types,
    /// The parameter was given before: this value is left out.
    repeated: bool,
    /// The value began on a line of its own; not known before its first character.
    block: Option<bool>,
    /// It is text that is handed on while it is written.
    text: Option<bool>,
    /// Nothing of it has been handed on.
    fresh: bool,
    /// Up to here there is no end of it.
    scanned: usize,
}

/// What a step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// This many bytes are done with; go on.
    Consumed(usize),
    /// This many bytes are done with; more text is needed.
    Wait(usize),
    /// This many bytes are done with, and the block is at its end.
    Done(usize),
}

/// Where a value ends.
struct ValueEnd {
    /// Bytes of the value, with the newline before the closing tag.
    value: usize,
    /// Bytes of the closing tag.
    tag: usize,
}

impl CallReader {
    pub(super) fn new(call: usize, tool: String, exact: bool) -> Self {
        CallReader { call, tool, given: Vec::new(), value: None, object: None, exact }
    }

    fn arguments(&self, json: String, events: &mut Vec<Event>) {
        if !json.is_empty() {
            events.push(Event::CallArguments { call: self.call, json });
        }
    }

    fn finish(&self, events: &mut Vec<Event>) {
        self.arguments(if self.given.is_empty() { "{}" } else { "}" }.to_owned(), events);
        events.push(Event::CallEnd { call: self.call });
    }

    /// What comes before a parameter's value.
    fn key(&mut self, name: &str) -> String {
        let open = if self.given.is_empty() { "{" } else { ", " };
        self.given.push(name.to_owned());
        format!("{open}{}: ", Value::from(name).to_python_json())
    }

    /// Reads from the beginning of `text`, which begins where the last step ended.
    pub(super) fn step(
        &mut self,
        text: &str,
        end: Option<End>,
        tools: &Tools,
        events: &mut Vec<Event>,
    ) -> Step {
        match self.value.take() {
            Some(value) => self.value_step(value, text, end, tools, events),
            None => self.body_step(text, end, tools, events),
        }
    }

    /// Between the parameters. What is no tag there is ignored.
    fn body_step(&mut self, text: &str, end: Option<End>, tools: &Tools, events: &mut Vec<Event>) -> Step {
        let rest = text.trim_start();
        let blank = text.len() - rest.len();
        if rest.is_empty() {
            return self.at_end(text.len(), end, events);
        }
        if let Match::Full(name, length) = named_tag(rest, PARAMETER_OPEN) {
            let repeated = self.given.contains(&name);
            if !repeated {
                let key = self.key(&name);
                self.arguments(key, events);
            }
            let types = tools.types(&self.tool, &name);
            self.value =
                Some(ValueReader { types, repeated, block: None, text: None, fresh: true, scanned: 0 });
            return Step::Consumed(blank + length);
        }
        for (close, inside) in
            [(FUNCTION_CLOSE, true), (CALL_CLOSE, false), (FUNCTION_OPEN, false), (CALL_OPEN, false)]
        {
            if rest.starts_with(close) {
                self.finish(events);
                // What opens or closes something else is left to whoever reads on.
                return Step::Done(if inside { blank + close.len() } else { blank });
            }
        }
        let tags = [PARAMETER_OPEN, FUNCTION_CLOSE, CALL_CLOSE, FUNCTION_OPEN, CALL_OPEN];
        let partial = tags.iter().any(|open| tag(rest, open) == Match::Partial)
            || named_tag(rest, PARAMETER_OPEN) == Match::Partial;
        if partial {
            return self.at_end(if end.is_some() { text.len() } else { blank }, end, events);
        }
        if rest.starts_with('{') && self.given.is_empty() {
            return self.object_step(rest, blank, end, events);
        }
        // Skip to where a tag or an object may begin.
        let next = rest.char_indices().skip(1).find(|(_, letter)| matches!(letter, '<' | '{'));
        Step::Consumed(blank + next.map_or(rest.len(), |(at, _)| at))
    }

    /// Waits, or closes the call when there is no more text.
    fn at_end(&mut self, consumed: usize, end: Option<End>, events: &mut Vec<Event>) -> Step {
        match end {
            None | Some(End::Cut) => Step::Wait(consumed),
            Some(End::Stop) => {
                self.finish(events);
                Step::Done(consumed)
            }
        }
    }

    /// All arguments as one JSON object, where parameters should be.
    fn object_step(&mut self, rest: &str, blank: usize, end: Option<End>, events: &mut Vec<Event>) -> Step {
        let mut scan = self.object.take().unwrap_or_default();
        match scan.end(rest) {
            Match::Full((), length) => {
                let Ok(Value::Object(entries)) = Value::parse(&rest[..length]) else {
                    return Step::Consumed(blank + 1);
                };
                for (name, value) in entries {
                    let key = self.key(&name);
                    self.arguments(key + &value.to_python_json(), events);
                }
                Step::Consumed(blank + length)
            }
            Match::No => Step::Consumed(blank + 1),
            Match::Partial if end == Some(End::Stop) => Step::Consumed(blank + 1),
            Match::Partial => {
                self.object = Some(scan);
                Step::Wait(blank)
            }
        }
    }

    fn value_step(
        &mut self,
        mut value: ValueReader,
        text: &str,
        end: Option<End>,
        tools: &Tools,
        events: &mut Vec<Event>,
    ) -> Step {
        let Some(block) = value.block else {
            if (text.is_empty() || text == "\r") && end.is_none() {
                self.value = Some(value);
                return Step::Wait(0);
            }
            let newline = ["\n", "\r\n"].into_iter().find(|newline| text.starts_with(newline));
            value.block = Some(newline.is_some());
            self.value = Some(value);
            return Step::Consumed(newline.map_or(0, str::len));
        };
        let known = value.scanned;
        let found = self.find_end(&mut value, block, text, end, tools);
        if let Some(at) = found {
            let json = value.close(&text[..at.value], true);
            self.arguments(json, events);
            return Step::Consumed(at.value + at.tag);
        }
        if end == Some(End::Stop) {
            // The model stopped without a closing tag.
            let json = value.close(text, true);
            self.arguments(json, events);
            self.finish(events);
            return Step::Done(text.len());
        }
        let certain = certain_length(text, known, value.scanned);
        let consumed = value.hand_on(&text[..certain], |json| self.arguments(json, events));
        value.scanned -= consumed;
        self.value = Some(value);
        Step::Wait(consumed)
    }

    /// Looks for the end of a value from where it was last looked for.
    fn find_end(
        &self,
        value: &mut ValueReader,
        block: bool,
        text: &str,
        end: Option<End>,
        tools: &Tools,
    ) -> Option<ValueEnd> {
        while let Some(at) = text[value.scanned..].find('<').map(|found| value.scanned + found) {
            let line_start = if at == 0 { value.fresh && block } else { text.as_bytes()[at - 1] == b'\n' };
            match self.value_end(&text[at..], line_start || !block, line_start, end.is_some(), tools) {
                Match::Full((), length) => return Some(ValueEnd { value: at, tag: length }),
                Match::Partial => {
                    value.scanned = at;
                    return None;
                }
                Match::No => value.scanned = at + 1,
            }
        }
        value.scanned = text.len();
        None
    }

    /// The text begins with what ends a value; the bytes are those to leave out. `free`: a closing tag counts here
    /// whatever follows it.
    fn value_end(&self, text: &str, free: bool, line_start: bool, ended: bool, tools: &Tools) -> Match<()> {
        // What follows shows whether this was markup: a tag of the format, or the end.
        let follows = |length: usize, tags: &[&str]| {
            let Some(rest) = after_blank(&text[length..]) else { return Match::No };
            let matches = |wanted: Match<()>| {
                tags.iter().any(|open| {
                    let found = tag(rest, open);
                    found == wanted || matches!((&found, &wanted), (Match::Full(..), Match::Full(..)))
                })
            };
            if matches(Match::Full((), 0)) || (ended && (rest.is_empty() || matches(Match::Partial))) {
                Match::Full((), length)
            } else if !ended && (rest.is_empty() || matches(Match::Partial)) {
                Match::Partial
            } else {
                Match::No
            }
        };
        let mut partial = false;
        match tag(text, PARAMETER_CLOSE) {
            _ if self.exact && !line_start => return Match::No,
            Match::Full((), length) if free => return Match::Full((), length),
            Match::Full((), length) => return follows(length, &[PARAMETER_OPEN, FUNCTION_CLOSE, CALL_CLOSE]),
            // The text ended within the closing tag.
            Match::Partial if ended && line_start && text.len() > 2 => return Match::Full((), text.len()),
            other if self.exact => return if ended { Match::No } else { other },
            Match::Partial => partial = true,
            Match::No => {}
        }
        if free {
            for (close, tags) in
                [(FUNCTION_CLOSE, &[CALL_CLOSE, CALL_OPEN][..]), (CALL_CLOSE, &[CALL_OPEN][..])]
            {
                match tag(text, close) {
                    Match::Full((), length) => {
                        return match follows(length, tags) {
                            // The closing tag of the value is missing; this one is still to be read.
                            Match::Full(..) => Match::Full((), 0),
                            other => other,
                        };
                    }
                    Match::Partial => partial = true,
                    Match::No => {}
                }
            }
        }
        if line_start {
            match named_tag(text, PARAMETER_OPEN) {
                Match::Full(name, _)
                    if tools.declares_parameter(&self.tool, &name) && !self.given.contains(&name) =>
                {
                    return Match::Full((), 0);
                }
                Match::Partial => partial = true,
                _ => {}
            }
        }
        if partial && !ended { Match::Partial } else { Match::No }
    }
}

impl ValueReader {
    /// Hands on text that is certain; gives the bytes of it that are done with.
    fn hand_on(&mut self, certain: &str, mut emit: impl FnMut(String)) -> usize {
        if self.repeated {
            return self.skip(certain);
        }
        if self.text.is_none() {
            self.text = self.types.is_text(certain, false);
        }
        if self.text != Some(true) || certain.is_empty() {
            return 0;
        }
        let open = if self.fresh { "\"" } else { "" };
        emit(format!("{open}{}", escaped(certain)));
        self.skip(certain)
    }

    fn skip(&mut self, certain: &str) -> usize {
        self.fresh &= certain.is_empty();
        certain.len()
    }

    /// The JSON text of the rest of the value, whose closing tag (or the text's end) is reached.
    fn close(&mut self, rest: &str, whole: bool) -> String {
        let rest = if whole { without_last_newline(rest) } else { rest };
        if self.repeated {
            return String::new();
        }
        if self.text.or_else(|| self.types.is_text(rest, true)) == Some(true) {
            let open = if self.fresh { "\"" } else { "" };
            format!("{open}{}\"", escaped(rest))
        } else {
            self.types.convert(rest).to_python_json()
        }
    }
}

/// Length of a text up to `until` without the white space at its end. Up to `known` nothing is left to hand on: what stands
/// there is white space, which need not be looked at again.
pub(super) fn certain_length(text: &str, known: usize, until: usize) -> usize {
    match text[known.min(until)..until].trim_end().len() {
        0 => 0,
        length => known.min(until) + length,
    }
}

/// One newline before a closing tag belongs to the format, and so does the tag's indentation.
fn without_last_newline(text: &str) -> &str {
    let unindented = text.trim_end_matches([' ', '\t']);
    let Some(line) = unindented.strip_suffix('\n') else { return text };
    line.strip_suffix('\r').unwrap_or(line)
}

/// The inside of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_python_json();
    quoted[1..quoted.len() - 1].to_owned()
}
