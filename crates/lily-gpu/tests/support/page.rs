//! The generated part of docs/plans.md.

use super::{FullSize, metal};
use lily_gpu::{
    Command, Recording, StateSize,
    check::{AppleFamily, Plan},
};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Where the generated part begins and ends in the page.
pub(crate) const BEGIN: &str = "<!-- generated: cargo run -p lily-gpu --example plans -- --write -->\n";
pub(crate) const END: &str = "<!-- end of what is generated -->\n";

/// The page.
pub(crate) fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("docs/plans.md")
}

/// Launches and dependency levels of a token in the engine whose figures are the mark.
pub(crate) const MARK: (usize, usize) = (795, 555);
/// What a token may have at most.
pub(crate) const MOST: (usize, usize) = (330, 300);

/// Bytes that no design can do without for a token in such a context: every weight that it meets, once; the recurrent
/// state, read and written; the cache, read. From the checkpoint's headers, not from a plan.
pub(crate) fn floor(full: &FullSize, context: usize) -> u64 {
    let config = &full.checkpoint.config;
    let gdn = &config.gated_delta_net;
    let layers =
        config.layers.iter().filter(|&&kind| kind == lily_checkpoint::LayerKind::GatedDeltaNet).count();
    let state = layers * gdn.value_heads * gdn.value_head_dim * gdn.key_head_dim * 4;
    let cache = StateSize::of(config).kv_per_token * context;
    full.checkpoint.summary().total().active_bytes + (2 * state + cache) as u64
}

/// Everything between the two markers.
pub(crate) fn generate(full: &FullSize) -> String {
    let (plans, _) = metal(&full.checkpoint, AppleFamily::Apple9);
    let mut out = String::from("\n");
    let mut line = |text: String| {
        // A String takes every write.
        let _ = writeln!(out, "{text}");
    };
    line("| plan | launches | levels | read, MB | written, MB | floor, MB | over the floor |".to_owned());
    line("|---|---|---|---|---|---|---|".to_owned());
    let (launches, levels) = MARK;
    line(format!("| a token, the mark | {launches} | {levels} | | | | |"));
    let steps = [4096, 32_768, 131_072].map(|context| (plans.step(context).expect("recorded"), context));
    for (Plan { name, recording, .. }, context) in &steps {
        let (report, floor) = (recording.report(), floor(full, *context) as f64);
        let moved = (report.read + report.written) as f64;
        line(format!(
            "| {name} | {} | {} | {:.1} | {:.1} | {:.1} | {:+.1} % |",
            report.launches,
            report.levels,
            report.read as f64 / 1e6,
            report.written as f64 / 1e6,
            floor / 1e6,
            100.0 * (moved / floor - 1.0)
        ));
    }
    for (rows, at) in [(512, 0), (4096, 0), (4096, 28_672), (4096, 126_976)] {
        let chunks = plans.prompt(rows, at).expect("recorded");
        let reports: Vec<_> = chunks.iter().map(|chunk| chunk.recording.report()).collect();
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        line(format!(
            "| {rows} tokens after {at}{} | {} | {} | {:.1} | {:.1} | | |",
            if chunks.len() > 1 { format!(", in {} chunks", chunks.len()) } else { String::new() },
            reports.iter().map(|report| report.launches).sum::<usize>(),
            reports.iter().map(|report| report.levels).sum::<usize>(),
            megabytes(reports.iter().map(|report| report.read).sum()),
            megabytes(reports.iter().map(|report| report.written).sum())
        ));
    }
    line(String::new());
    line("What the launches of these plans ask at most, by family:".to_owned());
    line(String::new());
    line(
        "| family | chips | threads | threadgroup memory, bytes | parameters, bytes | arguments | operations, 10^9 |"
            .to_owned(),
    );
    line("|---|---|---|---|---|---|---|".to_owned());
    for family in AppleFamily::ALL {
        let (plans, _) = metal(&full.checkpoint, family);
        let recordings = [
            plans.step(4096).expect("recorded").recording,
            plans.step(131_072).expect("recorded").recording,
            plans.chunk(512, 0).expect("recorded").recording,
            plans.chunk(plans.rows(), 0).expect("recorded").recording,
            plans.chunk(plans.rows(), 262_144 - plans.rows()).expect("recorded").recording,
        ];
        let [threads, memory, params, arguments, operations] = most(&recordings);
        line(format!(
            "| {family} | {} | {threads} of {} | {memory} of {} | {params} of {} | {arguments} of {} | {} of {} |",
            family.chips(),
            family.threads(),
            family.threadgroup_memory(),
            family.parameters(),
            family.arguments(),
            operations.div_ceil(1_000_000_000),
            AppleFamily::launch_operations(family.smallest().cores) / 1_000_000_000
        ));
    }
    let chunk = plans.chunk(plans.rows(), 0).expect("recorded");
    for Plan { name, recording, .. } in [&steps[0].0, &steps[2].0, &chunk] {
        line(format!("\n**{name}**, by operation:\n\n```text\n{}\n```", recording.report()));
    }
    out.push('\n');
    out
}

/// The largest threads, threadgroup memory, parameters, arguments and operations of any launch.
fn most(recordings: &[Recording]) -> [u64; 5] {
    let mut most = [0; 5];
    for recording in recordings {
        for command in recording.commands() {
            let Command::Dispatch(dispatch) = command else { continue };
            let signature = dispatch.kernel.signature();
            let found = [
                u64::from(signature.threads),
                u64::from(signature.threadgroup_memory.unwrap_or(0)),
                dispatch.params.len() as u64,
                dispatch.bindings.len() as u64 + u64::from(signature.params.is_some()),
                dispatch.operations,
            ];
            most = std::array::from_fn(|at| most[at].max(found[at]));
        }
    }
    most
}

/// A page with its generated part replaced.
pub(crate) fn replaced(page: &str, generated: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{generated}{END}{after}"))
}
