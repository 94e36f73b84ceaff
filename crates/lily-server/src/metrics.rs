//! `GET /metrics`: what has happened so far, in Prometheus' text format.

use crate::histogram::Histogram;
use crate::state::Server;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use lily_engine::Event;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the server counts itself; the engine has its own counters.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Arrival to first token.
    first_token: Histogram,
    /// From one token of an answer to the next.
    inter_token: Histogram,
    /// Arrival to the end of an answer.
    total: Histogram,
    /// Waiting in the engine's queue.
    queue: Histogram,
    /// Answers by their end.
    ends: [AtomicU64; ENDS.len()],
    /// Responses by the first digit of their status (2, 4, 5).
    responses: [AtomicU64; 6],
}

/// How answers end, as the label says it.
const ENDS: [&str; 6] = ["stop", "stop_string", "length", "tool_calls", "error", "cancelled"];

impl Metrics {
    /// Counts the end of an answer.
    pub(crate) fn ended(&self, end: &str, total: Duration, queue: Duration) {
        if let Some(index) = ENDS.iter().position(|known| *known == end) {
            self.ends[index].fetch_add(1, Ordering::Relaxed);
        }
        self.total.observe(total);
        self.queue.observe(queue);
    }

    /// Counts a response.
    pub(crate) fn responded(&self, status: u16) {
        if let Some(count) = self.responses.get(usize::from(status / 100)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Takes the time of an answer's tokens as the engine gives them, whatever its reader does.
pub(crate) struct TokenClock {
    metrics: Arc<Metrics>,
    arrived: Instant,
    last: Option<Instant>,
}

impl TokenClock {
    pub(crate) fn new(metrics: Arc<Metrics>, arrived: Instant) -> Self {
        Self { metrics, arrived, last: None }
    }

    /// Looks at an event as it passes.
    pub(crate) fn see(&mut self, event: &Event) {
        if let Event::Token { .. } = event {
            let now = Instant::now();
            match self.last.replace(now) {
                None => self.metrics.first_token.observe(now - self.arrived),
                Some(last) => self.metrics.inter_token.observe(now - last),
            }
        }
    }
}

/// The handler.
pub(crate) async fn handle(State(server): State<Arc<Server>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render(&server))
}

fn render(server: &Server) -> String {
    let (own, engine) = (&server.metrics, server.model.engine.metrics());
    let mut out = String::new();
    own.first_token.write(
        &mut out,
        "lily_time_to_first_token_seconds",
        "Arrival of a request to its first token.",
    );
    own.inter_token.write(
        &mut out,
        "lily_inter_token_latency_seconds",
        "From one token of an answer to the next.",
    );
    own.total.write(
        &mut out,
        "lily_request_duration_seconds",
        "Arrival of a request to the end of an answer.",
    );
    own.queue.write(
        &mut out,
        "lily_queue_duration_seconds",
        "Waiting for a place among the running generations.",
    );
    labelled(
        &mut out,
        "lily_answers_total",
        "Answers by their end.",
        "finish",
        ENDS.iter().copied().zip(&own.ends),
    );
    let classes = ["0xx", "1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(&own.responses).skip(2);
    labelled(&mut out, "lily_http_responses_total", "Responses by class of status.", "status", classes);
    let count = |value: usize| value as f64;
    let total = |value: u64| value as f64;
    for (name, kind, help, value) in [
        ("lily_running", "gauge", "Generations that hold a state.", count(engine.running)),
        ("lily_waiting", "gauge", "Generations that wait for a place.", count(engine.waiting)),
        ("lily_accepted_total", "counter", "Generations taken.", total(engine.accepted)),
        (
            "lily_refused_busy_total",
            "counter",
            "Generations refused because the queue was full.",
            total(engine.refused_busy),
        ),
        ("lily_finished_total", "counter", "Generations that finished.", total(engine.finished)),
        ("lily_failed_total", "counter", "Generations that failed.", total(engine.failed)),
        ("lily_cancelled_total", "counter", "Generations that were cancelled.", total(engine.cancelled)),
        ("lily_prompt_tokens_total", "counter", "Prompt tokens.", total(engine.prompt_tokens)),
        (
            "lily_cached_tokens_total",
            "counter",
            "Prompt tokens that came from a snapshot.",
            total(engine.cached_tokens),
        ),
        (
            "lily_prefilled_tokens_total",
            "counter",
            "Tokens that prefill consumed.",
            total(engine.prefilled_tokens),
        ),
        ("lily_generated_tokens_total", "counter", "Tokens generated.", total(engine.generated_tokens)),
        ("lily_decode_steps_total", "counter", "Batched decode steps.", total(engine.decode_steps)),
        (
            "lily_decoded_sequences_total",
            "counter",
            "Sequences in all decode steps.",
            total(engine.decoded_sequences),
        ),
        ("lily_cache_hits_total", "counter", "Generations that found a snapshot.", total(engine.cache_hits)),
        ("lily_cache_misses_total", "counter", "Generations that found none.", total(engine.cache_misses)),
        ("lily_snapshots", "gauge", "Snapshots held.", count(engine.snapshots)),
        ("lily_snapshot_bytes", "gauge", "Bytes of snapshots held.", count(engine.snapshot_bytes)),
        ("lily_prefill_seconds_total", "counter", "Time in prefill.", engine.prefill_time.as_secs_f64()),
        ("lily_decode_seconds_total", "counter", "Time in decode.", engine.decode_time.as_secs_f64()),
        (
            "lily_sampling_seconds_total",
            "counter",
            "Time choosing tokens.",
            engine.sampling_time.as_secs_f64(),
        ),
        (
            "lily_longest_round_seconds",
            "gauge",
            "The longest that running streams waited for their next tokens.",
            engine.longest_round.total.as_secs_f64(),
        ),
        (
            "lily_longest_round_prefill_seconds",
            "gauge",
            "Time in prefill of that round.",
            engine.longest_round.prefill.as_secs_f64(),
        ),
        (
            "lily_longest_round_decode_seconds",
            "gauge",
            "Time in decode of that round.",
            engine.longest_round.decode.as_secs_f64(),
        ),
        (
            "lily_longest_round_sampling_seconds",
            "gauge",
            "Time choosing tokens in that round.",
            engine.longest_round.sampling.as_secs_f64(),
        ),
    ] {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    if let Some(bytes) = resident_bytes() {
        let name = "process_resident_memory_bytes";
        let _ = writeln!(
            out,
            "# HELP {name} Resident memory of the server.\n# TYPE {name} gauge\n{name} {bytes}"
        );
    }
    out
}

/// Resident memory of this process, where the system tells (Linux).
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn labelled<'a>(
    out: &mut String,
    name: &str,
    help: &str,
    label: &str,
    counts: impl Iterator<Item = (&'static str, &'a AtomicU64)>,
) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
    for (value, count) in counts {
        let _ = writeln!(out, "{name}{{{label}=\"{value}\"}} {}", count.load(Ordering::Relaxed));
    }
}
