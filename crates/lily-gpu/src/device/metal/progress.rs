//! How far the queue is: what completion handlers report, and how a thread waits for it.

use crate::GpuError;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A thread looks so long before it goes to sleep: waking up takes longer than most of what is waited for at the end of a
/// token.
const SPIN: Duration = Duration::from_micros(60);
/// So long it sleeps before it looks again by itself.
const SLICE: Duration = Duration::from_millis(200);
/// A queue in which nothing moves for so long will not move any more.
const STUCK: Duration = Duration::from_secs(60);

/// An event of the device that counts up.
pub(super) trait Signal {
    /// The present value.
    fn value(&self) -> u64;

    /// Sleeps until the value is reached, or for so long.
    fn sleep(&self, value: u64, at_most: Duration);
}

/// What has come of everything that was committed. Command buffers are counted from 1.
#[derive(Debug, Default)]
pub(super) struct Progress {
    completed: AtomicU64,
    /// GPU time of all that is completed.
    nanoseconds: AtomicU64,
    /// The first. What ran after it worked on wrong data, so it stays.
    error: Mutex<Option<GpuError>>,
}

impl Progress {
    /// A command buffer has ended, well or not. Called by the completion handler, and before the event is set by hand.
    pub(super) fn complete(&self, value: u64, took: Duration, error: Option<GpuError>) {
        if let Some(error) = error {
            tracing::error!("command buffer {value}: {error}");
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.completed.fetch_max(value, Ordering::Release);
    }

    /// The first error of all command buffers that have ended.
    pub(super) fn check(&self) -> Result<(), GpuError> {
        match &*self.error.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// GPU time of all command buffers that have ended.
    pub(super) fn gpu_time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// True once the command buffer has ended.
    pub(super) fn is_done(&self, event: &impl Signal, value: u64) -> bool {
        self.completed.load(Ordering::Acquire) >= value || event.value() >= value
    }

    /// Waits for a command buffer to end.
    ///
    /// # Errors
    /// The first of any that have ended; a queue in which nothing moves.
    pub(super) fn wait(&self, event: &impl Signal, value: u64) -> Result<(), GpuError> {
        self.wait_for(event, value, STUCK)
    }

    /// Waits until a command buffer's own report is there, its GPU time included.
    ///
    /// # Errors
    /// As [`Progress::wait`].
    pub(super) fn wait_reported(&self, value: u64) -> Result<(), GpuError> {
        struct Reports;
        impl Signal for Reports {
            fn value(&self) -> u64 {
                0
            }

            fn sleep(&self, _: u64, _: Duration) {
                std::thread::sleep(SPIN);
            }
        }
        self.wait_for(&Reports, value, STUCK)
    }

    fn wait_for(&self, event: &impl Signal, value: u64, stuck: Duration) -> Result<(), GpuError> {
        let start = Instant::now();
        while start.elapsed() < SPIN {
            if self.is_done(event, value) {
                return self.check();
            }
            std::hint::spin_loop();
        }
        let (mut moved, mut seen) = (Instant::now(), 0);
        while !self.is_done(event, value) {
            let now = self.completed.load(Ordering::Acquire).max(event.value());
            if now > seen {
                (moved, seen) = (Instant::now(), now);
            }
            if moved.elapsed() > stuck {
                self.check()?;
                return Err(GpuError::Device {
                    call: format!("waiting for command buffer {value}"),
                    what: format!("nothing has moved for {} s; {seen} are done", stuck.as_secs_f32()),
                });
            }
            event.sleep(value, SLICE.min(stuck));
        }
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// An event that reaches `value` at the `at`-th sleep, if it ever does.
    struct Fake {
        value: AtomicU64,
        sleeps: AtomicU32,
        at: u32,
    }

    impl Fake {
        fn new(at: u32) -> Self {
            Self { value: AtomicU64::new(0), sleeps: AtomicU32::new(0), at }
        }
    }

    impl Signal for Fake {
        fn value(&self) -> u64 {
            self.value.load(Ordering::Relaxed)
        }

        fn sleep(&self, value: u64, _: Duration) {
            if self.sleeps.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
                self.value.store(value, Ordering::Relaxed);
            }
        }
    }

    fn lost() -> Option<GpuError> {
        Some(GpuError::Device { call: "decode".to_owned(), what: "lost".to_owned() })
    }

    #[test]
    fn a_waiter_sleeps_until_the_event_is_there() {
        let (progress, event) = (Progress::default(), Fake::new(3));
        progress.wait(&event, 7).expect("signalled");
        assert_eq!(event.sleeps.load(Ordering::Relaxed), 3);
        assert!(progress.is_done(&event, 7) && !progress.is_done(&event, 8));
        progress.wait(&event, 7).expect("at once");
    }

    #[test]
    fn a_failed_command_buffer_releases_its_waiters_and_is_not_forgotten() {
        let (progress, event) = (Progress::default(), Fake::new(u32::MAX));
        progress.complete(1, Duration::from_millis(2), None);
        progress.complete(2, Duration::ZERO, lost());
        progress.complete(3, Duration::from_millis(1), None);
        for value in [1, 2, 3] {
            assert_eq!(progress.wait(&event, value).unwrap_err().to_string(), "decode: lost");
        }
        assert_eq!(progress.gpu_time(), Duration::from_millis(3));
        assert!(progress.wait_reported(3).is_err());
    }

    #[test]
    fn a_queue_that_stands_still_is_an_error() {
        let (progress, event) = (Progress::default(), Fake::new(u32::MAX));
        let error = progress.wait_for(&event, 1, Duration::from_millis(5)).unwrap_err().to_string();
        assert!(error.starts_with("waiting for command buffer 1: nothing has moved"), "{error}");
    }
}
