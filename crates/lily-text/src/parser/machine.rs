//! The machine that tells thinking, answer and calls apart.

use super::call::{CallReader, Step, certain_length};
use super::literal::parse_literal;
use super::opener::{
    CALL_CLOSE, CALL_OPEN, FUNCTION_OPEN, Match, ObjectScan, Opener, Place, after_blank, named_tag, opener,
    tag,
};
use super::schema::Tools;
use super::{End, Event, Start};
use crate::json::Value;

const THINK_OPEN: &str = "<think>";
const THINK_CLOSE: &str = "</think>";

/// Reads a model's text in any pieces; see the [module](super) for the format. A clone goes its own way from where it was
/// made, and costs little at the beginning of a text.
#[derive(Debug, Clone)]
pub struct MessageParser {
    tools: Tools,
    state: State,
    /// Text that is not done with.
    text: String,
    /// Up to here the text holds no tag.
    scanned: usize,
    /// Nothing but blanks on the line before the text.
    line_start: bool,
    /// A call was the last thing before the text.
    after_call: bool,
    reasoning_begun: bool,
    content_begun: bool,
    /// White space before the first content is not content.
    trim_content: bool,
    calls: usize,
    exact: Option<Exact>,
}

/// What else is known of a text whose form was enforced.
#[derive(Debug, Clone, Copy)]
struct Exact {
    /// Text may stand before the calls.
    text_first: bool,
    /// Thinking was free, and holds no calls.
    free_thinking: bool,
}

/// On which side of `</think>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Thinking,
    Content,
}

#[derive(Debug, Clone)]
enum State {
    Raw,
    Text(Side),
    /// Behind `<tool_call>` and before the end of a JSON object; the text still begins with the white space before the tag.
    Json {
        side: Side,
        open: usize,
        scan: ObjectScan,
    },
    Call {
        side: Side,
        envelope: bool,
        reader: CallReader,
    },
    /// Behind a function block.
    After {
        side: Side,
        envelope: bool,
    },
}

impl MessageParser {
    /// A parser; `tools` are the request's tool definitions, none if calls must not be read (`tool_choice: none`).
    pub fn new(start: Start, tools: &[Value]) -> Self {
        let state = match start {
            Start::Raw => State::Raw,
            Start::Thinking => State::Text(Side::Thinking),
            Start::Answer | Start::Within => State::Text(Side::Content),
        };
        MessageParser {
            tools: Tools::new(tools),
            state,
            text: String::new(),
            scanned: 0,
            line_start: true,
            after_call: false,
            reasoning_begun: false,
            content_begun: false,
            trim_content: start != Start::Within,
            calls: 0,
            exact: None,
        }
    }

    /// A parser for text whose form was enforced by [`constraint`](crate::constraint): calls have the form that the
    /// template shows, so nothing else is taken for one, and only a line that begins with `</parameter>` ends a value.
    /// Without `text_first` an answer is calls or content, and content holds no calls.
    pub fn exact(start: Start, tools: &[Value], text_first: bool) -> Self {
        let exact = Exact { text_first, free_thinking: start == Start::Thinking };
        MessageParser { exact: Some(exact), ..MessageParser::new(start, tools) }
    }

    /// True if the text is searched for calls.
    pub fn reads_calls(&self) -> bool {
        !self.tools.is_empty() && !matches!(self.state, State::Raw)
    }

    /// True while the model is thinking.
    pub fn in_reasoning(&self) -> bool {
        matches!(self.state, State::Text(Side::Thinking))
    }

    /// Calls begun so far.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// What becomes certain with more text.
    pub fn push(&mut self, text: &str) -> Vec<Event> {
        self.text.push_str(text);
        self.run(None)
    }

    /// What had been held back. The parser is done then.
    pub fn finish(&mut self, end: End) -> Vec<Event> {
        let events = self.run(Some(end));
        self.text.clear();
        events
    }

