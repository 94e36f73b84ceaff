//! `lily run`: one prompt, one answer.

use crate::{
    answer::{self, Answer, End},
    cli::{GlobalOptions, Switch},
    failure::Advice,
    json,
    load::{self, Loaded},
    printer::{Printer, write_to},
    prompt::{self, PromptTokens},
    request_file,
    sampling::SamplingArgs,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use clap::Args;
use lily_engine::{EngineOptions, FinishReason};
use lily_text::{
    RenderRequest,
    parser::{MessageParser, Start},
};
use serde_json::json;
use std::{process::ExitCode, time::Duration};

const LONG: &str = "\
Answer one prompt.

The prompt is the argument, or stdin without one. With both, stdin (if it is not a terminal) follows the argument after \
an empty line: `git diff | lily run \"Summarise this change:\"`.

stdout gets the answer as it is made, and nothing else; the model's thinking shows on stderr if that is a terminal. A call \
of a tool is a line of JSON on stdout, {\"name\": ..., \"arguments\": {...}}: Lily runs no tools itself.";

/// Answer one prompt
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct RunArgs {
    /// The prompt; several words are joined
    prompt: Vec<String>,

    /// System message
    #[arg(short, long, value_name = "TEXT", conflicts_with_all = ["raw", "messages"])]
    system: Option<String>,

    /// Take the whole conversation from a JSON file (`-`: stdin), as `lily render` does
    #[arg(long, value_name = "FILE", conflicts_with_all = ["raw", "prompt"])]
    messages: Option<String>,

    /// Tool definitions the model may call: a JSON file
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    tools: Option<String>,

    /// Continue the text as it is: no chat template, control tokens are read as such, thinking is not told apart
    #[arg(long)]
    raw: bool,

    /// Whether the model thinks before it answers [default: the chat template's]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true, conflicts_with = "raw")]
    think: Option<Switch>,

    /// Write one JSON object (text, reasoning, tool_calls, finish_reason, usage, timings) instead of the text
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    sampling: SamplingArgs,
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    // Bad input is told before a model is loaded.
    let input = Input::read(args, terminal)?;
    let engine = EngineOptions { max_running: 1, snapshot_budget: 0, ..EngineOptions::default() };
    let model = load::load(options, engine, terminal)?;
    let prompt = input.prompt(&model)?;
    let mut request = model.request(prompt.tokens, args.sampling.apply(model.defaults.clone()));
    request.max_tokens = args.sampling.max_tokens();
    request.stop.clone_from(&args.sampling.stop);

    let mut printer = Printer::new(terminal);
    let answer = answer::generate(&model.engine, request, prompt.parser, None, |piece| {
        if args.json { Ok(()) } else { printer.show(&piece) }
    });
    printer.finish()?;
    let answer = answer?;
    if args.json {
        let object = serde_json::to_string(&report(&model, &answer))?;
        write_to(Stream::Stdout, &format!("{object}\n"))?;
    } else {
        warn_if_cut(&answer, terminal)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What there is to answer.
enum Input {
    Raw(String),
    Chat(RenderRequest),
}

impl Input {
    fn read(args: &RunArgs, terminal: &Terminal) -> Result<Self> {
        let mut request = match &args.messages {
            Some(path) => {
                let request = request_file::read(path)?;
                request_file::check_tools(if path == "-" { "stdin" } else { path }, &request.tools)?;
                request
            }
            None => {
                let text = prompt_text(&args.prompt, terminal)?;
                if args.raw {
                    return Ok(Self::Raw(text));
                }
                let system = args.system.as_deref().map(|text| json::message("system", text));
                let messages = system.into_iter().chain([json::message("user", &text)]).collect();
                RenderRequest { messages, add_generation_prompt: true, ..RenderRequest::default() }
            }
        };
        if let Some(path) = &args.tools {
            request.tools.extend(request_file::read_tools(path)?);
        }
        request_file::set_thinking(&mut request, args.think.map(Switch::is_on));
        Ok(Self::Chat(request))
    }

    fn prompt(&self, model: &Loaded) -> Result<PromptTokens> {
        match self {
            Self::Chat(request) => prompt::render(&model.text, request),
            Self::Raw(text) => Ok(PromptTokens {
                text: text.clone(),
                tokens: model.text.tokenizer.encode(text),
                turn_end: None,
                parser: MessageParser::new(Start::Raw, &[]),
            }),
        }
    }
}

fn prompt_text(words: &[String], terminal: &Terminal) -> Result<String> {
    let argument = words.join(" ");
    let piped = if terminal.stdin { String::new() } else { request_file::read_text("-")? };
    let piped = piped.trim_end_matches(['\n', '\r']);
    let text = match (argument.is_empty(), piped.is_empty()) {
        (false, false) => format!("{argument}\n\n{piped}"),
        (false, true) => argument,
        (true, _) => piped.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(
            Advice::usage("there is no prompt", "lily run \"Hello\", or echo Hello | lily run").into()
        );
    }
    Ok(text)
}

fn warn_if_cut(answer: &Answer, terminal: &Terminal) -> Result<()> {
    if answer.incomplete.is_some() && answer.end != End::Finished(FinishReason::Length) {
        let label = terminal.paint(Stream::Stderr, terminal.styles.warning, "warning");
        return write_to(Stream::Stderr, &format!("{label}: the model stopped in the head of a tool call\n"));
    }
    if answer.end != End::Finished(FinishReason::Length) {
        return Ok(());
    }
    let label = terminal.paint(Stream::Stderr, terminal.styles.warning, "warning");
    let (tokens, thinking) =
        (answer.usage.completion_tokens, answer.text.is_empty() && !answer.reasoning.is_empty());
    let what = if thinking { ", while the model was still thinking" } else { "" };
    write_to(Stream::Stderr, &format!("{label}: the answer was cut after {tokens} tokens{what}\n"))?;
    if thinking {
        let label = terminal.paint(Stream::Stderr, terminal.styles.hint, "hint");
        write_to(Stream::Stderr, &format!("{label}: raise --max-tokens or --context, or use --think off\n"))?;
    }
    Ok(())
}

/// The machine-readable outcome.
fn report(model: &Loaded, answer: &Answer) -> serde_json::Value {
    let usage = &answer.usage;
    let milliseconds = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    let rate = |tokens: usize, time: Duration| {
        let seconds = time.as_secs_f64();
        (tokens > 0 && seconds > 0.0).then(|| (tokens as f64 / seconds * 10.0).round() / 10.0)
    };
    json!({
        "model": model.name,
        "text": answer.text,
        "reasoning": answer.reasoning,
        "tool_calls": answer.calls.iter().map(json::call).collect::<Vec<_>>(),
        "finish_reason": answer.finish_reason(),
        "stop": answer.stop,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
        "timings": {
            "load_ms": milliseconds(model.took),
            "prefill_ms": milliseconds(usage.prefill),
            "time_to_first_token_ms": answer.time_to_first_token.map(milliseconds),
            "decode_ms": milliseconds(usage.decode),
            "total_ms": milliseconds(answer.total),
            "prefill_tokens_per_second": rate(usage.prompt_tokens.saturating_sub(usage.cached_tokens), usage.prefill),
            "decode_tokens_per_second": rate(usage.completion_tokens.saturating_sub(1), usage.decode),
        },
    })
}
