//! Timed calls of a backend.

use super::{
    BenchArgs,
    series::{Series, Shape},
};
use crate::{backend::Profiled, failure::Advice, terminal::Terminal};
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget};
use lily_cpu::Profile;
use lily_engine::{Backend, DecodeStep, LogitsWanted, TokenId};
use lily_gpu::{GpuBackend, Optimisation};
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

/// A backend under measurement.
pub(super) struct Bench<B> {
    backend: B,
    warmups: usize,
    rounds: usize,
    /// One round more, with a profile.
    ops: bool,
    /// The optimisation that is off while an ablation's row is measured.
    pub(super) without: Option<Optimisation>,
    status: ProgressBar,
    /// The very first call: its shape and time. It pays for pages not yet read and for lazy set-up.
    pub(super) first_call: Option<(Shape, Duration)>,
}

impl<B: Profiled> Bench<B> {
    pub(super) fn new(backend: B, args: &BenchArgs, terminal: &Terminal) -> Self {
        let shown = terminal.shows_progress();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let status = ProgressBar::with_draw_target(None, target);
        let BenchArgs { warmups, rounds, ops, .. } = *args;
        Self { backend, warmups, rounds, ops, without: None, status, first_call: None }
    }

    /// The backend as one on a GPU, if it is.
    pub(super) fn gpu(&mut self) -> Option<&mut GpuBackend> {
        self.backend.gpu()
    }

    /// A prompt of `tokens` tokens, from an empty state to the logits of the last.
    pub(super) fn prefill(&mut self, tokens: usize) -> Result<Series> {
        let shape = Shape::Prefill { tokens };
        let prompt = prompt(tokens, self.backend.vocab_size());
        let mut logits = Vec::new();
        let (rounds, profile) = self.rounds(shape, |backend| {
            let mut state = backend.new_state()?;
            backend.settle()?;
            let start = Instant::now();
            prefill(backend, &mut state, &prompt, &mut logits)?;
            Ok(start.elapsed())
        })?;
        Ok(Series { shape, rounds, profile, distinct: None, without: self.without })
    }

    /// `steps` greedy tokens after a context of `context` tokens.
    pub(super) fn decode(&mut self, context: usize, steps: usize) -> Result<Series> {
        let shape = Shape::Decode { context, steps };
        let prompt = prompt(context, self.backend.vocab_size());
        let mut first = Vec::new();
        let mut state = self.backend.new_state()?;
        let start = Instant::now();
        prefill(&mut self.backend, &mut state, &prompt, &mut first)?;
        self.first_call.get_or_insert((Shape::Prefill { tokens: context }, start.elapsed()));
        let snapshot = self.backend.snapshot(&state)?;
        drop(state);

        let mut logits = Vec::new();
        let mut seen = HashSet::new();
        let (rounds, profile) = self.rounds(shape, |backend| {
            let mut state = backend.restore(&snapshot)?;
            logits.clone_from(&first);
            seen.clear();
            backend.settle()?;
            let start = Instant::now();
            if let Some(chosen) = backend.greedy_loop(&mut state, best(&first)?, steps) {
                let chosen = chosen?;
                let time = start.elapsed();
                seen.extend(chosen);
                return Ok(time);
            }
            for _ in 0..steps {
                let token = best(&logits)?;
                seen.insert(token);
                backend.decode(&mut [DecodeStep { state: &mut state, token, logits: &mut logits }])?;
            }
            Ok(start.elapsed())
        })?;
        Ok(Series { shape, rounds, profile, distinct: Some(seen.len()), without: self.without })
    }

    /// Warms up, then measures; a profile, if one is wanted, comes from a round of its own.
    fn rounds(
        &mut self,
        shape: Shape,
        mut round: impl FnMut(&mut B) -> Result<Duration>,
    ) -> Result<(Vec<Duration>, Option<Profile>)> {
        let mut times = Vec::new();
        for index in 0..self.warmups + self.rounds {
            self.status.set_message(shape.name());
            self.status.tick();
            let time = round(&mut self.backend)?;
            self.first_call.get_or_insert((shape, time));
            if index >= self.warmups {
                times.push(time);
            }
        }
        let mut profile = None;
        if self.ops && self.backend.gpu().is_none() {
            if !self.backend.start_profile() {
                return Err(Advice::usage(
                    "this backend does not profile its operations",
                    "leave --ops away",
                )
                .into());
            }
            round(&mut self.backend)?;
            profile = self.backend.take_profile();
        }
        self.status.finish_and_clear();
        Ok((times, profile))
    }
}

/// Token `i` is `((i * 2654435761) mod 2^32) mod vocab`: every engine can make the same prompt.
fn prompt(tokens: usize, vocab: usize) -> Vec<TokenId> {
    let spread = |index: usize| (index as u32).wrapping_mul(2_654_435_761);
    (0..tokens).map(|index| TokenId((spread(index) as usize % vocab.max(1)) as u32)).collect()
}

fn prefill<B: Backend>(
    backend: &mut B,
    state: &mut B::State,
    prompt: &[TokenId],
    logits: &mut Vec<f32>,
) -> Result<()> {
    let chunk = backend.prefill_chunk().max(1);
    let mut rest = prompt;
    while rest.len() > chunk {
        let (now, later) = rest.split_at(chunk);
        backend.prefill(state, now, LogitsWanted::None)?;
        rest = later;
    }
    Ok(backend.prefill(state, rest, LogitsWanted::Last(logits))?)
}

/// The most probable token; of equal ones the lowest id.
fn best(logits: &[f32]) -> Result<TokenId> {
    let mut best = (0, f32::NEG_INFINITY);
    for (id, &logit) in logits.iter().enumerate() {
        if !logit.is_finite() {
            bail!(
                "the logit of token {id} is {logit}: the model's numbers are broken, there is nothing to measure"
            );
        }
        if logit > best.1 {
            best = (id, logit);
        }
    }
    Ok(TokenId(best.0 as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_the_agreed_one() {
        let ids: Vec<u32> = prompt(4, 248_320).iter().map(|id| id.0).collect();
        let expected: Vec<u32> =
            (0..4_u64).map(|i| ((i * 2_654_435_761) % (1 << 32) % 248_320) as u32).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn broken_logits_are_no_speed() {
        assert_eq!(best(&[1.0, 3.0, 3.0]).unwrap(), TokenId(1));
        assert!(best(&[0.0, f32::NAN]).is_err());
    }
}
