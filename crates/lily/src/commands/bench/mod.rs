//! `lily bench`: prefill and decode speed of a backend, measured so that it can be believed.
//!
//! A fresh process; warm-ups at the exact shape before each series, the very first call told apart; greedy decoding; a
//! fixed prompt; every round in the output; the machine's ceilings measured in the same run, before and after.

mod ceiling;
mod gpu;
mod measure;
mod ops;
mod others;
mod report;
mod series;
mod traffic;

use crate::{
    backend::{self, Profiled, Visitor},
    cli::GlobalOptions,
    failure::Advice,
    model::ModelSource,
    progress,
    terminal::Terminal,
};
use anyhow::Result;
use clap::Args;
use lily_checkpoint::Checkpoint;
use lily_engine::SamplingParams;
use lily_gpu::{GpuBackend, Optimisation};
use measure::Bench;
use report::Report;
use std::{process::ExitCode, time::Instant};
use traffic::Traffic;

const LONG: &str = "\
Measure prefill and decode speed.

Prefill: tokens per second over a prompt of each given length, from an empty state to the logits of its last token. \
Decode: tokens per second over --steps greedy tokens after a context of each given length. Token i of the prompt is \
(i * 2654435761 mod 2^32) mod vocabulary. Each shape is warmed up first; the very first call is reported apart; every \
round is printed, then median and spread. Beside each median stands the floor: what the machine's read bandwidth, \
measured in the same run before and after, would allow for the bytes that a token needs.";

/// Measure prefill and decode speed
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct BenchArgs {
    /// Prompt lengths to prefill, separated by commas [default, with neither this nor --decode: 512]
    #[arg(long, value_name = "TOKENS,...", value_delimiter = ',')]
    prefill: Vec<usize>,

    /// Context lengths to decode after, separated by commas [default, with neither this nor --prefill: 128]
    #[arg(long, value_name = "TOKENS,...", value_delimiter = ',')]
    decode: Vec<usize>,

    /// Tokens per decode round
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = at_least_one)]
    steps: usize,

    /// Measured rounds per shape
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one)]
    rounds: usize,

    /// Unmeasured rounds per shape before those
    #[arg(long, default_value_t = 2, value_name = "N")]
    warmups: usize,

    /// After the measured rounds, one more with a profile: time, bytes and speed of every operation
    #[arg(long)]
    ops: bool,

    /// Switch an optimisation of the GPU path off (repeatable)
    #[arg(long, value_name = "NAME")]
    without: Vec<Optimisation>,

    /// Decode once more with the checkpoint's own sampling instead of greedily
    #[arg(long)]
    sampled: bool,

    /// On a GPU: measure each shape also without each of its phase's optimisations in turn
    #[arg(long)]
    ablate: bool,

    /// On a GPU: tell launches, dependency levels and bytes of each shape's plan
    #[arg(long)]
    explain: bool,

    /// Do not measure the machine's bandwidth (1 GiB of memory per thread), and tell no floors
    #[arg(long)]
    no_ceiling: bool,

    /// Write one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&number| number > 0)
        .ok_or_else(|| "a whole number above 0 is needed".to_owned())
}

impl BenchArgs {
    /// Prefill lengths and decode contexts, with the defaults.
    fn shapes(&self) -> Result<(Vec<usize>, Vec<usize>)> {
        if self.prefill.iter().chain(&self.decode).any(|&length| length == 0) {
            return Err(Advice::usage("a length of 0 tokens cannot be measured", "lengths start at 1").into());
        }
        if self.sampled && self.decode.is_empty() && !self.prefill.is_empty() {
            return Err(Advice::usage(
                "--sampled decodes, and no context to decode after is named",
                "add --decode, or leave --prefill away",
            )
            .into());
        }
        let nothing = self.prefill.is_empty() && self.decode.is_empty();
        let or_default = |given: &[usize], default| if nothing { vec![default] } else { given.to_vec() };
        Ok((or_default(&self.prefill, 512), or_default(&self.decode, 128)))
    }
}

/// Runs the command.
pub(crate) fn run(args: &BenchArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    let (prefill, decode) = args.shapes()?;
    let start = Instant::now();
    let source = ModelSource::locate(options.model.as_deref())?;
    let checkpoint = crate::load::open(&source, options)?;
    let runner = Runner {
        args,
        options,
        terminal,
        checkpoint: &checkpoint,
        model: source.name(),
        prefill,
        decode,
        start,
    };
    let report = backend::visit(options, &checkpoint, runner)??;
    report.write(args.json, terminal)?;
    Ok(ExitCode::SUCCESS)
}

struct Runner<'a> {
    args: &'a BenchArgs,
    options: &'a GlobalOptions,
    terminal: &'a Terminal,
    checkpoint: &'a Checkpoint,
    model: String,
    prefill: Vec<usize>,
    decode: Vec<usize>,
    start: Instant,
}

impl Visitor for Runner<'_> {
    type Output = Result<Report>;

    fn visit<B: Profiled>(self, mut backend: B) -> Result<Report> {
        let Self { args, options, terminal, checkpoint, model, prefill, decode, start } = self;
        let loaded = start.elapsed();
        let longest = decode.iter().map(|context| context + args.steps).chain(prefill.iter().copied()).max();
        if let Some(longest) = longest.filter(|&tokens| tokens > backend.max_context()) {
            return Err(Advice::usage(
                format!("{longest} tokens are to be measured; the context holds {}", backend.max_context()),
                "see --context",
            )
            .into());
        }
        gpu::switch(&mut backend, args)?;
        let (machine, description) = (others::Sample::now(), backend.describe());
        let threads = options.threads();
        let measure = |backend: Option<&mut GpuBackend>, message| {
            let measure = || backend.map_or_else(|| ceiling::measure(threads), |gpu| ceiling::of_gpu(gpu));
            (!args.no_ceiling).then(|| progress::spin(terminal, message, measure)).flatten()
        };
        let before = measure(backend.gpu(), "measuring the machine");
        let mut bench = Bench::new(backend, args, terminal);
        let (mut series, mut missing) = (Vec::new(), Vec::new());
        for &tokens in &prefill {
            series.push(bench.prefill(tokens)?);
        }
        for &context in &decode {
            series.push(bench.decode(context, args.steps, None)?);
        }
        if args.sampled {
            let defaults = SamplingParams::from_generation_config(&checkpoint.generation);
            for &context in &decode {
                series.push(bench.decode(context, args.steps, Some(&defaults))?);
            }
        }
        if args.ablate {
            let (rows, failed) = gpu::ablate(&mut bench, args, &prefill, &decode)?;
            series.extend(rows);
            missing = failed;
        }
        let plans = gpu::plans(&mut bench, args, &prefill, &decode)?;
        let after = measure(bench.gpu(), "measuring the machine again");
        Ok(Report {
            model,
            backend: description,
            load: loaded,
            first_call: bench.first_call,
            traffic: Traffic::of(checkpoint, options.precision),
            ceilings: before.zip(after).map(|(before, after)| [before, after]),
            others: machine.others_since(),
            series,
            missing,
            plans,
        })
    }
}
