//! The outcome of a benchmark, as a table or as JSON.

use super::{
    ceiling::Ceilings,
    gpu::Plan,
    ops,
    series::{Series, Shape},
    traffic::Traffic,
};
use crate::{
    printer::write_to,
    terminal::{Stream, Terminal},
};
use anyhow::Result;
use lily_gpu::Switches;
use serde_json::{Value, json};
use std::{fmt::Write, time::Duration};

/// Ceilings that move by more than this during a run make it worthless.
const STEADY: f64 = 0.10;
/// Share of the machine that others may take.
const QUIET: f64 = 0.05;

/// Everything that was measured.
pub(super) struct Report {
    pub(super) model: String,
    pub(super) backend: String,
    pub(super) load: Duration,
    pub(super) first_call: Option<(Shape, Duration)>,
    pub(super) traffic: Traffic,
    /// Before and after, if they were measured.
    pub(super) ceilings: Option<[Ceilings; 2]>,
    /// Share of the machine that other programs used meanwhile.
    pub(super) others: Option<f64>,
    pub(super) series: Vec<Series>,
    /// What could not be measured, and why.
    pub(super) missing: Vec<String>,
    /// What a GPU's plans cost, if it was asked for.
    pub(super) plans: Vec<Plan>,
}

impl Report {
    /// The numbers to stdout, doubts about them to stderr.
    pub(super) fn write(&self, as_json: bool, terminal: &Terminal) -> Result<()> {
        let text = if as_json { format!("{}\n", self.json()) } else { self.table() };
        write_to(Stream::Stdout, &text)?;
        for doubt in self.doubts() {
            let label = terminal.paint(Stream::Stderr, terminal.styles.warning, "warning");
            write_to(Stream::Stderr, &format!("{label}: {doubt}\n"))?;
        }
        Ok(())
    }

    /// GB/s, the mean of before and after.
    fn bandwidth(&self) -> Option<f64> {
        self.ceilings.map(|[before, after]| (before.read_gb_per_s + after.read_gb_per_s) / 2.0)
    }

    /// The most tokens per second that the measured bandwidth allows.
    fn floor(&self, shape: Shape) -> Option<f64> {
        let bytes = match shape {
            Shape::Decode { context, steps } => self.traffic.decode(context + steps / 2) as f64,
            // All weights once for the whole prompt; arithmetic, not bytes, limits long ones.
            Shape::Prefill { tokens } => self.traffic.all_weights as f64 / tokens as f64,
        };
        self.bandwidth().map(|bandwidth| bandwidth * 1e9 / bytes)
    }

