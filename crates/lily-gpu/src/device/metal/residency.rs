//! Keeps the device's memory wired between tokens: all buffers are in one set, which is requested again and again while there
//! is work.

use super::heartbeat::Heartbeat;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// A residency set. Each method is one call.
pub(super) trait Set: Send + 'static {
    /// What is added to it.
    type Allocation: ?Sized;

    /// Adds one, from the next [`Set::commit`] on.
    fn add(&self, allocation: &Self::Allocation);

    /// Removes one, from the next [`Set::commit`] on.
    fn remove(&self, allocation: &Self::Allocation);

    /// Removes all, from the next [`Set::commit`] on.
    fn clear(&self);

    /// What was added and removed takes effect.
    fn commit(&self);

    /// Wires what is in the set.
    fn request(&self);

    /// Lets go of it.
    fn end(&self);
}

/// One set of all buffers.
pub(super) struct Residency<S: Set> {
    set: Arc<Mutex<S>>,
    /// Something was added or removed and is not committed.
    changed: Arc<AtomicBool>,
    heartbeat: Option<Heartbeat>,
}

impl<S: Set> Residency<S> {
    /// Takes over a set that the queue knows already.
    pub(super) fn new(set: S) -> Self {
        let set = Arc::new(Mutex::new(set));
        let changed = Arc::new(AtomicBool::new(false));
        let (beaten, dirty) = (set.clone(), changed.clone());
        // The first time it takes as long as wiring the whole model does.
        let beat = move || {
            let set = beaten.lock().unwrap_or_else(PoisonError::into_inner);
            commit(&*set, &dirty);
            set.request();
        };
        let heartbeat =
            Heartbeat::start(beat).inspect_err(|error| tracing::warn!("no heartbeat: {error}")).ok();
        Self { set, changed, heartbeat }
    }

    fn set(&self) -> MutexGuard<'_, S> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a buffer, from the next work on.
    pub(super) fn add(&self, allocation: &S::Allocation) {
        self.set().add(allocation);
        self.changed.store(true, Ordering::Release);
    }

    /// Removes a buffer that is about to go.
    pub(super) fn remove(&self, allocation: &S::Allocation) {
        self.set().remove(allocation);
        self.changed.store(true, Ordering::Release);
    }

    /// There is work: what was added takes part from now on, and memory is kept for a while after.
    pub(super) fn worked(&self) {
        // Without a change there is no reason to wait for the thread that may be asking for residency.
        if self.changed.load(Ordering::Acquire) {
            commit(&*self.set(), &self.changed);
        }
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.worked();
        }
    }
}

fn commit(set: &impl Set, changed: &AtomicBool) {
    if changed.swap(false, Ordering::AcqRel) {
        set.commit();
    }
}

impl<S: Set> Drop for Residency<S> {
    fn drop(&mut self) {
        self.heartbeat = None;
        let set = self.set();
        set.end();
        set.clear();
        set.commit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Writes down what it is told.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl Told {
        fn say(&self, what: &str) {
            self.0.lock().expect("nobody panicked").push(what.to_owned());
        }

        fn all(&self) -> Vec<String> {
            self.0.lock().expect("nobody panicked").clone()
        }
    }

    impl Set for Told {
        type Allocation = str;

        fn add(&self, allocation: &str) {
            self.say(&format!("add {allocation}"));
        }

        fn remove(&self, allocation: &str) {
            self.say(&format!("remove {allocation}"));
        }

        fn clear(&self) {
            self.say("clear");
        }

        fn commit(&self) {
            self.say("commit");
        }

        fn request(&self) {
            self.say("request");
        }

        fn end(&self) {
            self.say("end");
        }
    }

    #[test]
    fn what_is_added_is_committed_before_work_and_requested_with_it() {
        let told = Told::default();
        let residency = Residency::new(told.clone());
        residency.add("weights");
        residency.add("state");
        residency.remove("state");
        assert_eq!(told.all(), ["add weights", "add state", "remove state"], "no work yet");
        residency.worked();
        assert_eq!(told.all()[3], "commit");
        let start = Instant::now();
        while !told.all().contains(&"request".to_owned()) {
            assert!(start.elapsed() < Duration::from_secs(10), "nothing is requested");
            std::thread::sleep(Duration::from_millis(1));
        }
        residency.worked();
        drop(residency);
        let all = told.all();
        let (worked, end) = all.split_at(all.len() - 3);
        assert_eq!(end, ["end", "clear", "commit"]);
        assert!(worked[4..].iter().all(|call| call == "request"), "{all:?}");
    }
}