    fn run(&mut self, end: Option<End>) -> Vec<Event> {
        let mut events = Vec::new();
        let mut text = std::mem::take(&mut self.text);
        let mut at = 0;
        loop {
            let rest = &text[at..];
            let step = match &mut self.state {
                State::Raw => {
                    emit(&mut events, Event::Content, rest);
                    Step::Wait(rest.len())
                }
                State::Text(side) => {
                    let side = *side;
                    self.text_step(side, rest, end, &mut events)
                }
                State::Json { .. } => self.json_step(rest, end, &mut events),
                State::Call { side, envelope, reader } => {
                    let step = reader.step(rest, end, &self.tools, &mut events);
                    if let Step::Done(consumed) = step {
                        self.state = State::After { side: *side, envelope: *envelope };
                        self.scanned = 0;
                        Step::Consumed(consumed)
                    } else {
                        step
                    }
                }
                State::After { side, envelope } => {
                    let (side, envelope) = (*side, *envelope);
                    self.after_step(side, envelope, rest, end, &mut events)
                }
            };
            match step {
                Step::Consumed(length) => at += length,
                Step::Wait(length) | Step::Done(length) => {
                    at += length;
                    break;
                }
            }
        }
        text.drain(..at);
        self.text = text;
        join_neighbours(events)
    }

    /// Hands on text of a side; what is only white space at the beginning of the side is dropped.
    fn hand_on(&mut self, side: Side, text: &str, events: &mut Vec<Event>) {
        if text.is_empty() {
            return;
        }
        self.line_start = self.starts_line(text, text.len());
        self.after_call = false;
        match side {
            Side::Thinking => {
                self.reasoning_begun = true;
                emit(events, Event::Reasoning, text);
            }
            Side::Content => {
                self.content_begun = true;
                emit(events, Event::Content, text);
            }
        }
    }

    fn begun(&self, side: Side) -> bool {
        match side {
            Side::Thinking => self.reasoning_begun,
            Side::Content => self.content_begun,
        }
    }

    fn text_step(&mut self, side: Side, text: &str, end: Option<End>, events: &mut Vec<Event>) -> Step {
        if !self.begun(side) {
            if side == Side::Thinking || self.trim_content {
                let blank = text.len() - text.trim_start().len();
                if blank > 0 {
                    self.scanned = 0;
                    return Step::Consumed(blank);
                }
            }
            if let Some(rest) = after_blank(text) {
                if rest.is_empty() && end.is_none() {
                    return Step::Wait(0);
                }
                if let Some(step) = self.head_step(side, rest, text.len() - rest.len(), end) {
                    return step;
                }
            }
        }
        let known = self.scanned;
        while let Some(at) = text[self.scanned..].find('<').map(|found| self.scanned + found) {
            if side == Side::Thinking && text[at..].starts_with(THINK_CLOSE) {
                self.hand_on(side, text[..at].trim_end(), events);
                self.enter(Side::Content);
                return Step::Consumed(at + THINK_CLOSE.len());
            }
            match self.tag_at(side, text, at) {
                Match::Full(Opener::Function { name, envelope }, length) => {
                    self.hand_on(side, text[..at].trim_end(), events);
                    self.start_call(side, envelope, name, events);
                    return Step::Consumed(at + length);
                }
                Match::Full(Opener::Json, length) => {
                    let before = text[..at].trim_end();
                    self.hand_on(side, before, events);
                    let open = at - before.len();
                    self.scanned = 0;
                    self.state = State::Json { side, open, scan: ObjectScan::from(open + length) };
                    return Step::Consumed(before.len());
                }
                Match::Partial if end.is_none() => {
                    self.scanned = at;
                    return self.wait(side, text, known, at, events);
                }
                Match::Partial => {
                    // Half an envelope must not pass for the end of an answer; half a tag is text.
                    if side == Side::Content
                        && self.starts_line(text, at)
                        && text[at..].starts_with(CALL_OPEN)
                    {
                        self.hand_on(side, text[..at].trim_end(), events);
                        events.push(Event::Incomplete(text[at..].to_owned()));
                        return Step::Wait(text.len());
                    }
                    self.scanned = at + 1;
                }
                Match::No => self.scanned = at + 1,
            }
        }
        self.scanned = text.len();
        if end.is_none() {
            return self.wait(side, text, known, text.len(), events);
        }
        // The text's end: white space after thinking or after a call belongs to neither.
        let last = if side == Side::Thinking || self.after_call { text.trim_end() } else { text };
        self.hand_on(side, last, events);
        Step::Wait(text.len())
    }

