//! Auto-tuning, bounded: each launch shape that depends on the chip against its alternatives, on the machine at hand.
//!
//! Slot by slot ([`Slot::ALL`]), each alternative in turn: it must compute what the table's shape computes (the logits of a
//! step, or of a chunk's last row, within [`Options::distance`]); then both are timed in turns, the whole step or chunk;
//! it wins if its median is better than the best one's by more than [`Options::margin`] and than what either scatters. A
//! winner stays in place while the next slots are tried. What is left to try when the time is up is told and left alone.

mod clock;
mod fit;
mod probe;

pub use clock::{Clock, DeviceClock};
pub use fit::fit;

use crate::{
    GpuError, GpuModel, Phase,
    shapes::{Shapes, Slot, Tuned},
};
use probe::Probe;
use std::time::{Duration, Instant};

/// Bounds of a tuning.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which slots.
    pub slots: Vec<Slot>,
    /// Positions of the context in which steps are timed.
    pub context: usize,
    /// Tokens of the chunk that is timed.
    pub rows: usize,
    /// Tokens before the step and the chunk whose logits are compared.
    pub prompt: usize,
    /// Rounds that each candidate is timed in, in turns with the best so far; at least 3.
    pub rounds: usize,
    /// Share of the time by which a candidate must be better to win.
    pub margin: f64,
    /// The most that logits may be away from those of the table's shapes, relative to their size.
    pub distance: f64,
    /// When to stop.
    pub time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slots: Slot::ALL.to_vec(),
            context: 4096,
            rows: 512,
            prompt: 300,
            rounds: 7,
            margin: 0.01,
            distance: 1e-2,
            time: Duration::from_secs(120),
        }
    }
}

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It is what the slot started with.
    Start,
    /// It took the place of the best so far.
    Faster,
    /// It did not beat the best so far, or not by enough.
    NotFaster,
    /// It computes something else: logits so far away.
    Differs(f64),
    /// It could not be run.
    Failed(String),
    /// It changes no launch of this model on this device.
    Same,
    /// The time was up.
    NotTried,
}

/// A candidate of a slot.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Its values, in the order of [`Slot::fields`].
    pub values: Vec<usize>,
    /// The median of its rounds; zero if it was not timed.
    pub median: Duration,
    /// Half of its rounds lie this close together, as a share of the median.
    pub spread: f64,
    /// What became of it.
    pub verdict: Verdict,
}

/// What was found about a slot.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotReport {
    /// The slot.
    pub slot: Slot,
    /// What it started with, then the alternatives in order.
    pub tried: Vec<Tried>,
    /// What stands in it now.
    pub winner: Vec<usize>,
}

impl SlotReport {
    /// True if another shape than the first won.
    pub fn has_changed(&self) -> bool {
        self.tried.first().is_some_and(|first| first.values != self.winner)
    }
}

/// Tunes a model's shapes, from the table's on. Leaves the winners in the model, and answers them.
///
/// # Errors
/// The device's, where the table's own shapes do not run.
pub fn tune(
    model: &GpuModel,
    options: &Options,
    clock: &mut dyn Clock,
    told: &mut dyn FnMut(&SlotReport),
) -> Result<Tuned, GpuError> {
    let start = Instant::now();
    let table = Shapes::of(model.chip());
    model.set_shapes(table);
    let mut probes = [None, None];
    let mut winners = Vec::new();
    for &slot in &options.slots {
        let probe = match &mut probes[usize::from(slot.phase() == Phase::Prefill)] {
            Some(probe) => probe,
            none => none.insert(Probe::new(model, slot.phase(), options)?),
        };
        let out_of_time = || start.elapsed() > options.time;
        let report = tune_slot(model, slot, probe, options, clock, &out_of_time)?;
        if report.winner != slot.get(&table) {
            winners.push((slot, report.winner.clone()));
        }
        told(&report);
    }
    Ok(Tuned { winners })
}

