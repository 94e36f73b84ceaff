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

/// So long it sleeps when the GPU has counted a command buffer and its handler has not run yet.
const HANDLER: Duration = Duration::from_micros(20);

/// An event of the device that counts up.
pub(super) trait Signal {
    /// The present value.
    fn value(&self) -> u64;

    /// Raises the value by hand.
    fn set(&self, value: u64);

    /// Sleeps until the value is reached, or for so long.
    fn sleep(&self, value: u64, at_most: Duration);

    /// Sleeps for a moment, because the value is reached and the handler is about to run.
    fn pause(&self) {
        std::thread::sleep(HANDLER);
    }
}

/// What has come of everything that was committed. Command buffers are counted from 1.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Everything up to here was reported.
    completed: AtomicU64,
    /// What was reported before something ahead of it: nobody promises that handlers run in the order of the queue.
    early: Mutex<Vec<u64>>,
    /// GPU time of all that is completed.
    nanoseconds: AtomicU64,
    /// The first. What ran after it worked on wrong data, so it stays.
    error: Mutex<Option<GpuError>>,
}

impl Progress {
    /// A command buffer has ended, well or not. Called by its completion handler, before the event is set by hand.
    pub(super) fn complete(&self, value: u64, took: Duration, error: Option<GpuError>) {
        if let Some(error) = error {
            tracing::error!("command buffer {value}: {error}");
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.push(value);
        let mut completed = self.completed.load(Ordering::Relaxed);
        while let Some(at) = early.iter().position(|&value| value == completed + 1) {
            early.swap_remove(at);
            completed += 1;
        }
        self.completed.store(completed, Ordering::Release);
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

    /// True once the command buffer and all before it have ended and their completion handlers have run. The event says
    /// nothing about that: the GPU may count a command buffer before anybody knows that it failed.
    pub(super) fn is_done(&self, value: u64) -> bool {
        self.completed.load(Ordering::Acquire) >= value
    }

    /// Waits until a command buffer and all before it have ended and are reported, their GPU time included.
    ///
    /// # Errors
    /// The first of any that have ended; a queue in which nothing moves.
    pub(super) fn wait(&self, event: &impl Signal, value: u64) -> Result<(), GpuError> {
        self.wait_for(event, value, STUCK)
    }

    fn wait_for(&self, event: &impl Signal, value: u64, stuck: Duration) -> Result<(), GpuError> {
        let start = Instant::now();
        while start.elapsed() < SPIN {
            if self.is_done(value) {
                return self.check();
            }
            std::hint::spin_loop();
        }
        let (mut moved, mut seen) = (Instant::now(), (0, 0));
        while !self.is_done(value) {
            let now = (self.completed.load(Ordering::Acquire), event.value());
            if now != seen {
                (moved, seen) = (Instant::now(), now);
            }
            if moved.elapsed() > stuck {
                self.check()?;
                return Err(GpuError::Device {
                    call: format!("waiting for command buffer {value}"),
                    what: format!(
                        "nothing has moved for {} s; {} are done, the GPU has counted {}",
                        stuck.as_secs_f32(),
                        now.0,
                        now.1
                    ),
                });
            }
            if now.1 < value {
                event.sleep(value, SLICE.min(stuck));
            } else {
                event.pause();
            }
        }
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// An event that reaches `value` at the `at`-th sleep, if it ever does; the handler runs `late` pauses after.
    struct Fake<'a> {
        progress: &'a Progress,
        value: AtomicU64,
        sleeps: AtomicU32,
        at: u32,
        pauses: AtomicU32,
        late: u32,
        error: Option<GpuError>,
    }

    impl<'a> Fake<'a> {
        fn new(progress: &'a Progress, at: u32, late: u32) -> Self {
            let (value, sleeps, pauses) = Default::default();
            Self { progress, value, sleeps, at, pauses, late, error: None }
        }
    }

    impl Signal for Fake<'_> {
        fn value(&self) -> u64 {
            self.value.load(Ordering::Relaxed)
        }

        fn set(&self, value: u64) {
            self.value.store(value, Ordering::Relaxed);
        }

        fn sleep(&self, value: u64, _: Duration) {
            if self.sleeps.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
                self.set(value);
            }
        }

        fn pause(&self) {
            if self.pauses.fetch_add(1, Ordering::Relaxed) + 1 == self.late {
                self.progress.complete(self.value(), Duration::ZERO, self.error.clone());
            }
        }
    }

    fn lost() -> Option<GpuError> {
        Some(GpuError::Device { call: "decode".to_owned(), what: "lost".to_owned() })
    }

    #[test]
    fn a_waiter_sleeps_until_the_handler_has_run() {
        let progress = Progress::default();
        let event = Fake::new(&progress, 3, 2);
        progress.wait(&event, 1).expect("signalled and reported");
        assert_eq!(event.sleeps.load(Ordering::Relaxed), 3);
        assert_eq!(event.pauses.load(Ordering::Relaxed), 2);
        assert!(progress.is_done(1) && !progress.is_done(2));
        progress.wait(&event, 1).expect("at once");
    }

    #[test]
    fn what_the_gpu_has_counted_may_still_have_failed() {
        let progress = Progress::default();
        let event = Fake { error: lost(), ..Fake::new(&progress, 1, 3) };
        let words = progress.wait(&event, 1).unwrap_err().to_string();
        assert_eq!(words, "decode: lost", "the event was there before the error");
    }

    #[test]
    fn a_failed_command_buffer_releases_its_waiters_and_is_not_forgotten() {
        let progress = Progress::default();
        let event = Fake::new(&progress, u32::MAX, u32::MAX);
        progress.complete(1, Duration::from_millis(2), None);
        progress.complete(2, Duration::ZERO, lost());
        progress.complete(3, Duration::from_millis(1), None);
        for value in [1, 2, 3] {
            assert_eq!(progress.wait(&event, value).unwrap_err().to_string(), "decode: lost");
        }
        assert_eq!(progress.gpu_time(), Duration::from_millis(3));
    }

    #[test]
    fn handlers_in_another_order_hide_nothing() {
        let progress = Progress::default();
        progress.complete(3, Duration::ZERO, None);
        progress.complete(2, Duration::ZERO, None);
        assert!(!progress.is_done(1) && !progress.is_done(3), "the first may still have failed");
        progress.complete(1, Duration::ZERO, None);
        assert!(progress.is_done(3) && !progress.is_done(4));
    }

    #[test]
    fn a_queue_that_stands_still_is_an_error() {
        let progress = Progress::default();
        let event = Fake::new(&progress, u32::MAX, u32::MAX);
        let error = progress.wait_for(&event, 1, Duration::from_millis(5)).unwrap_err().to_string();
        assert!(error.starts_with("waiting for command buffer 1: nothing has moved"), "{error}");
        event.set(1);
        let error = progress.wait_for(&event, 1, Duration::from_millis(5)).unwrap_err().to_string();
        assert!(error.ends_with("0 are done, the GPU has counted 1"), "{error}");
    }
}
