//! `lily parse`: what a model's text means, whole or as the events of a stream.

use crate::{
    cli::GlobalOptions,
    json,
    model::ModelSource,
    printer::write_to,
    prompt, request_file,
    terminal::{Stream, Terminal},
};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use lily_text::{
    json::Value,
    parser::{End, Event, Message, MessageParser, Start},
};
use serde_json::json;
use std::{num::NonZeroUsize, process::ExitCode, str::FromStr};

const LONG: &str = "\
Read a model's text as the server does: thinking, answer and tool calls, from text that arrives in any pieces.

stdout gets the message as one JSON object, or with --stream one JSON object a line for every event. Whatever the \
pieces, the message is the same; should it ever not be, the command fails and says so. Only with --request is a model \
needed, for its chat template.";

/// Read thinking, answer and tool calls out of a model's text
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct ParseArgs {
    /// The model's text, a file
    #[arg(default_value = "-")]
    text: String,

    /// Tool definitions of the request: a JSON file; without them no calls are read
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,

    /// Take tools and start from a request, as `lily render` reads it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tools", "start"])]
    request: Option<String>,

    /// Where the text begins
    #[arg(long, value_enum, default_value_t = StartChoice::Thinking, value_name = "WHERE")]
    start: StartChoice,

    /// The text was cut off (by a limit), not ended by the model
    #[arg(long)]
    cut: bool,

    /// The pieces that the text comes in: `whole`, characters in each (`1`), several in turn (`3,1,4`), or `random:SEED`
    #[arg(long, default_value = "whole", value_name = "PIECES")]
    chunk: Chunking,

    /// Write the events of a stream instead of the message
    #[arg(long)]
    stream: bool,
}

/// Where a text begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StartChoice {
    /// Inside the thinking: the prompt ended in `<think>`
    Thinking,
    /// Behind the thinking: the prompt ended in `</think>`
    Answer,
    /// The prompt says nothing of thinking
    Within,
    /// Nothing is read: all of it is content
    Raw,
}

/// How a text is cut into pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Chunking {
    Whole,
    /// Characters of the pieces, in turn.
    Sizes(Vec<NonZeroUsize>),
    /// One to seven characters each.
    Random(u64),
}

impl FromStr for Chunking {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "whole" {
            return Ok(Self::Whole);
        }
        if let Some(seed) = text.strip_prefix("random:") {
            return seed.parse().map(Self::Random).map_err(|_| format!("the seed {seed:?} is no number"));
        }
        let sizes: Result<Vec<NonZeroUsize>, _> = text.split(',').map(|size| size.trim().parse()).collect();
        sizes.map(Self::Sizes).map_err(|_| {
            "expected `whole`, numbers of characters above 0 (`1`, `3,1,4`), or `random:SEED`".to_owned()
        })
    }
}

impl Chunking {
    fn pieces<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let (mut pieces, mut rest, mut count) = (Vec::new(), text, 0);
        let mut state = match self {
            Self::Random(seed) => *seed,
            _ => 0,
        };
        while !rest.is_empty() {
            let characters = match self {
                Self::Whole => return vec![text],
                Self::Sizes(sizes) => sizes[count % sizes.len()].get(),
                Self::Random(_) => {
                    // Knuth's linear congruential generator; its high bits are good enough for this.
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) as usize % 7 + 1
                }
            };
            let end = rest.char_indices().nth(characters).map_or(rest.len(), |(at, _)| at);
            let (piece, after) = rest.split_at(end);
            pieces.push(piece);
            (rest, count) = (after, count + 1);
        }
        pieces
    }
}

/// Runs the command.
pub(crate) fn run(args: &ParseArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    let (start, tools) = match &args.request {
        Some(path) => {
            let request = request_file::read(path)?;
            let prompt = prompt::render(&ModelSource::locate(options.model.as_deref())?.text()?, &request)?;
            (Start::after_prompt(&prompt.text), request.tools)
        }
        None => {
            let tools = args.tools.as_deref().map(request_file::read_tools).transpose()?;
            (args.start.into(), tools.unwrap_or_default())
        }
    };
    let text = request_file::read_text(&args.text)?;
    let end = if args.cut { End::Cut } else { End::Stop };
    let events = stream(&args.chunk.pieces(&text), start, &tools, end);

    let message = Message::from_events(events.iter().map(|(_, event)| event.clone()));
    let whole = Message::parse(&text, start, &tools, end);
    if message != whole {
        bail!(
            "in these pieces the message is another than in one, which is a fault of Lily:\n{message:?}\n{whole:?}"
        );
    }
    let output = if args.stream {
        events.iter().map(|(piece, event)| format!("{}\n", event_json(*piece, event))).collect()
    } else {
        format!("{}\n", message_json(&message, end))
    };
    write_to(Stream::Stdout, &terminal.foreign(Stream::Stdout, &output))?;
    Ok(ExitCode::SUCCESS)
}

impl From<StartChoice> for Start {
    fn from(choice: StartChoice) -> Self {
        match choice {
            StartChoice::Thinking => Self::Thinking,
            StartChoice::Answer => Self::Answer,
            StartChoice::Within => Self::Within,
            StartChoice::Raw => Self::Raw,
        }
    }
}

/// The events, each with the piece that brought it; the end is a piece of its own.
fn stream(pieces: &[&str], start: Start, tools: &[Value], end: End) -> Vec<(usize, Event)> {
    let mut parser = MessageParser::new(start, tools);
    let mut events = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        events.extend(parser.push(piece).into_iter().map(|event| (index, event)));
    }
    events.extend(parser.finish(end).into_iter().map(|event| (pieces.len(), event)));
    events
}

fn event_json(piece: usize, event: &Event) -> serde_json::Value {
    match event {
        Event::Reasoning(text) => json!({"piece": piece, "event": "reasoning", "text": text}),
        Event::Content(text) => json!({"piece": piece, "event": "content", "text": text}),
        Event::CallStart { call, name } => {
            json!({"piece": piece, "event": "call_start", "call": call, "name": name})
        }
        Event::CallArguments { call, json } => {
            json!({"piece": piece, "event": "call_arguments", "call": call, "json": json})
        }
        Event::CallEnd { call } => json!({"piece": piece, "event": "call_end", "call": call}),
        Event::Incomplete(text) => json!({"piece": piece, "event": "incomplete", "text": text}),
    }
}

fn message_json(message: &Message, end: End) -> serde_json::Value {
    let finish_reason = match end {
        End::Cut => "length",
        // As the server says it: half a call is no complete answer.
        End::Stop if message.incomplete.is_some() => "length",
        End::Stop if !message.calls.is_empty() => "tool_calls",
        End::Stop => "stop",
    };
    json!({
        "reasoning_content": message.reasoning,
        "content": message.content,
        "tool_calls": message.calls.iter().map(json::call).collect::<Vec<_>>(),
        "incomplete": message.incomplete,
        "finish_reason": finish_reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_as_asked_for_and_lose_nothing() {
        let pieces = |chunking: &str| Chunking::from_str(chunking).unwrap().pieces("aüb😀cd");
        assert_eq!(pieces("whole"), ["aüb😀cd"]);
        assert_eq!(pieces("2"), ["aü", "b😀", "cd"]);
        assert_eq!(pieces("1,3"), ["a", "üb😀", "c", "d"]);
        assert_eq!(pieces("random:7").concat(), "aüb😀cd");
        for wrong in ["0", "", "x", "1,,2", "random:", "-1"] {
            assert!(Chunking::from_str(wrong).is_err(), "{wrong}");
        }
    }
}