    /// The tags that may stand at the head of a side: an echo of the prompt's, or thinking that the prompt did not open.
    fn head_step(&mut self, side: Side, text: &str, blank: usize, end: Option<End>) -> Option<Step> {
        if self.calls > 0 {
            return None;
        }
        let mut partial = false;
        for (head, into) in [(THINK_OPEN, Side::Thinking), (THINK_CLOSE, Side::Content)] {
            if side == Side::Thinking && into == Side::Content {
                continue;
            }
            // Thinking cannot open once more behind its own end.
            if side == Side::Content && into == Side::Thinking && self.reasoning_begun {
                continue;
            }
            match tag(text, head) {
                Match::Full((), length) => {
                    self.enter(into);
                    return Some(Step::Consumed(blank + length));
                }
                Match::Partial => partial = true,
                Match::No => {}
            }
        }
        (partial && end.is_none()).then_some(Step::Wait(0))
    }

    fn enter(&mut self, side: Side) {
        self.trim_content = true;
        self.state = State::Text(side);
        self.scanned = 0;
        self.line_start = true;
    }

    /// The tag that may begin at a `<`.
    fn tag_at(&self, side: Side, text: &str, at: usize) -> Match<Opener> {
        let thinking = side == Side::Thinking;
        let closes = thinking && tag(&text[at..], THINK_CLOSE) == Match::Partial;
        let found = if self.tools.is_empty() || self.is_free_of_calls(side, &text[..at]) {
            Match::No
        } else {
            // What does not start a line must have an envelope.
            let line_start = self.exact.is_none() && self.starts_line(text, at);
            opener(&text[at..], Place { thinking, line_start }, &self.tools)
        };
        if found == Match::No && closes { Match::Partial } else { found }
    }

    /// The form that was enforced has no calls here; `before` is the text that is not handed on yet.
    fn is_free_of_calls(&self, side: Side, before: &str) -> bool {
        let content = side == Side::Content && (self.content_begun || !before.trim().is_empty());
        self.exact.is_some_and(|exact| match side {
            Side::Thinking => exact.free_thinking,
            Side::Content => content && !exact.text_first,
        })
    }

    fn starts_line(&self, text: &str, at: usize) -> bool {
        let before = text[..at].trim_end_matches(|letter: char| letter != '\n' && letter.is_whitespace());
        before.ends_with('\n') || (before.is_empty() && self.line_start)
    }

    /// Hands on what is certain of a text without a tag before `until`, and waits for more.
    fn wait(&mut self, side: Side, text: &str, known: usize, until: usize, events: &mut Vec<Event>) -> Step {
        // White space may turn out to stand before a tag.
        let surrounds = side == Side::Thinking || !self.tools.is_empty();
        let certain = if surrounds { certain_length(text, known, until) } else { until };
        self.hand_on(side, &text[..certain], events);
        self.scanned -= certain;
        Step::Wait(certain)
    }

    fn start_call(&mut self, side: Side, envelope: bool, name: String, events: &mut Vec<Event>) {
        let call = self.calls;
        self.calls += 1;
        self.scanned = 0;
        events.push(Event::CallStart { call, name: name.clone() });
        self.state =
            State::Call { side, envelope, reader: CallReader::new(call, name, self.exact.is_some()) };
    }

