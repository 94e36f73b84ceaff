//! The way back to whoever asked.

use crate::{Event, GenerationError};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Receives the events of a generation.
pub(crate) type Sink = Box<dyn FnMut(Event) -> ControlFlow<()> + Send>;

/// A sink that hears exactly one last event, unless it asked to hear no more. A panic in it ends its own generation
/// and nothing else.
pub(crate) struct Reply {
    sink: Option<Sink>,
}

impl Reply {
    pub(crate) fn new(sink: Sink) -> Self {
        Self { sink: Some(sink) }
    }

    /// Hands over an event that is not the last; false if no more are wanted.
    pub(crate) fn send(&mut self, event: Event) -> bool {
        let Some(sink) = &mut self.sink else { return false };
        match catch_unwind(AssertUnwindSafe(|| sink(event))) {
            Ok(ControlFlow::Continue(())) => return true,
            Ok(ControlFlow::Break(())) => {}
            Err(_) => tracing::error!("a receiver of events panicked; its generation is cancelled"),
        }
        self.close();
        false
    }

    /// Hands over the last event.
    pub(crate) fn end(&mut self, event: Event) {
        self.send(event);
        self.close();
    }

    /// Says nothing more.
    pub(crate) fn close(&mut self) {
        let sink = self.sink.take();
        // What a receiver owns may panic when it is dropped.
        if catch_unwind(AssertUnwindSafe(|| drop(sink))).is_err() {
            tracing::error!("a receiver of events panicked when it was dropped");
        }
    }
}

impl Drop for Reply {
    /// Whatever happens, nobody waits for ever.
    fn drop(&mut self) {
        if self.sink.is_some() {
            self.end(Event::Failed(GenerationError::Internal("the engine's thread has ended".to_owned())));
        }
    }
}
