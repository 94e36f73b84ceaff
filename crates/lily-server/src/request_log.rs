//! One line in the log for each answer, and its place in the metrics.

use crate::error::ApiError;
use crate::job::Origin;
use crate::metrics::Metrics;
use crate::state::Server;
use crate::turn::End;
use lily_engine::Usage;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a line tells; written when the turn ends, whatever way it ends. Text is part of it only where the
/// configuration says so.
pub(crate) struct RequestLog {
    metrics: Arc<Metrics>,
    id: String,
    route: &'static str,
    arrived: Instant,
    first_token: Option<Duration>,
    /// The answer so far, where text may be logged.
    text: Option<String>,
}

impl RequestLog {
    pub(crate) fn new(server: &Server, origin: &Origin<'_>) -> Self {
        let Origin { id, route, arrived } = *origin;
        let metrics = Arc::clone(&server.metrics);
        let text = server.config.log_text.then(String::new);
        Self { metrics, id: id.to_owned(), route, arrived, first_token: None, text }
    }

    /// When the request arrived.
    pub(crate) fn arrived(&self) -> Instant {
        self.arrived
    }

    /// Notes the time of the first token.
    pub(crate) fn token(&mut self) {
        if self.first_token.is_none() {
            self.first_token = Some(self.arrived.elapsed());
        }
    }

    /// Notes new text of the answer, thinking and markup included.
    pub(crate) fn text(&mut self, new: &str) {
        if let Some(text) = &mut self.text {
            text.push_str(new);
        }
    }

    pub(crate) fn finished(&self, end: End, usage: &Usage) {
        let finish = match end {
            End::Stop => "stop",
            End::StopString => "stop_string",
            End::Length => "length",
            End::ToolCalls => "tool_calls",
        };
        self.write(finish, None, usage);
    }

    /// The client went away.
    pub(crate) fn cancelled(&self, usage: &Usage) {
        self.write("cancelled", None, usage);
    }

    pub(crate) fn failed(&self, error: &ApiError, usage: &Usage) {
        self.write("error", Some(error.code.unwrap_or(error.kind)), usage);
    }

    fn write(&self, finish: &str, error: Option<&str>, usage: &Usage) {
        let total = self.arrived.elapsed();
        self.metrics.ended(finish, total, usage.queue);
        tracing::info!(
            target: "lily_server::request",
            id = self.id,
            route = self.route,
            finish,
            error,
            prompt = usage.prompt_tokens,
            cached = usage.cached_tokens,
            completion = usage.completion_tokens,
            queue_ms = millis(usage.queue),
            prefill_ms = millis(usage.prefill),
            decode_ms = millis(usage.decode),
            first_token_ms = self.first_token.map(millis),
            total_ms = millis(total),
            text = self.text,
            "request"
        );
    }
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e4).round() / 10.0
}
