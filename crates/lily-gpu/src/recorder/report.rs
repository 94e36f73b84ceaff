//! Launches, levels and bytes of a recording.

use super::Recording;
use std::{collections::BTreeMap, fmt};

/// The sum of the dispatches with one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The label.
    pub label: String,
    /// How many.
    pub launches: usize,
    /// Bytes read from device memory.
    pub read: u64,
    /// Bytes written to device memory.
    pub written: u64,
}

/// What a recording costs, before it is run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Dispatches.
    pub launches: usize,
    /// Dependency levels.
    pub levels: usize,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// By label, in alphabetical order.
    pub lines: Vec<Line>,
}

impl Report {
    pub(super) fn of(recording: &Recording) -> Self {
        let mut lines: BTreeMap<&str, Line> = BTreeMap::new();
        let mut report = Self { levels: recording.levels(), ..Self::default() };
        for dispatch in recording.dispatches() {
            let label = dispatch.name();
            let line = lines.entry(label).or_insert_with(|| Line {
                label: label.to_owned(),
                launches: 0,
                read: 0,
                written: 0,
            });
            line.launches += 1;
            line.read += dispatch.read;
            line.written += dispatch.written;
            report.launches += 1;
            report.read += dispatch.read;
            report.written += dispatch.written;
        }
        report.lines = lines.into_values().collect();
        report
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        writeln!(f, "{:<28}{:>9}{:>12}{:>12}", "operation", "launches", "read, MB", "written, MB")?;
        for Line { label, launches, read, written } in &self.lines {
            writeln!(f, "{label:<28}{launches:>9}{:>12.2}{:>12.2}", megabytes(*read), megabytes(*written))?;
        }
        write!(
            f,
            "{:<28}{:>9}{:>12.2}{:>12.2}   in {} dependency levels",
            "sum",
            self.launches,
            megabytes(self.read),
            megabytes(self.written),
            self.levels
        )
    }
}
