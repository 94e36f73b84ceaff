//! How long a recording takes.

use super::probe::same;
use crate::{Device, GpuError, Pass, Program, Recording, shapes::Shapes};
use std::time::{Duration, Instant};

/// Something that times recordings.
pub trait Clock {
    /// The time of one replay of a recording with these shapes.
    ///
    /// # Errors
    /// The device's.
    fn time(
        &mut self,
        device: &dyn Device,
        recording: &Recording,
        shapes: &Shapes,
    ) -> Result<Duration, GpuError>;
}

/// A round takes at least so long.
const ROUND: Duration = Duration::from_millis(8);
/// The most replays of a round.
const MOST_REPLAYS: u32 = 64;

/// The device's own time, from a call to the end of what was submitted.
#[derive(Default)]
pub struct DeviceClock {
    pass: Pass,
    /// What was timed last, the newest at the end: preparing is not replaying. With how often a round replays it.
    prepared: Vec<(Recording, Program, u32)>,
}

/// Recordings that stay prepared: best and candidate are timed in turns.
const PREPARED: usize = 2;

impl DeviceClock {
    /// With launches that overlap in this way.
    pub fn new(pass: Pass) -> Self {
        Self { pass, prepared: Vec::new() }
    }

    fn replay(device: &dyn Device, program: &Program, replays: u32) -> Result<Duration, GpuError> {
        let start = Instant::now();
        let mut last = None;
        for _ in 0..replays {
            last = Some(device.submit(program)?);
        }
        last.map_or(Ok(()), |last| device.wait(last))?;
        Ok(start.elapsed() / replays.max(1))
    }

    /// Prepares a recording, warms it up and finds out how long it takes.
    fn prepare(&self, device: &dyn Device, recording: &Recording) -> Result<(Program, u32), GpuError> {
        let program = device.prepare(recording, self.pass)?;
        Self::replay(device, &program, 2)?;
        let once = Self::replay(device, &program, 2)?.max(Duration::from_nanos(1));
        let replays = ROUND.as_nanos() / once.as_nanos();
        Ok((program, replays.clamp(1, u128::from(MOST_REPLAYS)) as u32))
    }
}

impl Clock for DeviceClock {
    fn time(&mut self, device: &dyn Device, recording: &Recording, _: &Shapes) -> Result<Duration, GpuError> {
        let known = self.prepared.iter().position(|(known, ..)| same(known, recording));
        let entry = match known {
            Some(at) => self.prepared.remove(at),
            None => {
                let (program, replays) = self.prepare(device, recording)?;
                (recording.clone(), program, replays)
            }
        };
        let time = Self::replay(device, &entry.1, entry.2);
        if self.prepared.len() == PREPARED {
            self.prepared.remove(0);
        }
        self.prepared.push(entry);
        time
    }
}
