//! Where a recording is cut into command buffers: a display's watchdog kills those that take long, and the first part of a
//! step should be under way while the rest is encoded. No launch is long by itself: plans part those that would be
//! ([`crate::Device::launch_operations`]).

use crate::Dispatch;
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// GPU time that a command buffer should take at most.
pub(super) const BUDGET: Duration = Duration::from_millis(20);
/// The first part ends at the first level after so many dispatches, if much more follows.
const FIRST: usize = 48;
/// Bytes per nanosecond of a slow machine: the first guess.
const BANDWIDTH: f64 = 60.0;
/// Operations per nanosecond of a slow machine: the first guess.
const ARITHMETIC: f64 = 1000.0;
/// Nanoseconds of a threadgroup whose bytes say little: the first guess.
const GROUP: f64 = 500.0;
/// How far one measurement may move an estimate.
const STEP: f64 = 8.0;

/// Nanoseconds per unit of a kernel's guess, as measured so far; 1 at first. One number per compiled kernel.
#[derive(Debug)]
pub(super) struct Pace(AtomicU64);

impl Default for Pace {
    fn default() -> Self {
        Self(AtomicU64::new(1_f64.to_bits()))
    }
}

impl Pace {
    /// The present factor.
    pub(super) fn factor(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Nanoseconds that a dispatch of this kernel is expected to take.
    pub(super) fn nanoseconds(&self, dispatch: &Dispatch) -> f64 {
        guess(dispatch) * self.factor()
    }

    /// Learns that a command buffer took `measured` times what was expected. Lost updates do no harm.
    pub(super) fn correct(&self, measured: f64) {
        if measured.is_finite() && measured > 0.0 {
            let factor = self.factor() * measured.clamp(1.0 / STEP, STEP).sqrt();
            self.0.store(factor.clamp(1e-3, 1e3).to_bits(), Ordering::Relaxed);
        }
    }
}

/// Before anything is measured: bytes at the bandwidth of a slow machine, operations, and something for each threadgroup.
fn guess(dispatch: &Dispatch) -> f64 {
    let groups: f64 = dispatch.groups.iter().map(|&n| f64::from(n)).product();
    let bytes = (dispatch.read + dispatch.written) as f64;
    (bytes / BANDWIDTH).max(dispatch.operations as f64 / ARITHMETIC).max(groups * GROUP)
}

/// Runs of dispatches, each for one command buffer of at most `budget` by the nanoseconds that each is expected to take; cut
/// where the level changes, and inside a level only if it is longer than that by itself: its dispatches need no order, so
/// that the one which a cut makes between them does no harm. A dispatch alone may be longer.
pub(super) fn parts(dispatches: &[Dispatch], budget: Duration, nanoseconds: &[f64]) -> Vec<Range<usize>> {
    let budget = budget.as_secs_f64() * 1e9;
    let (mut parts, mut start, mut spent) = (Vec::new(), 0, 0.0);
    let mut at = 0;
    while at < dispatches.len() {
        let level = dispatches[at].level;
        let mut end = at + dispatches[at..].iter().take_while(|dispatch| dispatch.level == level).count();
        let mut cost: f64 = nanoseconds[at..end].iter().sum();
        if cost > budget {
            (end, cost) = (at + 1, nanoseconds[at]);
        }
        let head_ends = parts.is_empty() && at >= FIRST && dispatches.len() - at > FIRST;
        if at > start && (spent + cost > budget || head_ends) {
            parts.push(start..at);
            (start, spent) = (at, 0.0);
        }
        spent += cost;
        at = end;
    }
    if start < dispatches.len() {
        parts.push(start..dispatches.len());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Recorder, Recording, device::DryDevice};
    use lily_kernels::{Platform, Specialisation};

    /// `levels` levels of two dispatches each.
    fn recording(levels: usize) -> Recording {
        let device = DryDevice::new(Platform::Metal);
        let gemv = Specialisation::named("gemv", &[("K", 64)]).expect("complete");
        let kernel = device.compile(&gemv, "gemv").expect("an entry");
        let buffer = device.allocate(1024, "x").expect("room");
        let weights = device.allocate(1024, "w").expect("room").whole();
        let mut recorder = Recorder::new();
        for level in 0..levels {
            for chain in 0..2 {
                recorder
                    .dispatch(&kernel, [1, 1, 1])
                    .bind("w", &weights)
                    .bind("scales", &weights)
                    .bind("biases", &weights)
                    .bind("x", &buffer.view(512 * chain + 256 * (level % 2), 256))
                    .bind("y", &buffer.view(512 * chain + 256 * ((level + 1) % 2), 256))
                    .param("rows", 16_u32)
                    .param("stride", 0_u32);
            }
        }
        recorder.finish().expect("complete")
    }

    #[test]
    fn cuts_stand_between_levels_and_hold_the_budget() {
        let recording = recording(10);
        let dispatches = recording.dispatches();
        let costs = [100.0; 20];
        let found = parts(dispatches, Duration::from_nanos(450), &costs);
        assert_eq!(found, [0..4, 4..8, 8..12, 12..16, 16..20]);
        // A level that is too long is cut as well; a dispatch that is too long stands alone; nothing is lost.
        assert_eq!(parts(dispatches, Duration::from_nanos(1), &costs).len(), 20);
        let mut costs = costs;
        costs[4] = 400.0;
        let found = parts(dispatches, Duration::from_nanos(450), &costs);
        assert_eq!(found, [0..4, 4..5, 5..8, 8..12, 12..16, 16..20]);
        costs[4] = 100.0;
        assert_eq!(parts(dispatches, Duration::from_secs(1), &costs).len(), 1);
        assert!(parts(&[], BUDGET, &[]).is_empty());
    }

    #[test]
    fn the_head_of_a_long_step_goes_first() {
        let recording = recording(100);
        assert_eq!(parts(recording.dispatches(), BUDGET, &[1.0; 200]), [0..48, 48..200]);
        let short = self::recording(40);
        assert_eq!(parts(short.dispatches(), BUDGET, &[1.0; 80]).len(), 1);
    }

    #[test]
    fn the_pace_is_learnt() {
        let (recording, pace) = (recording(1), Pace::default());
        let dispatch = &recording.dispatches()[0];
        let truth = 30.0 * pace.nanoseconds(dispatch);
        for _ in 0..12 {
            pace.correct(truth / pace.nanoseconds(dispatch));
        }
        let off = pace.nanoseconds(dispatch) / truth;
        assert!((0.9..1.1).contains(&off), "{off}");
        pace.correct(f64::NAN);
        assert!(pace.nanoseconds(dispatch).is_finite());
    }
}
