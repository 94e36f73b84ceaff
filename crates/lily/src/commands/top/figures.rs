//! What a server's samples say: [`Figures`].

use super::prometheus::{Buckets, Samples, between, quantile};
use std::time::Duration;

/// A latency: its middle and its slow end, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p95: f64,
    /// Observations.
    pub(super) count: f64,
}

/// The figures on the screen. Rates and latencies are `None` where nothing happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) running: f64,
    pub(super) waiting: f64,
    /// Tokens per second, over the last few seconds.
    pub(super) decode_rate: Option<f64>,
    pub(super) prefill_rate: Option<f64>,
    /// Sequences in a decode step.
    pub(super) batch: Option<f64>,
    pub(super) first_token: Option<Latency>,
    pub(super) inter_token: Option<Latency>,
    pub(super) queue: Option<Latency>,
    /// Shares of the time over the window.
    pub(super) prefill_share: Option<f64>,
    pub(super) decode_share: Option<f64>,
    /// Share of prompt tokens that came from the cache, since the start.
    pub(super) cached_share: Option<f64>,
    pub(super) hits: f64,
    pub(super) misses: f64,
    pub(super) snapshots: f64,
    pub(super) snapshot_bytes: f64,
    /// Memory of the process, if the server tells.
    pub(super) resident_bytes: Option<f64>,
    /// Answers since the start, by their end.
    pub(super) answers: Vec<(&'static str, f64)>,
    pub(super) prompt_tokens: f64,
    pub(super) generated_tokens: f64,
    pub(super) refused: f64,
}

/// Ends of answers as the server names them.
const ENDS: [&str; 6] = ["stop", "stop_string", "length", "tool_calls", "error", "cancelled"];

impl Figures {
    /// From the last samples and two earlier ones, each with the time since: one for latencies and shares, one for speeds.
    pub(super) fn of(now: &Samples, window: (&Samples, Duration), recent: (&Samples, Duration)) -> Self {
        let value = |name: &str| now.get(name).unwrap_or(0.0);
        let rate = |(before, time): (&Samples, Duration), name: &str| {
            let grown = now.get(name)? - before.get(name)?;
            (time > Duration::ZERO).then(|| grown.max(0.0) / time.as_secs_f64())
        };
        let latency = |name: &str| {
            let all = now.buckets(name);
            let lately = between(&window.0.buckets(name), &all);
            // Before anything has happened in the window, what happened since the start is better than nothing.
            latency_of(&lately).or_else(|| latency_of(&all))
        };
        let steps = rate(recent, "lily_decode_steps_total").filter(|steps| *steps > 0.0);
        let prompt_tokens = value("lily_prompt_tokens_total");
        Self {
            running: value("lily_running"),
            waiting: value("lily_waiting"),
            decode_rate: rate(recent, "lily_generated_tokens_total"),
            prefill_rate: rate(recent, "lily_prefilled_tokens_total"),
            batch: steps.and_then(|steps| Some(rate(recent, "lily_decoded_sequences_total")? / steps)),
            first_token: latency("lily_time_to_first_token_seconds"),
            inter_token: latency("lily_inter_token_latency_seconds"),
            queue: latency("lily_queue_duration_seconds"),
            prefill_share: rate(window, "lily_prefill_seconds_total"),
            decode_share: rate(window, "lily_decode_seconds_total"),
            cached_share: (prompt_tokens > 0.0).then(|| value("lily_cached_tokens_total") / prompt_tokens),
            hits: value("lily_cache_hits_total"),
            misses: value("lily_cache_misses_total"),
            snapshots: value("lily_snapshots"),
            snapshot_bytes: value("lily_snapshot_bytes"),
            resident_bytes: now.get("process_resident_memory_bytes"),
            answers: ENDS
                .into_iter()
                .filter_map(|end| Some((end, now.labelled("lily_answers_total", "finish", end)?)))
                .collect(),
            prompt_tokens,
            generated_tokens: value("lily_generated_tokens_total"),
            refused: value("lily_refused_busy_total"),
        }
    }
}

fn latency_of(buckets: &Buckets) -> Option<Latency> {
    let count = buckets.last()?.1;
    Some(Latency { p50: quantile(buckets, 0.5)?, p95: quantile(buckets, 0.95)?, count })
}
