//! What `/stats` tells.

use crate::answer::{Answer, End};
use std::{fmt, time::Duration};

/// Sums over a conversation, and its last answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Stats {
    answers: usize,
    /// Answers that the user stopped: the engine tells no times of those.
    stopped: usize,
    generated: usize,
    /// Tokens whose time is in `decode`.
    decoded: usize,
    prefilled: usize,
    prefill: Duration,
    decode: Duration,
    last: Option<Answer>,
}

impl Stats {
    /// Counts an answer in.
    pub(super) fn add(&mut self, answer: &Answer) {
        let usage = &answer.usage;
        self.answers += 1;
        self.generated += usage.completion_tokens;
        if answer.end == End::Interrupted {
            self.stopped += 1;
        } else {
            self.prefilled += usage.prompt_tokens.saturating_sub(usage.cached_tokens);
            self.prefill += usage.prefill;
            self.decoded += usage.completion_tokens.saturating_sub(1);
            self.decode += usage.decode;
        }
        self.last = Some(answer.clone());
    }

    /// Tokens of the context that the last turn took.
    pub(super) fn context(&self) -> usize {
        self.last.as_ref().map_or(0, |answer| answer.usage.prompt_tokens + answer.usage.completion_tokens)
    }

    /// The table, for a context of `limit` tokens.
    pub(super) fn table(&self, limit: usize) -> String {
        let Some(last) = &self.last else { return "nothing was answered yet".to_owned() };
        let usage = &last.usage;
        let fresh = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        let first = last
            .time_to_first_token
            .map_or_else(String::new, |time| format!(", first token after {:.2} s", time.as_secs_f64()));
        let stopped = last.end == End::Interrupted;
        // How much of a stopped answer's prompt came from the cache is not known.
        let cached = if stopped { String::new() } else { format!(" ({} cached)", usage.cached_tokens) };
        let speed = if stopped {
            "stopped, so its speed is not known".to_owned()
        } else {
            let decoded = usage.completion_tokens.saturating_sub(1);
            format!("prefill {}, decode {}", Rate(fresh, usage.prefill), Rate(decoded, usage.decode))
        };
        let answers = match (self.answers, self.stopped) {
            (1, 0) => "1 answer".to_owned(),
            (all, 0) => format!("{all} answers"),
            (1, _) => "1 answer (stopped)".to_owned(),
            (all, stopped) => format!("{all} answers ({stopped} stopped)"),
        };
        let mut table = format!(
            "last answer   prompt {} tokens{cached}, answer {} tokens{first}\n\
             \x20             {speed}\n\
             conversation  {answers}, {} tokens generated, context {} of {limit} tokens",
            usage.prompt_tokens,
            usage.completion_tokens,
            self.generated,
            self.context(),
        );
        if self.stopped < self.answers {
            let (prefill, decode) = (Rate(self.prefilled, self.prefill), Rate(self.decoded, self.decode));
            table.push_str(&format!("\n              prefill {prefill}, decode {decode}"));
        }
        table
    }
}

/// Tokens per second.
struct Rate(usize, Duration);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.1.as_secs_f64();
        if self.0 == 0 || seconds <= 0.0 {
            return f.write_str("-");
        }
        write!(f, "{:.1} tok/s", self.0 as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lily_engine::{FinishReason, Usage};

    fn answer(end: End, prefill: Duration, decode: Duration) -> Answer {
        Answer {
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            incomplete: None,
            end,
            stop: None,
            usage: Usage { prompt_tokens: 10, completion_tokens: 5, prefill, decode, ..Usage::default() },
            time_to_first_token: Some(Duration::from_millis(250)),
            total: Duration::from_secs(1),
        }
    }

    /// It once read "1 answers" and "prefill -, decode -", and a stopped answer's tokens counted without their time.
    #[test]
    fn a_stopped_answer_is_called_so_and_has_no_speed() {
        let mut stats = Stats::default();
        stats.add(&answer(End::Interrupted, Duration::ZERO, Duration::ZERO));
        let table = stats.table(100);
        assert!(table.contains("1 answer (stopped), 5 tokens generated, context 15 of 100"), "{table}");
        assert!(table.contains("first token after 0.25 s\n") && table.contains("stopped, so"), "{table}");
        assert!(!table.contains(" -") && !table.contains("cached"), "{table}");

        let second = Duration::from_secs(1);
        stats.add(&answer(End::Finished(FinishReason::EndOfText), second, second));
        let table = stats.table(100);
        assert!(table.contains("2 answers (1 stopped), 10 tokens generated"), "{table}");
        assert_eq!(table.matches("prefill 10.0 tok/s, decode 4.0 tok/s").count(), 2, "{table}");
    }
}