    /// What casts doubt on the numbers.
    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if let Some([before, after]) = self.ceilings.map(|both| both.map(|ceilings| ceilings.read_gb_per_s))
            && (after - before).abs() > STEADY * before
        {
            doubts.push(format!(
                "read bandwidth moved from {before:.1} to {after:.1} GB/s during the run: repeat it"
            ));
        }
        if let Some(others) = self.others.filter(|&share| share > QUIET) {
            doubts.push(format!(
                "other programs used {:.0} % of the machine meanwhile: repeat it on a quiet one",
                others * 100.0
            ));
        }
        for series in self.series.iter().filter(|series| series.repeats_itself()) {
            doubts.push(format!(
                "{}: only {} distinct tokens in {} (usual for a trained model on such a prompt; on random weights, \
                 less than 60 in 64 means that it is not the model that ran)",
                series.name(),
                series.distinct.unwrap_or(0),
                series.shape.tokens(),
            ));
        }
        doubts.extend(self.missing.iter().map(|what| format!("not measured: {what}")));
        doubts
    }

    fn table(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_table(&mut out);
        out
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "model        {}", self.model)?;
        writeln!(out, "backend      {}", self.backend)?;
        writeln!(out, "loaded in    {:.0} ms", self.load.as_secs_f64() * 1e3)?;
        if let Some((shape, time)) = self.first_call {
            writeln!(out, "first call   {} in {:.1} ms", shape.name(), time.as_secs_f64() * 1e3)?;
        }
        if let Some([before, after]) = &self.ceilings {
            writeln!(out, "ceilings     {before} before, {after} after")?;
        }
        if let Some(others) = self.others {
            writeln!(out, "others       {:.1} % of the machine", others * 100.0)?;
        }
        writeln!(
            out,
            "a token      {:.2} MB of weights, {:.2} MB of state, {:.2} kB of KV per token of context",
            self.traffic.weights as f64 / 1e6,
            self.traffic.state as f64 / 1e6,
            self.traffic.kv_per_token as f64 / 1e3,
        )?;
        let width = self.series.iter().map(|series| series.name().chars().count()).max().unwrap_or(0);
        for series in &self.series {
            let rates: Vec<String> = series.rates().iter().map(|rate| format!("{rate:.1}")).collect();
            writeln!(out, "{:<1$} rounds: {2} tok/s", series.name(), width.max(12), rates.join(" "))?;
        }
        writeln!(out)?;
        writeln!(
            out,
            "{:<1$}{2:>14}{3:>10}{4:>22}{5:>12}",
            "",
            width.max(15) + 1,
            "median tok/s",
            "spread",
            "byte floor, tok/s",
            "of floor"
        )?;
        for series in &self.series {
            let median = series.median();
            let (floor, share) = match self.floor(series.shape) {
                Some(floor) => (format!("{floor:.0}"), format!("{:.1}%", median / floor * 100.0)),
                None => ("-".to_owned(), "-".to_owned()),
            };
            let (name, spread, width) = (series.name(), series.spread() * 100.0, width.max(15) + 1);
            writeln!(out, "{name:<width$}{median:>14.1}{spread:>9.1}%{floor:>22}{share:>12}")?;
        }
        for plan in &self.plans {
            write!(out, "\n{plan}")?;
        }
        for series in &self.series {
            if let Some(profile) = &series.profile {
                write!(out, "\n{}", ops::table(&series.name(), profile, self.bandwidth()))?;
            }
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let is_on = |one| Switches::default().has(one);
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let series = self.series.iter().map(|series| {
            let (kind, tokens, context) = match series.shape {
                Shape::Prefill { tokens } => ("prefill", tokens, 0),
                Shape::Decode { context, steps } => ("decode", steps, context),
            };
            let (slowest, fastest) = series.range();
            json!({
                "kind": kind,
                "tokens": tokens,
                "context": context,
                "without": series.without.filter(|&one| is_on(one)).map(|one| one.name()),
                "with": series.without.filter(|&one| !is_on(one)).map(|one| one.name()),
                "sampled": series.sampled,
                "rounds_ms": series.rounds.iter().copied().map(milliseconds).collect::<Vec<_>>(),
                "tokens_per_second": series.rates(),
                "median": series.median(),
                "min": slowest,
                "max": fastest,
                "spread": series.spread(),
                "floor": self.floor(series.shape),
                "distinct_tokens": series.distinct,
                "ops": series.profile.as_ref().map(ops::json),
            })
        });
        json!({
            "model": self.model,
            "version": env!("CARGO_PKG_VERSION"),
            "backend": self.backend,
            "load_ms": milliseconds(self.load),
            "first_call": self.first_call.map(|(shape, time)| json!({"shape": shape.name(), "ms": milliseconds(time)})),
            "read_gb_per_s": self.ceilings.map(|[before, after]| {
                json!({"before": before.read_gb_per_s, "after": after.read_gb_per_s})
            }),
            "others_share": self.others,
            "bytes": {
                "weights_per_token": self.traffic.weights,
                "state_per_token": self.traffic.state,
                "kv_per_token_of_context": self.traffic.kv_per_token,
                "all_weights": self.traffic.all_weights,
            },
            "series": series.collect::<Vec<_>>(),
            "plans": self.plans.iter().map(Plan::json).collect::<Vec<_>>(),
            "doubts": self.doubts(),
        })
    }
}
