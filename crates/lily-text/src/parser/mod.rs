//! What a model's text means: thinking, answer, tool calls.
//!
//! Two text machines, one inside the other, over text that arrives in any pieces: one tells thinking from answer, the
//! other reads calls. Text is handed on as soon as it is certain; only what may be the beginning of a tag, and white
//! space that may turn out to surround one, is held back. Every chunking gives the same: the same pieces of text joined,
//! and the whole form ([`Message`]) is made from the streamed events.
//!
//! # The format, and what is tolerated
//!
//! ```text
//! thinking
//! </think>
//!
//! answer
//!
//! <tool_call>
//! <function=NAME>
//! <parameter=NAME>
//! value
//! </parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! - **Thinking** begins open if the prompt ends in `<think>`. It ends at the first `</think>`; white space around the
//!   tag belongs to neither side. Thinking that is never closed stays thinking, also when the model stops on its own:
//!   the answer is then empty. A call of a declared tool inside thinking is lifted out, and what follows it is thinking
//!   still; thinking that only mentions the tags is text.
//! - **Calls** are read only if the request has tools. `<tool_call>` opens one when `<function=NAME>` or a JSON object
//!   follows; a bare `<function=NAME>` that starts a line opens one too, if NAME is a declared tool (not in thinking). A
//!   wrapped call of a tool that is not declared is a call: the client can tell the model so. An empty name, an empty
//!   envelope, and anything else that is no call stays text, to the letter. White space next to a call is not content.
//! - **A value** loses one newline after its opening tag and one before its closing tag; every other character counts. It
//!   ends at the first `</parameter>` that starts a line; at one within a line only if the value began on the line of its
//!   opening tag, or if the markup goes on right behind it. Missing closing tags are forgiven where the markup goes on or
//!   the text ends. A parameter that is given twice keeps its first value.
//! - **Types** come from the tool's schema. Strings are raw text: quotes and `null` are data. Others are read as JSON,
//!   then as a Python literal (`{'a': True}`), and stay strings when they are neither: nothing is an error, nothing is
//!   dropped. `null` is null only where the schema allows it.
//! - **Streaming**: a call's name comes first, then its arguments while they are written; joined they are JSON text of an
//!   object. Values that are not strings come when they are complete, and so does the JSON dialect.
//! - **The end**: a call whose function block is complete is a call. If the model stopped inside one, it is closed there;
//!   if it was cut off by the length, the call has no [`Event::CallEnd`], and the whole form leaves it out. An envelope
//!   that ends before there is a name is [`Event::Incomplete`].

mod call;
mod literal;
mod machine;
mod message;
mod opener;
mod schema;

pub use machine::MessageParser;
pub use message::{Message, ToolCall};

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// More thinking.
    Reasoning(String),
    /// More of the answer.
    Content(String),
    /// A call begins.
    CallStart {
        /// Index among the message's calls.
        call: usize,
        /// The function's name, never empty.
        name: String,
    },
    /// More of a call's arguments: a piece of JSON text that splits no escape.
    CallArguments {
        /// Index among the message's calls.
        call: usize,
        /// The text.
        json: String,
    },
    /// A call is complete: its arguments are JSON text of an object.
    CallEnd {
        /// Index among the message's calls.
        call: usize,
    },
    /// The text ended inside the head of a call, before there was a name: this is its markup. It must not pass for an
    /// answer that is complete.
    Incomplete(String),
}

/// How a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The model stopped, or a stop string did.
    Stop,
    /// It was cut off: by the length, an error, or a client that left.
    Cut,
}

/// Where a text begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Inside the thinking.
    Thinking,
    /// Behind the thinking: white space before the answer is not part of it.
    Answer,
    /// Where the prompt says nothing of thinking, or within an answer that the prompt began: white space counts.
    Within,
    /// Nothing is read: all of it is content.
    Raw,
}

impl Start {
    /// As the rendered prompt says: thinking if it ends in `<think>`, answer if it ends in `</think>`.
    pub fn after_prompt(prompt: &str) -> Self {
        let prompt = prompt.trim_end();
        if prompt.ends_with("<think>") {
            Start::Thinking
        } else if prompt.ends_with("</think>") {
            Start::Answer
        } else {
            Start::Within
        }
    }
}
