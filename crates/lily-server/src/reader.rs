//! Reading a model's text: what is thinking, what is answer, what is a call.

use lily_engine::FinishReason;
use lily_text::json::Value;

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Thinking.
    Reasoning(String),
    /// Answer.
    Content(String),
    /// A call begins.
    CallStart {
        /// Index among the answer's calls.
        call: usize,
        /// The function.
        name: String,
    },
    /// More of a call's arguments, as JSON text.
    CallArguments {
        /// Index among the answer's calls.
        call: usize,
        /// The text.
        text: String,
    },
    /// A call is complete.
    CallEnd {
        /// Index among the answer's calls.
        call: usize,
    },
}

/// Splits a model's text into pieces.
pub(crate) struct Reader {
    state: State,
    /// Text that may be the beginning of the closing tag, or blanks whose side is not certain yet.
    held: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Everything is content.
    Raw,
    /// Before the closing tag.
    Thinking,
    /// After it, before the first character of the answer.
    Between,
}

const CLOSE: &str = "</think>";

impl Reader {
    /// For plain completions: everything is content.
    pub(crate) fn raw() -> Self {
        Self { state: State::Raw, held: String::new() }
    }

    /// For a chat: the state in which the answer begins shows in the end of the rendered prompt.
    pub(crate) fn chat(prompt_tail: &str, _tools: &[Value]) -> Self {
        let thinking = prompt_tail.trim_end().ends_with("<think>");
        Self { state: if thinking { State::Thinking } else { State::Raw }, held: String::new() }
    }

    /// True while the model is thinking.
    pub(crate) fn in_reasoning(&self) -> bool {
        self.state == State::Thinking
    }

    /// Calls begun so far.
    pub(crate) fn calls(&self) -> usize {
        0
    }

    /// The pieces that become certain with more text.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.held.push_str(text);
        if self.state == State::Thinking {
            if let Some(at) = self.held.find(CLOSE) {
                let after = self.held.split_off(at + CLOSE.len());
                self.held.truncate(at);
                let thought = std::mem::replace(&mut self.held, after);
                push_text(&mut pieces, Piece::Reasoning, thought.trim_end());
                self.state = State::Between;
            } else {
                let certain = certain_length(&self.held);
                let thought: String = self.held.drain(..certain).collect();
                push_text(&mut pieces, Piece::Reasoning, &thought);
            }
        }
        if self.state == State::Between {
            let answer = self.held.trim_start().to_owned();
            if answer.is_empty() {
                return pieces;
            }
            self.held = answer;
            self.state = State::Raw;
        }
        if self.state == State::Raw {
            push_text(&mut pieces, Piece::Content, &std::mem::take(&mut self.held));
        }
        pieces
    }

    /// What had been held back.
    pub(crate) fn finish(&mut self, _reason: FinishReason) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Thinking => push_text(&mut pieces, Piece::Reasoning, held.trim_end()),
            State::Raw => push_text(&mut pieces, Piece::Content, &held),
            State::Between => {}
        }
        pieces
    }
}

fn push_text(pieces: &mut Vec<Piece>, make: fn(String) -> Piece, text: &str) {
    if !text.is_empty() {
        pieces.push(make(text.to_owned()));
    }
}

/// Length of the part that cannot belong to the closing tag or to the blanks before it.
fn certain_length(text: &str) -> usize {
    let open = (1..CLOSE.len()).rev().find(|length| text.ends_with(&CLOSE[..*length])).unwrap_or(0);
    text[..text.len() - open].trim_end().len()
}
