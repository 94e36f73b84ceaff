//! Splits a stream of generated text into thinking and answer.
//!
//! The generation prompt of this model family ends either inside an open think block or after a closed one. Text is
//! handed on as soon as it is certain: only what could be the beginning of a tag, and white space that may turn out to
//! surround one, is held back.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A run of text of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    Reasoning(String),
    Answer(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but white space yet: a think block may still open.
    Start,
    /// Inside a think block; `true` once any of its text was handed on.
    Thinking(bool),
    /// Between `</think>` and the first character of the answer.
    Gap,
    Answer,
}

/// The streaming splitter.
#[derive(Debug, Clone)]
pub(crate) struct Splitter {
    state: State,
    held: String,
}

impl Splitter {
    /// For a prompt with this text: thinking is open if the prompt ends in `<think>`.
    pub(crate) fn after_prompt(prompt: &str) -> Self {
        let prompt = prompt.trim_end();
        let state = if prompt.ends_with(OPEN) {
            State::Thinking(false)
        } else if prompt.ends_with(CLOSE) {
            State::Gap
        } else {
            State::Start
        };
        Self { state, held: String::new() }
    }

    /// For text that is handed on as it is.
    pub(crate) fn raw() -> Self {
        Self { state: State::Answer, held: String::new() }
    }

    /// What becomes certain with this text.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Span> {
        self.held.push_str(text);
        let mut spans = Vec::new();
        while self.step(&mut spans) {}
        spans
    }

    /// What was held back when the stream ended.
    pub(crate) fn finish(&mut self) -> Vec<Span> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Thinking(_) if !held.trim().is_empty() => {
                vec![Span::Reasoning(held.trim_end().to_owned())]
            }
            State::Answer | State::Start if !held.is_empty() => vec![Span::Answer(held)],
            _ => Vec::new(),
        }
    }

    /// Moves text from `held` to `spans`; true if the state changed and more may follow.
    fn step(&mut self, spans: &mut Vec<Span>) -> bool {
        match self.state {
            State::Start => {
                let rest = self.held.trim_start();
                if let Some(after) = rest.strip_prefix(OPEN) {
                    self.held = after.to_owned();
                    self.state = State::Thinking(false);
                    return true;
                }
                let undecided = OPEN.starts_with(rest);
                self.state = if undecided { State::Start } else { State::Answer };
                !undecided
            }
            State::Thinking(begun) => self.think(begun, spans),
            State::Gap => {
                self.held = self.held.trim_start().to_owned();
                let begun = !self.held.is_empty();
                self.state = if begun { State::Answer } else { State::Gap };
                begun
            }
            State::Answer => {
                if !self.held.is_empty() {
                    spans.push(Span::Answer(std::mem::take(&mut self.held)));
                }
                false
            }
        }
    }

    fn think(&mut self, begun: bool, spans: &mut Vec<Span>) -> bool {
        if !begun {
            self.held = self.held.trim_start().to_owned();
        }
        let closed = self.held.find(CLOSE);
        let certain = closed.unwrap_or_else(|| self.held.len() - tag_prefix(&self.held, CLOSE));
        let thought = self.held[..certain].trim_end().to_owned();
        let rest = match closed {
            Some(at) => self.held[at + CLOSE.len()..].to_owned(),
            None => self.held[thought.len()..].to_owned(),
        };
        self.state = match closed {
            Some(_) => State::Gap,
            None => State::Thinking(begun || !thought.is_empty()),
        };
        if !thought.is_empty() {
            spans.push(Span::Reasoning(thought));
        }
        self.held = rest;
        closed.is_some()
    }
}

/// Length of the longest end of `text` that is a beginning of `tag`.
fn tag_prefix(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|&length| text.ends_with(&tag[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` in pieces of `size` characters and joins the spans of each kind.
    fn split(prompt: &str, text: &str, size: usize) -> (String, String) {
        let mut splitter = Splitter::after_prompt(prompt);
        let characters: Vec<char> = text.chars().collect();
        let mut spans = Vec::new();
        for piece in characters.chunks(size) {
            spans.extend(splitter.push(&piece.iter().collect::<String>()));
        }
        spans.extend(splitter.finish());
        let (mut reasoning, mut answer) = (String::new(), String::new());
        for span in spans {
            match span {
                Span::Reasoning(text) => reasoning.push_str(&text),
                Span::Answer(text) => answer.push_str(&text),
            }
        }
        (reasoning, answer)
    }

    #[test]
    fn every_chunking_gives_the_same() {
        let cases = [
            ("<think>\n", "I greet.\n</think>\n\nHello!", "I greet.", "Hello!"),
            ("<think>\n", "\n</think>\n\nHello!\n", "", "Hello!\n"),
            ("<think>\n", "a < b </thin k>\n\nc </think> d </think>", "a < b </thin k>\n\nc", "d </think>"),
            ("<think>\n", "cut in the mid", "cut in the mid", ""),
            ("<think>\n", "cut in the tag </thi", "cut in the tag </thi", ""),
            ("<think>\n\n</think>\n\n", "Hello <think> not a tag", "", "Hello <think> not a tag"),
            ("assistant\n", "<think>\nhm\n</think>\nHi", "hm", "Hi"),
            ("assistant\n", "  <thing> is not it", "", "  <thing> is not it"),
            ("assistant\n", "<thi", "", "<thi"),
        ];
        for (prompt, text, reasoning, answer) in cases {
            for size in 1..=text.len() {
                let got = split(prompt, text, size);
                assert_eq!(got, (reasoning.to_owned(), answer.to_owned()), "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn plain_answer_text_is_never_held_back() {
        let mut splitter = Splitter::after_prompt("</think>\n\n");
        assert_eq!(splitter.push("Hello "), [Span::Answer("Hello ".into())]);
        assert_eq!(splitter.push("<"), [Span::Answer("<".into())]);
    }
}
