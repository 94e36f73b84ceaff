//! What is shown of two looks that were recorded at a real server, some seconds and requests apart.

use super::*;
use crate::commands::top::{
    prometheus::Samples,
    watch::{Look, Seen},
};
use std::time::Duration;

const BEFORE: &str = include_str!("../recorded/before.txt");
const AFTER: &str = include_str!("../recorded/after.txt");

fn look(text: &str) -> Look {
    let health = Health {
        status: "ok".to_owned(),
        model: "lily-nano".to_owned(),
        backend: "CPU".to_owned(),
        version: "0.1.0".to_owned(),
        context: 2048,
    };
    Ok(Seen { health, samples: Samples::parse(text) })
}

fn server() -> Address {
    ":8080".parse().unwrap()
}

/// The lines, as text, after looks at these seconds.
fn shown(history: &mut History, looks: Vec<(u64, Look)>) -> Vec<String> {
    let start = Instant::now();
    let mut now = start;
    for (second, look) in looks {
        now = start + Duration::from_secs(second);
        history.add(look, now);
    }
    lines(&server(), history, now).iter().map(Line::plain).collect()
}

fn line<'a>(lines: &'a [String], name: &str) -> &'a str {
    lines.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {lines:#?}"))
}

#[test]
fn recorded_looks_are_shown_in_figures() {
    let lines = shown(&mut History::default(), vec![(0, look(BEFORE)), (5, look(AFTER))]);
    let (before, after) = (Samples::parse(BEFORE), Samples::parse(AFTER));
    let grown = |name: &str| after.get(name).unwrap() - before.get(name).unwrap();
    assert!(lines[0].contains("http://127.0.0.1:8080 · lily-nano · CPU"), "{lines:#?}");
    let decode = format!("{} tok/s", digits(grown("lily_generated_tokens_total") / 5.0));
    assert!(line(&lines, "decode").contains(&decode), "{decode}: {lines:#?}");
    let prefill = format!("{} tok/s", digits(grown("lily_prefilled_tokens_total") / 5.0));
    assert!(line(&lines, "prefill").contains(&prefill), "{prefill}: {lines:#?}");
    let times = grown("lily_time_to_first_token_seconds_count");
    assert!(line(&lines, "first token").ends_with(&format!("{times} times")), "{lines:#?}");
    let times = grown("lily_inter_token_latency_seconds_count");
    assert!(line(&lines, "between tokens").ends_with(&format!("{times} times")), "{lines:#?}");
    let hits = after.get("lily_cache_hits_total").unwrap();
    assert!(line(&lines, "cache").contains(&format!("{hits} hits")), "{lines:#?}");
    assert!(line(&lines, "snapshots").contains("MB"), "{lines:#?}");
    assert!(line(&lines, "answers").contains("stop"), "{lines:#?}");
    assert!(line(&lines, "time").contains("% decode"), "{lines:#?}");
}

#[test]
fn one_look_alone_has_no_speeds() {
    let lines = shown(&mut History::default(), vec![(0, look(AFTER))]);
    assert!(line(&lines, "decode").contains(" - "), "{lines:#?}");
    // Latencies since the start are better than none.
    assert!(line(&lines, "first token").contains("ms"), "{lines:#?}");
}

#[test]
fn a_server_that_goes_and_comes_back() {
    let mut history = History::default();
    let gone = || Err(anyhow::anyhow!("connection refused"));
    let lines = shown(&mut history, vec![(0, look(BEFORE)), (5, look(AFTER)), (6, gone()), (9, gone())]);
    assert!(lines[1].contains("not reachable for 3 s: connection refused"), "{lines:#?}");
    assert!(line(&lines, "decode").contains("tok/s"), "the last figures stay: {lines:#?}");
    // It has begun anew: no negative speeds, and no error.
    let lines = shown(&mut history, vec![(12, look(BEFORE))]);
    assert_eq!(lines[1], "");
    assert!(line(&lines, "decode").contains(" - "), "{lines:#?}");
}

#[test]
fn a_server_that_never_was() {
    let lines = shown(&mut History::default(), vec![(0, Err(anyhow::anyhow!("no such host")))]);
    assert!(lines[1].contains("no such host"), "{lines:#?}");
    let lines = shown(&mut History::default(), Vec::new());
    assert!(lines.iter().any(|line| line == "connecting…"), "{lines:#?}");
}

#[test]
fn anything_that_is_no_metrics_is_survived() {
    for text in ["", "\u{1b}[2J", "lily_running NaN\nlily_waiting x\n", "x_bucket{le=\"\"} 1"] {
        let lines = shown(&mut History::default(), vec![(0, look(text)), (1, look(text))]);
        assert!(line(&lines, "requests").contains("running"), "{lines:#?}");
    }
}

#[test]
fn lines_are_cut_to_the_terminal_and_hide_control_characters() {
    let line = Line::default().with(Tone::Plain, "ab\u{1b}c").with(Tone::Strong, "defgh");
    assert_eq!(line.painted(6, &Terminal::plain()), "ab\u{241b}cde");
    assert_eq!(line.painted(2, &Terminal::plain()), "ab");
}
