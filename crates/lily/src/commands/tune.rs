//! `lily tune`: the launch shapes of the GPU path measured on this machine, the fastest kept for later runs.

use crate::{
    backend::{self, Profiled, Visitor},
    cli::GlobalOptions,
    failure::Advice,
    model::ModelSource,
    printer::write_to,
    terminal::{Stream, Terminal},
};
use anyhow::{Context, Result};
use clap::Args;
use lily_gpu::{
    GpuModel, Pass,
    shapes::{Slot, Tuned},
    tune::{self, DeviceClock, Options, SlotReport, Verdict},
};
use std::{fmt::Write, path::PathBuf, process::ExitCode, time::Duration};

const LONG: &str = "\
Measure the GPU path's launch shapes on this machine and keep the fastest.

How a kernel's work is cut into threadgroups depends on the chip. Lily starts from a table; this measures the \
alternatives, one shape after the other, by the time of a whole decode step or prefill chunk, in turns with the best so \
far. An alternative must compute what the table's shape computes, and wins only by more than --margin and than what the \
rounds scatter. The winners are kept in the cache folder for this device, driver, model size and version of the kernels; \
later runs read them and say so. LILY_TUNED=off ignores them.";

/// Measure launch shapes on this GPU and keep the fastest
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct TuneArgs {
    /// Only this shape (repeatable) [default: all]
    #[arg(long, value_name = "SHAPE")]
    only: Vec<Slot>,

    /// Forget everything that was measured before, and measure nothing
    #[arg(long, conflicts_with_all = ["only", "dry_run"])]
    reset: bool,

    /// Measure, but keep nothing
    #[arg(long)]
    dry_run: bool,

    /// Stop trying after so many seconds
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    time: u64,

    /// Rounds per alternative
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u16).range(3..=1000))]
    rounds: u16,

    /// How much faster an alternative must be to win, in percent
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT", allow_negative_numbers = true, value_parser = percent)]
    margin: f64,

    /// Context in which decode steps are timed, in tokens
    #[arg(long = "at", default_value_t = 4096, value_name = "TOKENS")]
    at: usize,
}

fn percent(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|value: &f64| (0.0..100.0).contains(value));
    found.ok_or_else(|| "a number from 0 to below 100 is needed".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &TuneArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    let folder = Tuned::default_folder();
    if args.reset {
        return reset(folder);
    }
    let source = ModelSource::locate(options.model.as_deref())?;
    let checkpoint = crate::load::open(&source, options)?;
    let tuner = Tuner { args, terminal, folder };
    backend::visit(options, &checkpoint, tuner)??;
    Ok(ExitCode::SUCCESS)
}

fn reset(folder: Option<PathBuf>) -> Result<ExitCode> {
    let removed = match folder {
        Some(folder) => Tuned::remove_all(&folder).context("cannot forget all that was measured")?,
        None => Vec::new(),
    };
    let mut text = String::new();
    for path in &removed {
        writeln!(text, "removed {}", path.display())?;
    }
    if removed.is_empty() {
        text.push_str("nothing was measured before\n");
    }
    write_to(Stream::Stdout, &text)?;
    Ok(ExitCode::SUCCESS)
}

struct Tuner<'a> {
    args: &'a TuneArgs,
    terminal: &'a Terminal,
    folder: Option<PathBuf>,
}

