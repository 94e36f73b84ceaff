//! The lines on the screen.

use super::{
    address::Address,
    figures::{Figures, Latency},
    watch::{Health, History},
};
use crate::{
    memory,
    terminal::{Stream, Terminal},
};
use anstyle::Style;
use std::time::Instant;

/// How a piece of a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Plain,
    Strong,
    Dim,
    Wrong,
}

/// A line in pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct Line(Vec<(Tone, String)>);

impl Line {
    fn with(mut self, look: Tone, text: impl Into<String>) -> Self {
        self.0.push((look, text.into()));
        self
    }

    /// The text alone.
    pub(super) fn plain(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The text with its looks, cut to a number of columns.
    pub(super) fn painted(&self, columns: usize, terminal: &Terminal) -> String {
        let mut left = columns;
        let mut out = String::new();
        for (look, text) in &self.0 {
            let text: String = terminal.visible(text).chars().take(left).collect();
            left -= text.chars().count();
            let style = match look {
                Tone::Plain => Style::new(),
                Tone::Strong => terminal.styles.strong,
                Tone::Dim => terminal.styles.dim,
                Tone::Wrong => terminal.styles.error,
            };
            out.push_str(&terminal.paint(Stream::Stdout, style, &text));
        }
        out
    }
}

fn blank() -> Line {
    Line::default()
}

/// A row: its name, its figure, and words on it.
fn row(name: &str, figure: impl Into<String>, words: impl Into<String>) -> Line {
    let figure = figure.into();
    Line::default()
        .with(Tone::Dim, format!("{name:<16}"))
        .with(Tone::Strong, format!("{figure:<18}"))
        .with(Tone::Plain, words)
}

/// Everything there is to see of a server at a moment.
pub(super) fn lines(server: &Address, history: &History, now: Instant) -> Vec<Line> {
    let mut lines = vec![title(server, history)];
    if let (Some(error), Some(since)) = (history.error(), history.gone_since()) {
        let seconds = now.duration_since(since).as_secs();
        let text = format!("not reachable for {seconds} s: {error}; trying on");
        lines.push(Line::default().with(Tone::Wrong, text));
    } else if let Some(seen) = history.last()
        && seen.health.status != "ok"
    {
        lines.push(Line::default().with(Tone::Wrong, "the server takes no requests"));
    }
    lines.push(blank());
    match history.figures() {
        Some(figures) => lines.extend(rows(&figures, history)),
        None if history.error().is_none() => lines.push(Line::default().with(Tone::Dim, "connecting…")),
        None => {}
    }
    lines.push(blank());
    lines.push(
        Line::default()
            .with(Tone::Dim, "speeds of the last seconds; latencies and shares of the last minute; q leaves"),
    );
    lines
}

fn title(server: &Address, history: &History) -> Line {
    let line = Line::default().with(Tone::Strong, format!("lily top · {server}"));
    match history.last() {
        Some(seen) => {
            let health = &seen.health;
            let Health { model, backend, version, .. } = health;
            line.with(Tone::Plain, format!(" · {model}"))
                .with(Tone::Dim, format!(" · {backend} · Lily {version}"))
        }
        None => line,
    }
}

fn rows(figures: &Figures, history: &History) -> Vec<Line> {
    let context = history.last().map_or(0, |seen| seen.health.context);
    let rate =
        |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{} tok/s", digits(rate)));
    let share =
        |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let batch = figures.batch.map_or_else(String::new, |batch| format!("{batch:.1} sequences a step"));
    let answers: Vec<String> = figures
        .answers
        .iter()
        .filter(|(_, count)| *count > 0.0)
        .map(|(end, count)| format!("{count} {}", end.replace('_', " ")))
        .collect();
    let total: f64 = figures.answers.iter().map(|(_, count)| count).sum();
    let mut rows = vec![
        row("requests", format!("{} running", figures.running), format!("{} waiting", figures.waiting)),
        row("decode", rate(figures.decode_rate), format!("{}  {batch}", chart(history))),
        row("prefill", rate(figures.prefill_rate), ""),
        latency("first token", figures.first_token),
        latency("between tokens", figures.inter_token),
        latency("in the queue", figures.queue),
        row(
            "time",
            format!("{} decode", share(figures.decode_share)),
            format!("{} prefill", share(figures.prefill_share)),
        ),
        blank(),
        row(
            "cache",
            format!("{} cached", share(figures.cached_share)),
            format!("of prompt tokens; {} hits, {} misses", figures.hits, figures.misses),
        ),
        row(
            "snapshots",
            memory::human(figures.snapshot_bytes as u64),
            format!("{} kept, a context holds {context} tokens", figures.snapshots),
        ),
    ];
    if let Some(bytes) = figures.resident_bytes {
        rows.push(row("memory", memory::human(bytes as u64), "of the process"));
    }
    rows.push(blank());
    rows.push(row("answers", format!("{total}"), answers.join(", ")));
    rows.push(row(
        "tokens",
        format!("{} generated", memory::count(figures.generated_tokens as u64)),
        format!("{} of prompts", memory::count(figures.prompt_tokens as u64)),
    ));
    if figures.refused > 0.0 {
        rows.push(row("refused", format!("{}", figures.refused), "because the queue was full"));
    }
    rows
}

fn latency(name: &str, latency: Option<Latency>) -> Line {
    match latency {
        Some(Latency { p50, p95, count }) => {
            row(name, time(p50), format!("95 % within {}, {count} times", time(p95)))
        }
        None => row(name, "-", ""),
    }
}

/// Seconds for people.
fn time(seconds: f64) -> String {
    if seconds < 0.9995 { format!("{} ms", digits(seconds * 1e3)) } else { format!("{} s", digits(seconds)) }
}

/// Three digits, or all before the point.
fn digits(number: f64) -> String {
    let decimals = if number >= 99.95 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.decimals$}")
}

/// The last decode speeds as bars.
fn chart(history: &History) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if history.speeds.len() < 2 {
        return String::new();
    }
    let most = history.speeds.iter().copied().fold(1e-9, f64::max);
    let bar = |speed: &f64| BARS[((speed / most * 7.0).round() as usize).min(7)];
    history.speeds.iter().map(bar).collect()
}

#[cfg(test)]
mod tests;
