//! Letting go of what is large on a thread where that may take its time.

use tokio::runtime::Handle;

/// Drops a value away from the threads that serve connections.
pub(crate) fn drop_elsewhere<T: Send + 'static>(value: T) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn_blocking(move || drop(value));
    }
}

/// Keeps something that is shared with its owner until the owner is gone, and drops it elsewhere.
pub(crate) struct Kept<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send + 'static> Drop for Kept<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            drop_elsewhere(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};

    /// Tells where it was dropped.
    struct Witness(Sender<ThreadId>);

    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).expect("someone listens");
        }
    }

    #[tokio::test]
    async fn it_is_dropped_on_another_thread() {
        let (sender, dropped) = channel();
        drop(Kept::new(Witness(sender)));
        let place = tokio::task::spawn_blocking(move || dropped.recv()).await.expect("a thread");
        assert_ne!(place.expect("dropped"), thread::current().id());
    }

    #[test]
    fn without_a_runtime_it_is_dropped_here() {
        let (sender, dropped) = channel();
        drop(Kept::new(Witness(sender)));
        assert_eq!(dropped.recv().expect("dropped"), thread::current().id());
    }
}
