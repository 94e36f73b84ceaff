//! `--ops`: where the time goes, operation by operation.

use lily_cpu::{OpStats, Profile};
use serde_json::{Map, Value, json};
use std::{fmt::Write, time::Duration};

/// Time, bytes and speed of each operation over one round, against the read bandwidth in GB/s.
pub(super) fn table(shape: &str, profile: &Profile, bandwidth: Option<f64>) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(&mut out, shape, profile, bandwidth);
    out
}

fn write_table(out: &mut String, shape: &str, profile: &Profile, bandwidth: Option<f64>) -> std::fmt::Result {
    let total: Duration = profile.iter().map(|(_, stats)| stats.time).sum();
    writeln!(
        out,
        "{shape:<16}{:>9}{:>11}{:>8}{:>11}{:>9}{:>13}{:>9}",
        "calls", "time, ms", "share", "MB", "GB/s", "of bandwidth", "GOP/s"
    )?;
    for (op, stats) in profile.iter() {
        let seconds = stats.time.as_secs_f64().max(1e-9);
        let speed = stats.bytes as f64 / 1e9 / seconds;
        writeln!(
            out,
            "  {:<14}{:>9}{:>11.2}{:>7.1}%{:>11.1}{:>9.1}{:>13}{:>9.1}",
            op.name(),
            stats.calls,
            seconds * 1e3,
            seconds / total.as_secs_f64().max(1e-9) * 100.0,
            stats.bytes as f64 / 1e6,
            speed,
            bandwidth
                .map_or_else(|| "-".to_owned(), |bandwidth| format!("{:.0}%", speed / bandwidth * 100.0)),
            stats.operations as f64 / 1e9 / seconds,
        )?;
    }
    writeln!(out, "  {:<14}{:>9}{:>11.2}", "sum", "", total.as_secs_f64() * 1e3)
}

/// The same as a JSON object.
pub(super) fn json(profile: &Profile) -> Value {
    let entry = |stats: OpStats| {
        json!({
            "calls": stats.calls,
            "ms": stats.time.as_secs_f64() * 1e3,
            "bytes": stats.bytes,
            "operations": stats.operations,
        })
    };
    profile.iter().map(|(op, stats)| (op.name().to_owned(), entry(stats))).collect::<Map<_, _>>().into()
}