    fn after_step(
        &mut self,
        side: Side,
        envelope: bool,
        text: &str,
        end: Option<End>,
        events: &mut Vec<Event>,
    ) -> Step {
        // Up to `scanned` it is white space that was seen before.
        let rest = text[self.scanned..].trim_start();
        let blank = text.len() - rest.len();
        self.scanned = blank;
        if rest.is_empty() {
            return Step::Wait(if end.is_some() { text.len() } else { 0 });
        }
        let close = tag(rest, CALL_CLOSE);
        if let Match::Full((), length) = close {
            self.state = State::After { side, envelope: false };
            self.scanned = 0;
            return Step::Consumed(blank + length);
        }
        let next = if envelope { named_tag(rest, FUNCTION_OPEN) } else { Match::No };
        if let Match::Full(name, length) = next {
            self.start_call(side, envelope, name, events);
            return Step::Consumed(blank + length);
        }
        if close == Match::Partial || next == Match::Partial {
            return Step::Wait(if end.is_some() { text.len() } else { 0 });
        }
        self.state = State::Text(side);
        self.scanned = 0;
        self.line_start = true;
        self.after_call = true;
        Step::Consumed(0)
    }

    /// `{"name": ..., "arguments": {...}}` in an envelope.
    fn json_step(&mut self, text: &str, end: Option<End>, events: &mut Vec<Event>) -> Step {
        let State::Json { side, open, scan } = &mut self.state else { return Step::Consumed(0) };
        let (side, open) = (*side, *open);
        let begin = scan.begin();
        match scan.end(text) {
            Match::Full((), length) => {
                let call = json_call(&text[begin..length])
                    .filter(|(name, _)| side == Side::Content || self.tools.declares(name));
                if let Some((name, arguments)) = call {
                    let call = self.calls;
                    self.calls += 1;
                    events.push(Event::CallStart { call, name });
                    events.push(Event::CallArguments { call, json: arguments });
                    events.push(Event::CallEnd { call });
                    self.state = State::After { side, envelope: true };
                    self.scanned = 0;
                    return Step::Consumed(length);
                }
            }
            Match::Partial if end.is_none() => return Step::Wait(0),
            Match::Partial if side == Side::Content => {
                events.push(Event::Incomplete(text[open..].to_owned()));
                return Step::Wait(text.len());
            }
            _ => {}
        }
        // No call: the tag is text, and what follows is read as any text is.
        let tag_end = open + CALL_OPEN.len();
        self.state = State::Text(side);
        self.scanned = 0;
        let text = if self.begun(side) { &text[..tag_end] } else { &text[open..tag_end] };
        self.hand_on(side, text, events);
        Step::Consumed(tag_end)
    }
}

/// Name and arguments of a call in the JSON dialect.
fn json_call(text: &str) -> Option<(String, String)> {
    let call = Value::parse(text).ok().or_else(|| parse_literal(text))?;
    let call = call.get("function").filter(|inner| inner.as_object().is_some()).unwrap_or(&call);
    let name = call.get("name")?.as_str()?.trim();
    let arguments = match call.get("arguments").or_else(|| call.get("parameters")) {
        None | Some(Value::Null) => Value::Object(Vec::new()),
        // Some write the arguments as JSON text, as they are on the wire.
        Some(Value::String(text)) => Value::parse(text).ok()?,
        Some(arguments) => arguments.clone(),
    };
    (!name.is_empty() && arguments.as_object().is_some())
        .then(|| (name.to_owned(), arguments.to_python_json()))
}

fn emit(events: &mut Vec<Event>, make: fn(String) -> Event, text: &str) {
    if !text.is_empty() {
        events.push(make(text.to_owned()));
    }
}

/// One event for neighbours of one kind.
fn join_neighbours(events: Vec<Event>) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::with_capacity(events.len());
    for event in events {
        match (joined.last_mut(), event) {
            (Some(Event::Reasoning(text)), Event::Reasoning(more))
            | (Some(Event::Content(text)), Event::Content(more)) => {
                text.push_str(&more);
            }
            (Some(Event::CallArguments { call, json }), Event::CallArguments { call: same, json: more })
                if *call == same =>
            {
                json.push_str(&more);
            }
            (_, event) => joined.push(event),
        }
    }
    joined
}