impl Visitor for Tuner<'_> {
    type Output = Result<()>;

    fn visit<B: Profiled>(self, mut backend: B) -> Result<()> {
        let description = backend.describe();
        let Some(gpu) = backend.gpu() else {
            let hint = "name a GPU: lily --backend cuda tune";
            return Err(Advice::usage("this backend has no launch shapes to measure", hint).into());
        };
        let model = gpu.model();
        let out = |text: &str| write_to(Stream::Stdout, &self.terminal.foreign(Stream::Stdout, text));
        out(&format!("{description}\nlaunch shapes of the table for {}\n\n", model.chip()))?;
        let mut measured = Vec::new();
        let mut tuned = self.measure(model, &mut |report| {
            if report.tried.iter().all(|tried| tried.verdict != Verdict::NotTried) {
                measured.push(report.slot);
            }
            out(&table(report))
        })?;
        // Slots that were not measured, or not to their end, keep what they had.
        let earlier = self.folder.as_ref().map(|folder| Tuned::load(folder, &*model.device, &model.config));
        if let Some(Ok(Some(earlier))) = &earlier {
            tuned = tuned.over(earlier, &measured);
        }
        let text = match (&self.folder, tuned.winners.len()) {
            _ if self.args.dry_run => "kept nothing (--dry-run)\n".to_owned(),
            (Some(folder), count) => {
                let path = tuned
                    .store(folder, &*model.device, &model.config)
                    .with_context(|| format!("cannot keep the shapes in {}", folder.display()))?;
                match count {
                    0 => "the table's shapes are the fastest; nothing to keep\n".to_owned(),
                    _ => format!("kept {count} shapes in {}\n", path.display()),
                }
            }
            (None, 0) => "the table's shapes are the fastest; nothing to keep\n".to_owned(),
            (None, _) => "kept nothing: there is no cache folder (set LILY_CACHE_DIR)\n".to_owned(),
        };
        out(&text)
    }
}

impl Tuner<'_> {
    fn measure(&self, model: &GpuModel, told: &mut dyn FnMut(&SlotReport) -> Result<()>) -> Result<Tuned> {
        let args = self.args;
        let options = Options {
            slots: if args.only.is_empty() { Slot::ALL.to_vec() } else { args.only.clone() },
            context: args.at,
            rounds: usize::from(args.rounds),
            margin: args.margin / 100.0,
            time: Duration::from_secs(args.time),
            ..Options::default()
        };
        let mut failed = Ok(());
        let mut clock = DeviceClock::new(Pass::default());
        let tuned = tune::tune(model, &options, &mut clock, &mut |report| {
            if failed.is_ok() {
                failed = told(report);
            }
        })?;
        failed.map(|()| tuned)
    }
}

/// A slot's candidates, one a line.
fn table(report: &SlotReport) -> String {
    let mut text = format!("{}\n", report.slot);
    for tried in &report.tried {
        let time = if tried.median.is_zero() {
            format!("{:>22}", "")
        } else {
            format!("{:>10.1} us ± {:>4.1} %", tried.median.as_secs_f64() * 1e6, 100.0 * tried.spread)
        };
        let verdict = match &tried.verdict {
            Verdict::Start => "the table's".to_owned(),
            Verdict::Faster => "faster".to_owned(),
            Verdict::NotFaster => "not faster".to_owned(),
            Verdict::Differs(distance) => format!("refused: its logits differ by {distance:.1e}"),
            Verdict::Failed(error) => format!("refused: {error}"),
            Verdict::Same => "changes nothing here".to_owned(),
            Verdict::NotTried => "not tried: the time was up".to_owned(),
        };
        let mark = if tried.values == report.winner { '*' } else { ' ' };
        let values = report.slot.describe(&tried.values);
        // A String takes every write.
        let _ = writeln!(text, "{mark} {values:<46}{time}  {verdict}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_the_winner() {
        let tried = |values: &[usize], micros, verdict| tune::Tried {
            values: values.to_vec(),
            median: Duration::from_micros(micros),
            spread: 0.004,
            verdict,
        };
        let report = SlotReport {
            slot: Slot::Gdn,
            tried: vec![
                tried(&[8, 2], 820, Verdict::Start),
                tried(&[4, 4], 790, Verdict::Faster),
                tried(&[8, 4], 0, Verdict::Differs(0.25)),
            ],
            winner: vec![4, 4],
        };
        let text = table(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "gdn-step");
        assert!(
            lines[1].starts_with("  simdgroups=8 columns=2")
                && lines[1].ends_with("820.0 us ±  0.4 %  the table's")
        );
        assert!(lines[2].starts_with("* simdgroups=4 columns=4") && lines[2].ends_with("faster"));
        assert!(lines[3].ends_with("refused: its logits differ by 2.5e-1"), "{}", lines[3]);
    }

    #[test]
    fn percents() {
        assert_eq!(percent("2.5"), Ok(2.5));
        assert!(percent("100").is_err() && percent("-1").is_err() && percent("x").is_err());
    }
}
