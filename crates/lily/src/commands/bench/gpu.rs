//! What only a GPU's benchmark tells: switches, ablations, plans.

use super::{BenchArgs, measure::Bench, series::Series};
use crate::{backend::Profiled, failure::Advice};
use anyhow::Result;
use lily_gpu::{OpTime, Optimisation, Phase, PlanReport, Switches};
use serde_json::{Value, json};
use std::fmt;

/// A plan's cost as recorded, and its time operation by operation if that was asked for.
pub(super) struct Plan {
    name: String,
    report: PlanReport,
    /// Recorded launches, levels and bytes are to be told.
    explain: bool,
    ops: Option<Vec<OpTime>>,
}

/// Switches off what `--without` names.
pub(super) fn switch<B: Profiled>(backend: &mut B, args: &BenchArgs) -> Result<()> {
    let wanted = if args.ablate {
        "--ablate"
    } else if args.explain {
        "--explain"
    } else if !args.without.is_empty() {
        "--without"
    } else {
        return Ok(());
    };
    match backend.gpu() {
        Some(gpu) => {
            gpu.set_switches(Switches::without(&args.without));
            Ok(())
        }
        None => Err(Advice::usage(format!("{wanted} is for GPUs"), "see --backend").into()),
    }
}

/// Every shape again, without each optimisation of its phase in turn.
pub(super) fn ablate<B: Profiled>(
    bench: &mut Bench<B>,
    args: &BenchArgs,
    prefill: &[usize],
    decode: &[usize],
) -> Result<Vec<Series>> {
    let mut rows = Vec::new();
    for one in Optimisation::ALL.into_iter().filter(|one| !args.without.contains(one)) {
        let off: Vec<Optimisation> = args.without.iter().copied().chain([one]).collect();
        if let Some(gpu) = bench.gpu() {
            gpu.set_switches(Switches::without(&off));
        }
        bench.without = Some(one);
        match one.phase() {
            Phase::Prefill => {
                for &tokens in prefill {
                    rows.push(bench.prefill(tokens)?);
                }
            }
            Phase::Decode => {
                for &context in decode {
                    rows.push(bench.decode(context, args.steps)?);
                }
            }
        }
    }
    bench.without = None;
    if let Some(gpu) = bench.gpu() {
        gpu.set_switches(Switches::without(&args.without));
    }
    Ok(rows)
}

/// The plans of all shapes, if they are to be explained or profiled.
pub(super) fn plans<B: Profiled>(
    bench: &mut Bench<B>,
    args: &BenchArgs,
    prefill: &[usize],
    decode: &[usize],
) -> Result<Vec<Plan>> {
    let Some(gpu) = bench.gpu() else { return Ok(Vec::new()) };
    if !args.explain && !args.ops {
        return Ok(Vec::new());
    }
    let mut plans = Vec::new();
    for &tokens in prefill {
        // The last chunk: it has the most before it.
        let rows = (tokens - 1) % lily_engine::Backend::prefill_chunk(gpu) + 1;
        let position = tokens - rows;
        let ops = if args.ops { gpu.profile_prefill(rows, position)? } else { None };
        let name = format!("prefill of {rows} after {position}");
        plans.push(Plan { name, report: gpu.explain_prefill(rows, position)?, explain: args.explain, ops });
    }
    for &context in decode {
        let ops = if args.ops { gpu.profile_decode(context)? } else { None };
        let name = format!("a token after {context}");
        plans.push(Plan { name, report: gpu.explain_decode(context)?, explain: args.explain, ops });
    }
    Ok(plans)
}

impl Plan {
    pub(super) fn json(&self) -> Value {
        let ops = self.ops.iter().flatten().map(|op| {
            json!({
                "operation": op.label,
                "launches": op.launches,
                "us": op.time.as_secs_f64() * 1e6,
                "bytes": op.bytes,
            })
        });
        json!({
            "plan": self.name,
            "launches": self.report.launches,
            "levels": self.report.levels,
            "bytes_read": self.report.read,
            "bytes_written": self.report.written,
            "ops": ops.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.explain {
            writeln!(f, "{}\n{}", self.name, self.report)?;
        }
        let Some(ops) = &self.ops else { return Ok(()) };
        let sum: f64 = ops.iter().map(|op| op.time.as_secs_f64()).sum();
        writeln!(f, "{}, each launch alone", self.name)?;
        writeln!(
            f,
            "{:<28}{:>9}{:>12}{:>8}{:>12}{:>10}",
            "operation", "launches", "us", "share", "MB", "GB/s"
        )?;
        for OpTime { label, launches, time, bytes } in ops {
            let seconds = time.as_secs_f64().max(1e-12);
            writeln!(
                f,
                "{label:<28}{launches:>9}{:>12.1}{:>7.1}%{:>12.2}{:>10.0}",
                seconds * 1e6,
                seconds / sum * 100.0,
                *bytes as f64 / 1e6,
                *bytes as f64 / 1e9 / seconds
            )?;
        }
        writeln!(f, "{:<28}{:>9}{:>12.1}", "sum", "", sum * 1e6)
    }
}
