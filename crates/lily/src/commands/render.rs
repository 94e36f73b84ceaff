//! `lily render`: the exact prompt that a request becomes.

use crate::{
    cli::{GlobalOptions, Switch},
    model::ModelSource,
    printer::write_to,
    prompt, request_file,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

const LONG: &str = "\
Show the exact prompt that a request becomes, and its token ids.

The request is JSON as a client would send it: {\"messages\": [...], \"tools\": [...], \"chat_template_kwargs\": {...}}, or \
the messages alone. Only the tokenizer and the chat template are read: the folder needs no weights. A refusal by the \
template is shown in its own words.";

/// Show the exact prompt and token ids of a request
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct RenderArgs {
    /// The request, a JSON file
    #[arg(default_value = "-")]
    request: String,

    /// Write the token ids, separated by spaces, instead of the text
    #[arg(long, conflicts_with = "json")]
    ids: bool,

    /// Write one JSON object: prompt and token_ids
    #[arg(long)]
    json: bool,

    /// Whether the model is to think before it answers [default: the request's, or the template's]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    think: Option<Switch>,

    /// End after the last message, without the head of the answer
    #[arg(long)]
    no_generation_prompt: bool,
}

/// Runs the command.
pub(crate) fn run(args: &RenderArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    let model = ModelSource::locate(options.model.as_deref())?.text()?;
    let mut request = request_file::read(&args.request)?;
    request_file::set_thinking(&mut request, args.think.map(Switch::is_on));
    request.add_generation_prompt &= !args.no_generation_prompt;
    let prompt = prompt::render(&model, &request)?;
    let output = if args.json {
        let object = json!({ "prompt": prompt.text, "token_ids": prompt.tokens });
        format!("{}\n", serde_json::to_string(&object)?)
    } else if args.ids {
        let ids: Vec<String> = prompt.tokens.iter().map(|id| id.0.to_string()).collect();
        format!("{}\n", ids.join(" "))
    } else {
        terminal.foreign(Stream::Stdout, &prompt.text).into_owned()
    };
    write_to(Stream::Stdout, &output)?;
    Ok(ExitCode::SUCCESS)
}
