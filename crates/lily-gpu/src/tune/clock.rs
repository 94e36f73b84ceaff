//! How long a recording takes.

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
    /// What was timed last, best and candidate in turns: preparing is not replaying.
    prepared: Vec<(Shapes, Program, u32)>,
}

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
}

impl Clock for DeviceClock {
    fn time(
        &mut self,
        device: &dyn Device,
        recording: &Recording,
        shapes: &Shapes,
    ) -> Result<Duration, GpuError> {
        if let Some((_, program, replays)) = self.prepared.iter().find(|(known, ..)| known == shapes) {
            return Self::replay(device, program, *replays);
        }
        let program = device.prepare(recording, self.pass)?;
        // Warm, and know how long it takes.
        Self::replay(device, &program, 2)?;
        let once = Self::replay(device, &program, 2)?.max(Duration::from_nanos(1));
        let replays = (ROUND.as_nanos() / once.as_nanos()).clamp(1, u128::from(MOST_REPLAYS)) as u32;
        let time = Self::replay(device, &program, replays)?;
        if self.prepared.len() == 2 {
            self.prepared.remove(0);
        }
        self.prepared.push((*shapes, program, replays));
        Ok(time)
    }
}
