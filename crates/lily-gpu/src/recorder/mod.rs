//! Recording: a plan says what to launch in program order, the recorder finds out what can overlap.
//!
//! ```ignore
//! recorder
//!     .dispatch(&kernel, [rows / 8, 1, 1])
//!     .bind("w", &codes)
//!     .bind("x", &x)
//!     .bind("y", &y)
//!     .param("n", rows)
//!     .label("gdn.in_proj");
//! ```
//!
//! A dispatch is recorded when its builder goes out of scope. What is wrong with it (a name that the kernel does not
//! have, one that is not bound, parameters that are missing) comes out of [`Recorder::finish`], with the label.

mod dispatch;
mod levels;
mod recording;
mod report;

pub use dispatch::{DispatchBuilder, Scalar};
pub use recording::{Bound, Command, Dispatch, Recording};
pub use report::{Line, Report};

use crate::Kernel;

/// What is wrong with a recorded dispatch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{label}, kernel {entry}: {what}")]
pub struct RecordError {
    /// The dispatch's label.
    pub label: String,
    /// The kernel's entry point.
    pub entry: String,
    /// What is wrong.
    pub what: String,
}

/// Collects dispatches in program order.
#[derive(Debug, Default)]
pub struct Recorder {
    dispatches: Vec<Dispatch>,
    /// The first.
    error: Option<RecordError>,
}

impl Recorder {
    /// An empty recording.
    pub fn new() -> Self {
        Self::default()
    }

    /// A launch of `groups` threadgroups. Its arguments are bound by the builder's methods.
    pub fn dispatch(&mut self, kernel: &Kernel, groups: [u32; 3]) -> DispatchBuilder<'_> {
        DispatchBuilder::new(self, kernel, groups)
    }

    /// Dispatches so far.
    pub fn len(&self) -> usize {
        self.dispatches.len()
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.dispatches.is_empty()
    }

    /// Derives the dependency levels.
    ///
    /// # Errors
    /// The first thing that was recorded wrongly.
    pub fn finish(self) -> Result<Recording, RecordError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Recording::new(self.dispatches)),
        }
    }

    fn push(&mut self, dispatch: Result<Dispatch, RecordError>) {
        match dispatch {
            Ok(dispatch) => self.dispatches.push(dispatch),
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
    }
}

#[cfg(test)]
mod tests;
