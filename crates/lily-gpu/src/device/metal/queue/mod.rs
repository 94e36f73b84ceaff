//! The order of everything that the GPU is given, by which calls it is told, and who waits for what.
//!
//! Each command buffer has one encoder: it waits for the fence first, unless it is the queue's first, and updates it last. The
//! command buffer then counts the shared event up, takes its completion handler and is committed, all inside an autorelease
//! pool. What it uses is held by the handler. At most [`IN_FLIGHT`] are under way. The calls themselves are [`Calls`], one
//! each, so that a simulated queue can stand for Metal's in tests.

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

use super::{
    encode::{self, Encoder},
    failure, numbers,
    parts::{self, BUDGET, Pace},
    progress::{Progress, Signal},
    transfers::{Transfer, Transfers},
};
use crate::{Buffer, Dispatch, GpuError, Pass, Recording, Ticket};
use std::{
    any::Any,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Command buffers that may be under way.
pub(super) const IN_FLIGHT: u64 = 2;

/// The calls of a command queue with its fence and its event. Each method is one call.
pub(super) trait Calls {
    /// A command buffer.
    type Buffer;
    /// The shared event.
    type Event: Signal + Clone + Send + 'static;
    /// An encoder of dispatches.
    type Compute: Encoder + Fenced;
    /// An encoder of transfers.
    type Blit: Blit + Fenced;

    /// Runs something inside an autorelease pool.
    fn pool<T>(work: impl FnOnce() -> T) -> T;

    /// A new command buffer, which holds nothing of what it uses.
    fn begin(&self) -> Result<Self::Buffer, GpuError>;

    /// Its encoder of dispatches, of an `MTLDispatchType`.
    fn compute(&self, buffer: &Self::Buffer, dispatch_type: usize) -> Result<Self::Compute, GpuError>;

    /// Its encoder of transfers.
    fn blit(&self, buffer: &Self::Buffer) -> Result<Self::Blit, GpuError>;

    /// The GPU raises the event when it comes to here.
    fn signal(&self, buffer: &Self::Buffer, value: u64);

    /// What to call when the GPU has ended the command buffer. It is held until then.
    fn on_completed(&self, buffer: &Self::Buffer, handler: impl Fn(&Ended) + Send + 'static);

    /// Hands the command buffer over.
    fn commit(&self, buffer: Self::Buffer);

    /// The event.
    fn event(&self) -> &Self::Event;

    /// There is work: memory that was added is to take part.
    fn working(&self);
}

/// An encoder's ends.
pub(super) trait Fenced {
    /// What follows waits for the fence.
    fn wait(&mut self);

    /// The fence is passed when what is ahead has ended.
    fn update(&mut self);

    /// Nothing more comes.
    fn end(self);
}

/// An encoder of transfers.
pub(super) trait Blit {
    /// So many bytes from an offset of one buffer to an offset of another.
    fn copy(&mut self, from: (&Buffer, usize), to: (&Buffer, usize), bytes: usize) -> Result<(), GpuError>;

    /// Zero bytes.
    fn zero(&mut self, buffer: &Buffer, range: Range<usize>) -> Result<(), GpuError>;
}

/// How a command buffer has ended, in Metal's words.
pub(super) struct Ended {
    /// `MTLCommandBufferStatus`.
    pub(super) status: usize,
    /// Code and text.
    pub(super) error: Option<(isize, String)>,
    /// GPU time in seconds: start and end.
    pub(super) seconds: (f64, f64),
}

/// A recording that is ready to be encoded.
pub(super) struct Prepared {
    pub(super) recording: Recording,
    pub(super) pass: Pass,
    /// Of the kernel of each dispatch.
    pub(super) paces: Vec<Arc<Pace>>,
}

/// The one queue of a device. Several threads may use it.
pub(super) struct Queue<C: Calls> {
    line: Mutex<Line<C>>,
    progress: Arc<Progress>,
    event: C::Event,
}

/// The queue with nothing under way: as long as it lives, the host may touch the contents of buffers.
pub(super) struct Settled<'a, C: Calls> {
    _line: MutexGuard<'a, Line<C>>,
}

impl<C: Calls> Queue<C> {
    pub(super) fn new(calls: C) -> Self {
        let (progress, event) = (Arc::<Progress>::default(), calls.event().clone());
        let line = Line { calls, progress: progress.clone(), committed: 0, transfers: Transfers::default() };
        Self { line: Mutex::new(line), progress, event }
    }

    fn line(&self) -> MutexGuard<'_, Line<C>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a recording in as many command buffers as it takes, after everything that came before.
    pub(super) fn run(&self, prepared: &Arc<Prepared>) -> Result<Ticket, GpuError> {
        let mut line = self.line();
        line.flush()?;
        line.calls.working();
        line.run(prepared)
    }

    /// Queues a transfer; those that do not depend on each other go together.
    pub(super) fn transfer(&self, transfer: Transfer) -> Result<(), GpuError> {
        self.line().transfer(transfer)
    }

    /// Waits for everything.
    pub(super) fn settled(&self) -> Result<Settled<'_, C>, GpuError> {
        let mut line = self.line();
        line.flush()?;
        self.progress.wait(&self.event, line.committed)?;
        Ok(Settled { _line: line })
    }

    /// Waits for everything that was committed, transfers that wait not included: before the queue goes.
    pub(super) fn drain(&self) -> Result<(), GpuError> {
        let committed = self.line().committed;
        self.progress.wait(&self.event, committed)
    }

    /// Waits for everything up to a ticket.
    pub(super) fn wait(&self, ticket: Ticket) -> Result<(), GpuError> {
        self.line().flush()?;
        self.progress.wait(&self.event, ticket.0)
    }

    /// True once everything up to a ticket is done.
    pub(super) fn is_done(&self, ticket: Ticket) -> Result<bool, GpuError> {
        let done = self.progress.is_done(ticket.0);
        self.progress.check()?;
        Ok(done)
    }

    /// GPU time of everything that is done.
    pub(super) fn gpu_time(&self) -> Duration {
        self.progress.gpu_time()
    }
}

