//! The whole form of a message.

use super::{End, Event, MessageParser, Start};
use crate::json::Value;

/// A message, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Thinking; empty if there was none.
    pub reasoning: String,
    /// Answer; empty if there was none.
    pub content: String,
    /// The calls that are complete.
    pub calls: Vec<ToolCall>,
    /// Markup of a call that the text ended in before there was a name.
    pub incomplete: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The function.
    pub name: String,
    /// JSON text of an object.
    pub arguments: String,
}

impl Message {
    /// Reads a whole text; `tools` are those of the request, none if calls must not be read.
    pub fn parse(text: &str, start: Start, tools: &[Value], end: End) -> Self {
        let mut parser = MessageParser::new(start, tools);
        let mut events = parser.push(text);
        events.extend(parser.finish(end));
        Message::from_events(events)
    }

    /// Joins a stream's events. Calls that did not end are left out.
    pub fn from_events(events: impl IntoIterator<Item = Event>) -> Self {
        let mut message = Message::default();
        let mut calls: Vec<(bool, ToolCall)> = Vec::new();
        for event in events {
            match event {
                Event::Reasoning(text) => message.reasoning.push_str(&text),
                Event::Content(text) => message.content.push_str(&text),
                Event::Incomplete(text) => message.incomplete = Some(text),
                Event::CallStart { name, .. } => {
                    calls.push((false, ToolCall { name, arguments: String::new() }));
                }
                Event::CallArguments { call, json } => {
                    if let Some((_, open)) = calls.get_mut(call) {
                        open.arguments.push_str(&json);
                    }
                }
                Event::CallEnd { call } => {
                    if let Some((ended, _)) = calls.get_mut(call) {
                        *ended = true;
                    }
                }
            }
        }
        message.calls = calls.into_iter().filter(|(ended, _)| *ended).map(|(_, call)| call).collect();
        message
    }
}
