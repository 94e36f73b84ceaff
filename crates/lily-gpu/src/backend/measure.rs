//! What the device can do, and where the time goes.

use super::GpuBackend;
use crate::{GpuError, GpuModel, Recording};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Bytes of one copy when the bandwidth is measured: many times the largest cache.
const COPIED: usize = 2 << 30;
/// Copies of a round.
const COPIES: usize = 8;
/// Runs of a plan that is profiled; the median of each dispatch counts.
const PROFILED: usize = 5;

/// What the dispatches with one label took.
#[derive(Debug, Clone, PartialEq)]
pub struct OpTime {
    /// The label.
    pub label: String,
    /// How many.
    pub launches: usize,
    /// All of them, each run alone.
    pub time: Duration,
    /// Bytes read and written.
    pub bytes: u64,
}

impl GpuBackend {
    /// Bytes per second that a copy inside device memory moves, read and written counted, one value a round.
    ///
    /// # Errors
    /// The device's.
    pub fn copy_bandwidth(&self, rounds: usize) -> Result<Vec<f64>, GpuError> {
        let device = &*self.model.device;
        let bytes = COPIED.min(usize::try_from(device.limits().memory / 8).unwrap_or(COPIED)).max(1 << 20);
        let (from, to) = (
            device.allocate(bytes, "bandwidth, from")?.whole(),
            device.allocate(bytes, "bandwidth, to")?.whole(),
        );
        device.zero(&from)?;
        let settle = || device.download(&to.slice(0, 4), &mut [0; 4]);
        device.copy(&from, &to)?;
        settle()?;
        let mut found = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let start = Instant::now();
            for _ in 0..COPIES {
                device.copy(&from, &to)?;
            }
            settle()?;
            found.push((2 * COPIES * bytes) as f64 / start.elapsed().as_secs_f64());
        }
        Ok(found)
    }

    /// The model that plans are made from, for measuring launch shapes.
    pub fn model(&self) -> &GpuModel {
        &self.model
    }

    /// Time of each operation of a recording, its dispatches run one at a time; `None` where the device cannot tell.
    pub(super) fn profile(&self, recording: &Recording) -> Result<Option<Vec<OpTime>>, GpuError> {
        let mut runs = Vec::with_capacity(PROFILED);
        for _ in 0..PROFILED {
            match self.model.device.profile(recording)? {
                Some(times) => runs.push(times),
                None => return Ok(None),
            }
        }
        let mut lines: BTreeMap<&str, OpTime> = BTreeMap::new();
        for (at, dispatch) in recording.dispatches().iter().enumerate() {
            let label: &str =
                if dispatch.label.is_empty() { dispatch.kernel.entry() } else { &dispatch.label };
            let mut times: Vec<Duration> = runs.iter().map(|times| times[at]).collect();
            times.sort_unstable();
            let line = lines.entry(label).or_insert_with(|| OpTime {
                label: label.to_owned(),
                launches: 0,
                time: Duration::ZERO,
                bytes: 0,
            });
            line.launches += 1;
            line.time += times[times.len() / 2];
            line.bytes += dispatch.read + dispatch.written;
        }
        let mut lines: Vec<OpTime> = lines.into_values().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.time));
        Ok(Some(lines))
    }
}