/// What only one thread at a time touches.
struct Line<C> {
    calls: C,
    progress: Arc<Progress>,
    /// Command buffers so far.
    committed: u64,
    /// Not encoded yet.
    transfers: Transfers,
}

/// What a command buffer leaves for its completion handler.
struct Committed {
    label: String,
    /// Expected GPU time, and what to correct when the true one is known.
    expected: Duration,
    paces: Vec<Arc<Pace>>,
    /// Buffers and pipelines: the command buffer does not hold them itself.
    _used: Box<dyn Any + Send>,
}

/// What a command buffer has to do.
enum Work<'a> {
    Transfers(&'a [Transfer]),
    Dispatches(&'a [Dispatch], Pass),
}

impl<C: Calls> Line<C> {
    fn transfer(&mut self, transfer: Transfer) -> Result<(), GpuError> {
        if self.transfers.conflict(&transfer) {
            self.flush()?;
        }
        self.transfers.push(transfer);
        Ok(())
    }

    /// Commits the transfers that wait.
    fn flush(&mut self) -> Result<(), GpuError> {
        let transfers = self.transfers.take();
        if transfers.is_empty() {
            return Ok(());
        }
        let committed = Committed {
            label: "copies".to_owned(),
            expected: Duration::ZERO,
            paces: Vec::new(),
            _used: Box::new(transfers.clone()),
        };
        self.commit(committed, &Work::Transfers(&transfers))
    }

    /// Commits a recording in parts.
    fn run(&mut self, prepared: &Arc<Prepared>) -> Result<Ticket, GpuError> {
        let dispatches = prepared.recording.dispatches();
        let paces = prepared.paces.iter().zip(dispatches);
        let costs: Vec<f64> = paces.map(|(pace, dispatch)| pace.nanoseconds(dispatch)).collect();
        for part in parts::parts(dispatches, BUDGET, &costs) {
            let mut paces: Vec<Arc<Pace>> = Vec::new();
            for pace in &prepared.paces[part.clone()] {
                if !paces.iter().any(|known| Arc::ptr_eq(known, pace)) {
                    paces.push(pace.clone());
                }
            }
            let nanoseconds: f64 = costs[part.clone()].iter().sum();
            let committed = Committed {
                label: dispatches[part.start].label.to_string(),
                expected: Duration::from_nanos(nanoseconds as u64),
                paces,
                _used: Box::new(prepared.clone()),
            };
            self.commit(committed, &Work::Dispatches(&dispatches[part], prepared.pass))?;
        }
        Ok(Ticket(self.committed))
    }

    /// Commits one command buffer.
    fn commit(&mut self, committed: Committed, work: &Work<'_>) -> Result<(), GpuError> {
        let (value, first) = (self.committed + 1, self.committed == 0);
        self.progress.check()?;
        if value > IN_FLIGHT {
            self.progress.wait(self.calls.event(), value - IN_FLIGHT)?;
        }
        C::pool(|| {
            let buffer = self.calls.begin()?;
            match *work {
                Work::Transfers(transfers) => between(self.calls.blit(&buffer)?, first, |encoder| {
                    transfers.iter().try_for_each(|transfer| blit(encoder, transfer))
                }),
                Work::Dispatches(dispatches, pass) => {
                    let encoder = self.calls.compute(&buffer, numbers::dispatch_type(pass))?;
                    between(encoder, first, |encoder| encode::encode(dispatches, pass, encoder))
                }
            }?;
            self.calls.signal(&buffer, value);
            let (progress, event) = (self.progress.clone(), self.calls.event().clone());
            self.calls.on_completed(&buffer, move |ended| {
                completed(ended, value, &committed, &progress, &event);
            });
            self.calls.commit(buffer);
            Ok::<(), GpuError>(())
        })?;
        self.committed = value;
        Ok(())
    }
}

/// Encodes something between the fence of what is ahead and that of what follows. The encoder is ended in any case.
fn between<E: Fenced>(
    mut encoder: E,
    first: bool,
    encode: impl FnOnce(&mut E) -> Result<(), GpuError>,
) -> Result<(), GpuError> {
    if !first {
        encoder.wait();
    }
    let encoded = encode(&mut encoder);
    encoder.update();
    encoder.end();
    encoded
}

/// Encodes one transfer.
fn blit(encoder: &mut impl Blit, transfer: &Transfer) -> Result<(), GpuError> {
    match transfer {
        Transfer::Copy { from, to } => {
            let bytes = from.bytes().min(to.bytes());
            encoder.copy((from.buffer(), from.offset()), (to.buffer(), to.offset()), bytes)
        }
        Transfer::Zero(view) => encoder.zero(view.buffer(), view.range()),
    }
}

/// Takes note of a command buffer that has ended.
fn completed(ended: &Ended, value: u64, committed: &Committed, progress: &Progress, event: &impl Signal) {
    let took = Duration::try_from_secs_f64(ended.seconds.1 - ended.seconds.0).unwrap_or_default();
    let error = (ended.status != numbers::COMPLETED).then(|| match &ended.error {
        Some((code, text)) => failure::command_buffer(&committed.label, *code, text),
        None => failure::command_buffer(&committed.label, 0, &format!("status {}", ended.status)),
    });
    let failed = error.is_some();
    progress.complete(value, took, error);
    if failed && event.value() < value {
        // Its own signal may never come.
        event.set(value);
    }
    if !failed && !committed.expected.is_zero() {
        let ratio = took.as_secs_f64() / committed.expected.as_secs_f64();
        committed.paces.iter().for_each(|pace| pace.correct(ratio));
    }
}
