//! `lily eval`: how close a backend comes to a reference, and perplexity of a text.

use crate::{
    backend::{self, Profiled, Visitor},
    cli::GlobalOptions,
    failure::Advice,
    model::ModelSource,
    printer::write_to,
    request_file,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use clap::{ArgGroup, Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget};
use lily_engine::{
    Backend, LogitsWanted, TokenId,
    evaluation::{self, Feed, ReferenceFile, ReferenceFileError, log_sum_exp},
};
use serde_json::{Value, json};
use std::{path::PathBuf, process::ExitCode};

const LONG: &str = "\
Evaluate the model, teacher-forced.

--reference compares every prediction with those of a trusted implementation, stored in a file (docs/evaluation.md \
describes it): perplexity, Kullback-Leibler divergence, top-1 agreement. --text measures the perplexity of a text \
alone, cut into windows that each start from an empty state.";

/// Perplexity and agreement with a reference
#[derive(Debug, Args)]
#[command(long_about = LONG, group = ArgGroup::new("what").required(true).args(["reference", "text"]))]
pub(crate) struct EvalArgs {
    /// Reference file to compare with
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,

    /// Text file to measure the perplexity of (`-`: stdin)
    #[arg(long, value_name = "FILE")]
    text: Option<String>,

    /// How tokens reach the model
    #[arg(long, value_enum, default_value_t = FeedChoice::Prefill, value_name = "HOW", conflicts_with = "text")]
    feed: FeedChoice,

    /// Tokens per prefill call [default: the backend's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: Option<u32>,

    /// Tokens per window of --text
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    window: u32,

    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// The ways to feed tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FeedChoice {
    /// Many at once
    Prefill,
    /// One by one, as an answer is made
    Decode,
}

/// Runs the command.
pub(crate) fn run(args: &EvalArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    let source = ModelSource::locate(options.model.as_deref())?;
    let task = match (&args.reference, &args.text) {
        (Some(path), _) => {
            let file = ReferenceFile::read(path).map_err(|error| match error {
                // It names the file itself.
                ReferenceFileError::Io { .. } => anyhow::Error::new(error),
                _ => anyhow::Error::new(error).context(path.display().to_string()),
            })?;
            Task::Reference(Box::new(file))
        }
        (None, Some(path)) => {
            let tokens = source.text()?.tokenizer.encode_plain(&request_file::read_text(path)?);
            if tokens.len() < 2 {
                return Err(Advice::new(
                    "the text has fewer than two tokens",
                    "there must be something to predict",
                )
                .into());
            }
            Task::Text(tokens)
        }
        // The argument group rules this out.
        (None, None) => return Err(Advice::usage("nothing to evaluate", "name --reference or --text").into()),
    };
    let checkpoint = crate::load::open(&source, options)?;
    let runner = Runner { args, task, model: source.name(), terminal };
    let (table, object) = backend::visit(options, &checkpoint, runner)??;
    write_to(Stream::Stdout, &if args.json { format!("{object}\n") } else { format!("{table}\n") })?;
    Ok(ExitCode::SUCCESS)
}

enum Task {
    Reference(Box<ReferenceFile>),
    Text(Vec<TokenId>),
}

struct Runner<'a> {
    args: &'a EvalArgs,
    task: Task,
    model: String,
    terminal: &'a Terminal,
}

impl Visitor for Runner<'_> {
    /// The outcome for people, and the same as JSON.
    type Output = Result<(String, Value)>;

    fn visit<B: Profiled>(self, mut backend: B) -> Self::Output {
        let target = match self.terminal.shows_progress() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let progress = |done: usize, total: usize| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        };
        let chunk = self.args.chunk.map_or(backend.prefill_chunk(), |chunk| chunk as usize).max(1);
        let described = backend.describe();
        let (table, mut object) = match &self.task {
            Task::Reference(file) => {
                let feed = match self.args.feed {
                    FeedChoice::Prefill => Feed::Prefill(chunk),
                    FeedChoice::Decode => Feed::Decode,
                };
                let report = evaluation::evaluate(&mut backend, file, feed, progress)?;
                (report.to_string(), serde_json::to_value(&report)?)
            }
            Task::Text(tokens) => {
                let window = (self.args.window as usize).min(backend.max_context());
                let likelihood = text_likelihood(&mut backend, tokens, window, chunk, progress)?;
                (likelihood.table(), likelihood.json())
            }
        };
        bar.finish_and_clear();
        if let Value::Object(fields) = &mut object {
            fields.insert("model".to_owned(), json!(self.model));
            fields.insert("backend".to_owned(), json!(described));
        }
        Ok((
            format!("model                {}\nbackend              {described}\n{table}", self.model),
            object,
        ))
    }
}

/// Negative log-likelihood of a text's tokens.
struct Likelihood {
    predicted: usize,
    mean: f64,
    /// Of the mean.
    standard_error: f64,
    windows: usize,
}

impl Likelihood {
    fn perplexity(&self) -> f64 {
        self.mean.exp()
    }

    fn table(&self) -> String {
        format!(
            "perplexity           {:.4} ± {:.4}\nmean nll             {:.5} ± {:.5} nats\npredicted            {} tokens in {} windows",
            self.perplexity(),
            self.perplexity() * self.standard_error,
            self.mean,
            self.standard_error,
            self.predicted,
            self.windows,
        )
    }

    fn json(&self) -> Value {
        json!({
            "perplexity": self.perplexity(),
            "perplexity_standard_error": self.perplexity() * self.standard_error,
            "mean_nll": self.mean,
            "nll_standard_error": self.standard_error,
            "predicted_tokens": self.predicted,
            "windows": self.windows,
        })
    }
}

/// Every token but the first of each window is predicted from those before it in the window.
fn text_likelihood<B: Backend>(
    backend: &mut B,
    tokens: &[TokenId],
    window: usize,
    chunk: usize,
    mut progress: impl FnMut(usize, usize),
) -> Result<Likelihood> {
    let chunk = chunk.min(backend.prefill_chunk().max(1));
    let mut nll = Vec::with_capacity(tokens.len());
    let mut windows = 0;
    for (index, window_tokens) in tokens.chunks(window.max(2)).enumerate() {
        // The last token predicts nothing; a window of one token has nothing to predict.
        let (Some((_, inputs)), targets) = (window_tokens.split_last(), &window_tokens[1..]) else {
            continue;
        };
        windows += usize::from(!targets.is_empty());
        let mut state = backend.new_state()?;
        for (part, inputs) in inputs.chunks(chunk).enumerate() {
            let targets = &targets[part * chunk..];
            let mut each = |at: usize, logits: &[f32]| {
                nll.push(log_sum_exp(logits) - f64::from(logits[targets[at].0 as usize]));
            };
            backend.prefill(&mut state, inputs, LogitsWanted::Each(&mut each))?;
            progress(index * window + part * chunk + inputs.len(), tokens.len());
        }
    }
    let count = nll.len() as f64;
    let mean = nll.iter().sum::<f64>() / count;
    let variance = nll.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    Ok(Likelihood { predicted: nll.len(), mean, standard_error: (variance / count).sqrt(), windows })
}
