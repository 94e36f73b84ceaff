//! The stream, and events that tell how far it is.

use super::driver::{Context, named};
use crate::{GpuError, device::Ticket};
use cudarc::driver::{result, sys};
use std::sync::Arc;

/// Moments that can be told apart: older tickets are waited for by the next younger event.
const EVENTS: usize = 32;

/// A stream of the device.
pub(super) struct Stream {
    context: Arc<Context>,
    stream: sys::CUstream,
}

// SAFETY: a stream handle may be used from any thread with the context current.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, GpuError> {
        context.enter()?;
        let kind = result::stream::StreamKind::NonBlocking;
        Ok(Self { context: context.clone(), stream: named("cuStreamCreate", result::stream::create(kind))? })
    }

    pub(super) fn handle(&self) -> sys::CUstream {
        self.stream
    }

    /// Waits for everything on it.
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        // SAFETY: the stream is valid.
        named("waiting for the device", unsafe { result::stream::synchronize(self.stream) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let destroyed = self
            .context
            .enter()
            .and_then(|()| named("cuStreamDestroy", unsafe { result::stream::destroy(self.stream) }));
        if let Err(error) = destroyed {
            tracing::debug!("{error}");
        }
    }
}

/// An event of the device.
pub(super) struct Event {
    context: Arc<Context>,
    event: sys::CUevent,
}

// SAFETY: an event handle may be used from any thread with the context current.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// One that only says whether it has happened, or with `timed` also when.
    pub(super) fn new(context: &Arc<Context>, timed: bool) -> Result<Self, GpuError> {
        context.enter()?;
        let flags = if timed {
            sys::CUevent_flags::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING
        };
        Ok(Self { context: context.clone(), event: named("cuEventCreate", result::event::create(flags))? })
    }

    pub(super) fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        // SAFETY: both are valid.
        named("cuEventRecord", unsafe { result::event::record(self.event, stream.handle()) })
    }

    pub(super) fn wait(&self) -> Result<(), GpuError> {
        // SAFETY: the event is valid.
        named("waiting for the device", unsafe { result::event::synchronize(self.event) })
    }

    pub(super) fn has_happened(&self) -> Result<bool, GpuError> {
        // SAFETY: the event is valid.
        match unsafe { result::event::query(self.event) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => named("cuEventQuery", Err(error)),
        }
    }

    /// Milliseconds from `start` to this one.
    pub(super) fn since(&self, start: &Self) -> Result<f32, GpuError> {
        // SAFETY: both are valid, timed and have happened, or the driver says so.
        named("cuEventElapsedTime", unsafe { result::event::elapsed(start.event, self.event) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let destroyed = self
            .context
            .enter()
            .and_then(|()| named("cuEventDestroy", unsafe { result::event::destroy(self.event) }));
        if let Err(error) = destroyed {
            tracing::debug!("{error}");
        }
    }
}

/// What was given to the stream so far.
pub(super) struct Moments {
    events: Vec<Event>,
    given: u64,
}

impl Moments {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, GpuError> {
        let events = (0..EVENTS).map(|_| Event::new(context, false)).collect::<Result<_, _>>()?;
        Ok(Self { events, given: 0 })
    }

    /// Marks the present end of the stream.
    pub(super) fn mark(&mut self, stream: &Stream) -> Result<Ticket, GpuError> {
        self.given += 1;
        self.events[self.given as usize % EVENTS].record(stream)?;
        Ok(Ticket(self.given))
    }

    /// The event that has happened only when the ticket's moment is past; `None` if nothing was given yet.
    pub(super) fn event(&self, ticket: Ticket) -> Option<&Event> {
        // An event that was recorded again stands for a later moment of the same place in the ring.
        (self.given > 0 && ticket.0 > 0).then(|| &self.events[ticket.0 as usize % EVENTS])
    }
}
