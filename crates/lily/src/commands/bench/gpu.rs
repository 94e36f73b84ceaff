//! What only a GPU's benchmark tells: switches, ablations, plans.

use super::{BenchArgs, measure::Bench, series::Series};
use crate::{backend::Profiled, failure::Advice};
use anyhow::Result;
use lily_gpu::{GpuBackend, OpTime, Optimisation, Phase, PlanReport, Switches};
use serde_json::{Value, json};
use std::fmt;

/// A plan's cost as recorded, and its time operation by operation if that was asked for.
pub(super) struct Plan {
    name: String,
    report: PlanReport,
    /// Recorded launches, levels and bytes are to be told.
    explain: bool,
    ops: Option<Vec<OpTime>>,
    /// Optimisations whose switch changes nothing here.
    idle: Vec<Optimisation>,
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

/// Every shape again, without each optimisation of its phase in turn. Where a switch changes nothing there is nothing to
/// measure; a shape that cannot be computed without one is named in the second list.
pub(super) fn ablate<B: Profiled>(
    bench: &mut Bench<B>,
    args: &BenchArgs,
    prefill: &[usize],
    decode: &[usize],
) -> Result<(Vec<Series>, Vec<String>)> {
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for one in Optimisation::ALL.into_iter().filter(|one| !args.without.contains(one)) {
        let lengths = if one.phase() == Phase::Prefill { prefill } else { decode };
        for &length in lengths {
            let Some(gpu) = bench.gpu() else { continue };
            // What a switch changes depends on the others: all rows are compared with the same plan.
            gpu.set_switches(Switches::without(&args.without));
            let idle = match one.phase() {
                Phase::Prefill => idle_in_prefill(gpu, length)?,
                Phase::Decode => gpu.idle_in_decode(length)?,
            };
            if idle.contains(&one) {
                continue;
            }
            // What is off by default is switched on.
            let off = Switches::without(&args.without).has(one).then_some(one);
            let other: Vec<Optimisation> = args.without.iter().copied().chain(off).collect();
            let switches = Switches::without(&other);
            gpu.set_switches(if off.is_some() { switches } else { switches.and_with(one) });
            bench.without = Some(one);
            let measured = match one.phase() {
                Phase::Prefill => bench.prefill(length),
                Phase::Decode => bench.decode(length, args.steps, None),
            };
            match measured {
                Ok(series) => rows.push(series),
                Err(error) => missing.push(format!("{:?} {length} without {one}: {error:#}", one.phase())),
            }
        }
    }
    bench.without = None;
    if let Some(gpu) = bench.gpu() {
        gpu.set_switches(Switches::without(&args.without));
    }
    Ok((rows, missing))
}

/// Of the last chunk of a prompt: it has the most before it.
fn idle_in_prefill(gpu: &mut GpuBackend, tokens: usize) -> Result<Vec<Optimisation>> {
    let (rows, position) = last_chunk(gpu, tokens);
    Ok(gpu.idle_in_prefill(rows, position)?)
}

/// Rows and position of a prompt's last chunk.
fn last_chunk(gpu: &GpuBackend, tokens: usize) -> (usize, usize) {
    let rows = (tokens - 1) % lily_engine::Backend::prefill_chunk(gpu) + 1;
    (rows, tokens - rows)
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
        let (rows, position) = last_chunk(gpu, tokens);
        let ops = if args.ops { gpu.profile_prefill(rows, position)? } else { None };
        let name = format!("prefill of {rows} after {position}");
        let (report, idle) = (gpu.explain_prefill(rows, position)?, gpu.idle_in_prefill(rows, position)?);
        plans.push(Plan { name, report, explain: args.explain, ops, idle });
    }
    for &context in decode {
        let ops = if args.ops { gpu.profile_decode(context)? } else { None };
        let name = format!("a token after {context}");
        let (report, idle) = (gpu.explain_decode(context)?, gpu.idle_in_decode(context)?);
        plans.push(Plan { name, report, explain: args.explain, ops, idle });
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
            "switches_without_effect": self.idle.iter().map(|one| one.name()).collect::<Vec<_>>(),
            "ops": ops.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.explain {
            writeln!(f, "{}\n{}", self.name, self.report)?;
            let idle: Vec<&str> = self.idle.iter().map(|one| one.name()).collect();
            if !idle.is_empty() {
                writeln!(f, "switches that change nothing here: {}", idle.join(", "))?;
            }
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