/// The logits of the step and of the chunk by which shapes are compared, with the model's shapes as they are.
///
/// # Errors
/// The device's.
pub fn logits(model: &GpuModel, options: &Options) -> Result<Vec<f32>, GpuError> {
    let mut logits = Probe::new(model, Phase::Decode, options)?.into_logits();
    logits.extend(Probe::new(model, Phase::Prefill, options)?.into_logits());
    Ok(logits)
}

fn tune_slot(
    model: &GpuModel,
    slot: Slot,
    probe: &Probe,
    options: &Options,
    clock: &mut dyn Clock,
    out_of_time: &dyn Fn() -> bool,
) -> Result<SlotReport, GpuError> {
    let mut best = model.shapes();
    let mut best_recording = probe.record(model)?;
    let first = slot.get(&best);
    let mut tried =
        vec![Tried { values: first.clone(), median: Duration::ZERO, spread: 0.0, verdict: Verdict::Start }];
    for values in slot.alternatives().into_iter().filter(|values| *values != first) {
        let mut candidate = Tried { values, median: Duration::ZERO, spread: 0.0, verdict: Verdict::NotTried };
        let mut shapes = best;
        if out_of_time() || !slot.set(&mut shapes, &candidate.values) {
            tried.push(candidate);
            continue;
        }
        model.set_shapes(shapes);
        let recording = match probe.record(model).and_then(|recording| {
            let distance = if probe::same(&recording, &best_recording) {
                None
            } else {
                Some(probe.distance(model, &recording)?)
            };
            Ok((recording, distance))
        }) {
            Ok((recording, Some(distance))) if distance <= options.distance => recording,
            Ok((_, Some(distance))) => {
                candidate.verdict = Verdict::Differs(distance);
                tried.push(candidate);
                continue;
            }
            Ok((_, None)) => {
                candidate.verdict = Verdict::Same;
                tried.push(candidate);
                continue;
            }
            Err(error) => {
                candidate.verdict = Verdict::Failed(error.to_string());
                tried.push(candidate);
                continue;
            }
        };
        let device = &*model.device;
        let programs = [(&best_recording, best), (&recording, shapes)];
        let [mut of_best, mut of_candidate] = [Vec::new(), Vec::new()];
        for _ in 0..options.rounds.max(3) {
            of_best.push(clock.time(device, programs[0].0, &programs[0].1)?);
            of_candidate.push(clock.time(device, programs[1].0, &programs[1].1)?);
        }
        let ((best_median, best_spread), (median, spread)) =
            (summary(&mut of_best), summary(&mut of_candidate));
        (candidate.median, candidate.spread) = (median, spread);
        if let Some(start) = tried.first_mut().filter(|start| start.median.is_zero()) {
            (start.median, start.spread) = (best_median, best_spread);
        }
        let needed = options.margin.max(best_spread + spread);
        candidate.verdict = if median.as_secs_f64() < best_median.as_secs_f64() * (1.0 - needed) {
            (best, best_recording) = (shapes, recording);
            Verdict::Faster
        } else {
            Verdict::NotFaster
        };
        tried.push(candidate);
    }
    model.set_shapes(best);
    Ok(SlotReport { slot, tried, winner: slot.get(&best) })
}

/// The median, and how far the middle half of the rounds reaches, as a share of it.
fn summary(rounds: &mut [Duration]) -> (Duration, f64) {
    rounds.sort_unstable();
    let at = |share: usize| rounds.get(rounds.len() * share / 4).copied().unwrap_or_default();
    let (low, median, high) = (at(1), at(2), at(3));
    let spread = if median.is_zero() { 0.0 } else { (high - low).as_secs_f64() / median.as_secs_f64() };
    (median, spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let mut rounds = [5, 1, 3, 2, 4].map(Duration::from_millis);
        assert_eq!(summary(&mut rounds), (Duration::from_millis(3), 2.0 / 3.0));
        assert_eq!(summary(&mut []), (Duration::ZERO, 0.0));
    }
}
