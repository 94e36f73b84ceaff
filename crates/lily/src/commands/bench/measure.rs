//! Timed calls of a backend.

use super::{
    BenchArgs,
    series::{Series, Shape},
};
use crate::{backend::Profiled, failure::Advice, terminal::Terminal};
use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget};
use lily_cpu::Profile;
use lily_engine::{
    Backend, ChoicePlan, ChoiceStep, Chosen, DecodeStep, LogitsWanted, Sampler, SamplingParams, TokenId,
    TokenMask,
};
use lily_gpu::{GpuBackend, Optimisation};
use std::{
    collections::HashSet,
    sync::Arc,
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
        Ok(Series { shape, rounds, profile, distinct: None, without: self.without, sampled: false })
    }

    /// `steps` tokens after a context of `context` tokens: greedy ones, or chosen as `sampling` says.
    pub(super) fn decode(
        &mut self,
        context: usize,
        steps: usize,
        sampling: Option<&SamplingParams>,
    ) -> Result<Series> {
        let shape = Shape::Decode { context, steps };
        let vocab = self.backend.vocab_size();
        let prompt = prompt(context, vocab);
        let mut first = Vec::new();
        let mut state = self.backend.new_state()?;
        let start = Instant::now();
        prefill(&mut self.backend, &mut state, &prompt, &mut first)?;
        self.first_call.get_or_insert((Shape::Prefill { tokens: context }, start.elapsed()));
        let snapshot = self.backend.snapshot(&state)?;
        drop(state);

        let greedy = SamplingParams::default();
        let params = SamplingParams { seed: Some(1), ..sampling.unwrap_or(&greedy).clone() };
        let tokens = Arc::new(TokenMask::all(vocab));
        let mut logits = Vec::new();
        let mut seen = HashSet::new();
        let (rounds, profile) = self.rounds(shape, |backend| {
            let mut state = backend.restore(&snapshot)?;
            logits.clone_from(&first);
            let mut sampler = Sampler::new(&params, &prompt, tokens.clone(), None);
            backend.settle()?;
            let start = Instant::now();
            let first = sampler.choose(&mut logits, None)?.id;
            let plan = ChoicePlan {
                params: &params,
                seed: params.seed.unwrap_or_default(),
                prompt: &prompt,
                answer: &[first],
                tokens: &tokens,
                logprobs: None,
            };
            let chosen = if backend.start_choosing(&mut state, &plan)? {
                by_backend(backend, &mut state, first, steps)?
            } else {
                by_sampler(backend, &mut state, first, steps, &mut sampler, &mut logits)?
            };
            let time = start.elapsed();
            seen = chosen.into_iter().collect();
            Ok(time)
        })?;
        let distinct = Some(seen.len());
        Ok(Series { shape, rounds, profile, distinct, without: self.without, sampled: sampling.is_some() })
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

/// Consumes `first` and then each chosen token in turn, `steps` tokens in all; the backend chooses, as it does for the engine.
fn by_backend<B: Backend>(
    backend: &mut B,
    state: &mut B::State,
    first: TokenId,
    steps: usize,
) -> Result<Vec<TokenId>> {
    let (mut token, mut chosen) = (first, Vec::with_capacity(steps));
    while chosen.len() < steps {
        let run_ahead = chosen.len() + 1 < steps;
        token = match backend.choose(ChoiceStep { state, token, mask: None, run_ahead })? {
            Chosen::Token(choice) => choice.id,
            refused => {
                bail!(
                    "no token was chosen ({refused:?}): the model's numbers are broken, there is nothing to measure"
                )
            }
        };
        chosen.push(token);
    }
    Ok(chosen)
}

/// The same with logits that the backend hands out, sampled as the engine does.
fn by_sampler<B: Backend>(
    backend: &mut B,
    state: &mut B::State,
    first: TokenId,
    steps: usize,
    sampler: &mut Sampler,
    logits: &mut Vec<f32>,
) -> Result<Vec<TokenId>> {
    let (mut token, mut chosen) = (first, Vec::with_capacity(steps));
    while chosen.len() < steps {
        backend.decode(&mut [DecodeStep { state, token, logits }])?;
        token = sampler.choose(logits, None)?.id;
        chosen.push(token);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lily_engine::testing::{Call, CallKind, Fault, ScriptedBackend};

    #[test]
    fn the_prompt_is_the_agreed_one() {
        let ids: Vec<u32> = prompt(4, 248_320).iter().map(|id| id.0).collect();
        let expected: Vec<u32> =
            (0..4_u64).map(|i| ((i * 2_654_435_761) % (1 << 32) % 248_320) as u32).collect();
        assert_eq!(ids, expected);
    }

    /// Both ways to choose make the same tokens, and logits that are not numbers are no speed.
    #[test]
    fn both_ways_choose_the_same() {
        let params = SamplingParams { temperature: 1.0, seed: Some(3), ..SamplingParams::default() };
        let (prompt, tokens) = (prompt(5, 50), Arc::new(TokenMask::all(50)));
        let run = |mut backend: ScriptedBackend| -> Result<(bool, Vec<TokenId>)> {
            let (mut state, mut logits) = (backend.new_state()?, Vec::new());
            prefill(&mut backend, &mut state, &prompt, &mut logits)?;
            let mut sampler = Sampler::new(&params, &prompt, tokens.clone(), None);
            let first = sampler.choose(&mut logits, None)?.id;
            let plan = ChoicePlan {
                params: &params,
                seed: 3,
                prompt: &prompt,
                answer: &[first],
                tokens: &tokens,
                logprobs: None,
            };
            Ok(if backend.start_choosing(&mut state, &plan)? {
                (true, by_backend(&mut backend, &mut state, first, 9)?)
            } else {
                (false, by_sampler(&mut backend, &mut state, first, 9, &mut sampler, &mut logits)?)
            })
        };
        let (by_backend, one) = run(ScriptedBackend::new(50).choosing()).unwrap();
        let (by_sampler, other) = run(ScriptedBackend::new(50)).unwrap();
        assert!(by_backend && !by_sampler);
        assert_eq!((one.len(), &one), (9, &other));
        let broken = |call: &Call<'_>| match call.kind {
            CallKind::Choose | CallKind::Decode => Fault::Logit(TokenId(4), f32::NAN),
            _ => Fault::None,
        };
        assert!(run(ScriptedBackend::new(50).choosing().script(broken)).is_err());
        assert!(run(ScriptedBackend::new(50).script(broken)).is_err());
    }
}
