//! What `/stats` tells.

use crate::answer::Answer;
use std::{fmt, time::Duration};

/// Sums over a conversation, and its last answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Stats {
    answers: usize,
    generated: usize,
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
        self.prefilled += usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        self.prefill += usage.prefill;
        self.decode += usage.decode;
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
            .map_or_else(|| "-".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()));
        format!(
            "last answer   prompt {} tokens ({} cached), answer {} tokens, first token after {first}\n\
             \x20             prefill {}, decode {}\n\
             conversation  {} answers, {} tokens generated, context {} of {limit} tokens\n\
             \x20             prefill {}, decode {}",
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.completion_tokens,
            Rate(fresh, usage.prefill),
            Rate(usage.completion_tokens.saturating_sub(1), usage.decode),
            self.answers,
            self.generated,
            self.context(),
            Rate(self.prefilled, self.prefill),
            Rate(self.generated.saturating_sub(self.answers), self.decode),
        )
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
