//! Keeps memory wired while a program is in use: the system lets go of a GPU's memory about a second after its last work, and
//! the next token would pay for getting it back.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Between two beats.
const BEAT: Duration = Duration::from_millis(250);
/// After the last work, memory is kept for so long.
const KEEP: Duration = Duration::from_secs(180);

/// What the thread and its owner share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Until when to beat.
    until: Instant,
    ended: bool,
}

/// A thread that calls something often while there was work lately, and sleeps otherwise.
pub(super) struct Heartbeat {
    shared: Arc<Shared>,
    keep: Duration,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts the thread; `beat` is called first after [`Heartbeat::worked`].
    pub(super) fn start(beat: impl FnMut() + Send + 'static) -> std::io::Result<Self> {
        Self::with(BEAT, KEEP, beat)
    }

    fn with(every: Duration, keep: Duration, beat: impl FnMut() + Send + 'static) -> std::io::Result<Self> {
        let state = State { until: Instant::now(), ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let own = shared.clone();
        let thread = std::thread::Builder::new()
            .name("lily-residency".to_owned())
            .spawn(move || run(&own, every, beat))?;
        Ok(Self { shared, keep, thread: Some(thread) })
    }

    /// There was work just now.
    pub(super) fn worked(&self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let asleep = state.until <= now;
        state.until = now + self.keep;
        drop(state);
        if asleep {
            self.shared.changed.notify_all();
        }
    }
}

fn run(shared: &Shared, every: Duration, mut beat: impl FnMut()) {
    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.ended {
        if state.until <= Instant::now() {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        drop(state);
        beat();
        state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.ended {
            state = shared.changed.wait_timeout(state, every).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that keeps memory wired has panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn it_beats_after_work_and_ends_with_its_owner() {
        let beats = Arc::new(AtomicU32::new(0));
        let counted = beats.clone();
        let beat = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let (every, keep) = (Duration::from_millis(2), Duration::from_secs(60));
        let heart = Heartbeat::with(every, keep, beat).expect("a thread");
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(beats.load(Ordering::Relaxed), 0, "no work yet");
        heart.worked();
        let start = Instant::now();
        while beats.load(Ordering::Relaxed) < 3 {
            assert!(start.elapsed() < Duration::from_secs(10), "it does not beat");
            std::thread::sleep(every);
        }
        drop(heart);
        drop(Heartbeat::start(|| {}).expect("a thread that nobody wakes ends too"));
        let at_end = beats.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(beats.load(Ordering::Relaxed), at_end);
    }

    #[test]
    fn it_stops_when_there_is_no_work() {
        let beats = Arc::new(AtomicU32::new(0));
        let counted = beats.clone();
        let beat = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let heart =
            Heartbeat::with(Duration::from_millis(1), Duration::from_millis(5), beat).expect("a thread");
        heart.worked();
        std::thread::sleep(Duration::from_millis(60));
        let rested = beats.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(30));
        assert!(rested >= 1 && beats.load(Ordering::Relaxed) <= rested + 1, "{rested}");
    }
}
