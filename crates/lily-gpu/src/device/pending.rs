//! Something that is made in the background from the moment it is asked for.

use crate::GpuError;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What is being made, or why it could not be. Cheap to clone.
pub(super) struct Pending<T>(Arc<Slot<T>>);

struct Slot<T> {
    made: Mutex<Option<Result<T, GpuError>>>,
    ready: Condvar,
}

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone + Send + 'static> Pending<T> {
    /// Starts making it on the thread pool.
    pub(super) fn start(make: impl FnOnce() -> Result<T, GpuError> + Send + 'static) -> Self {
        let slot = Arc::new(Slot { made: Mutex::new(None), ready: Condvar::new() });
        let pending = Self(slot.clone());
        rayon::spawn(move || {
            let made = make();
            *slot.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            slot.ready.notify_all();
        });
        pending
    }

    /// Waits until it is made.
    pub(super) fn wait(&self) -> Result<T, GpuError> {
        let mut made = self.0.made.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(made) = &*made {
                return made.clone();
            }
            made = self.0.ready.wait(made).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_who_waits_gets_what_was_made() {
        let pending = Pending::start(|| Ok(7));
        let other = pending.clone();
        assert_eq!((pending.wait().expect("made"), other.wait().expect("made")), (7, 7));
        let failed: Pending<u32> = Pending::start(|| Err(GpuError::TooLarge("no".to_owned())));
        assert_eq!(failed.wait().unwrap_err().to_string(), "no");
    }
}
