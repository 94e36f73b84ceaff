//! What the handles of an engine and its thread share: the waiting requests and how things stand.

use crate::reply::{Reply, Sink};
use crate::{CancelToken, Event, GenerationError, GenerationRequest, Metrics, SubmitError};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A request that waits for its turn.
pub(crate) struct Job {
    pub(crate) request: GenerationRequest,
    pub(crate) reply: Reply,
    /// Set when nobody listens any more.
    pub(crate) abandoned: CancelToken,
    pub(crate) submitted: Instant,
}

impl Job {
    /// Why it should not be started or carried on, if so.
    pub(crate) fn verdict(&self) -> Option<GenerationError> {
        verdict(&self.request, &self.abandoned)
    }
}

/// Why a request should not be carried on, if so.
pub(crate) fn verdict(request: &GenerationRequest, abandoned: &CancelToken) -> Option<GenerationError> {
    if request.cancel.is_cancelled() || abandoned.is_cancelled() {
        Some(GenerationError::Cancelled)
    } else if request.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        Some(GenerationError::DeadlinePassed)
    } else {
        None
    }
}

/// First come, first served, within limits.
pub(crate) struct Queue {
    max_running: usize,
    max_waiting: usize,
    state: Mutex<State>,
    /// Signals the engine's thread: there is work, or the end has been announced.
    work: Condvar,
    /// Signals those who wait for the end of the engine's thread.
    ended: Condvar,
    metrics: Mutex<Metrics>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    running: usize,
    /// When what still runs is to be ended, once the end has been announced.
    closing: Option<Instant>,
    dead: Option<String>,
    ended: bool,
    accepted: u64,
    refused: u64,
}

impl Queue {
    pub(crate) fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            max_running: max_running.max(1),
            max_waiting,
            state: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
            metrics: Mutex::default(),
        }
    }

    /// Requests that are taken at most at the same time.
    pub(crate) fn capacity(&self) -> usize {
        self.max_running.saturating_add(self.max_waiting)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a request whose contents have been checked.
    pub(crate) fn submit(
        &self,
        request: GenerationRequest,
        sink: Sink,
        abandoned: CancelToken,
    ) -> Result<(), SubmitError> {
        let mut state = self.lock();
        if let Some(reason) = &state.dead {
            return Err(SubmitError::Dead { reason: reason.clone() });
        }
        if state.closing.is_some() || state.ended {
            return Err(SubmitError::ShuttingDown);
        }
        let free = self.max_running.saturating_sub(state.running);
        if state.waiting.len() >= free.saturating_add(self.max_waiting) {
            state.refused += 1;
            return Err(SubmitError::Busy { waiting: state.waiting.len() - free });
        }
        state.accepted += 1;
        state.waiting.push_back(Job {
            request,
            reply: Reply::new(sink),
            abandoned,
            submitted: Instant::now(),
        });
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// The requests that may start now, oldest first; they count as running from here on. Those that should not start at
    /// all come second.
    pub(crate) fn admit(&self) -> (Vec<Job>, Vec<(Job, GenerationError)>) {
        let mut state = self.lock();
        let mut rejected = Vec::new();
        let mut kept = VecDeque::with_capacity(state.waiting.len());
        while let Some(job) = state.waiting.pop_front() {
            match job.verdict() {
                Some(error) => rejected.push((job, error)),
                None => kept.push_back(job),
            }
        }
        let free = self.max_running.saturating_sub(state.running).min(kept.len());
        let admitted: Vec<Job> = kept.drain(..free).collect();
        state.waiting = kept;
        state.running += admitted.len();
        (admitted, rejected)
    }

    /// A running generation has given back its place.
    pub(crate) fn release(&self) {
        self.lock().running -= 1;
    }

    /// Blocks until a request waits (true) or the end has been announced and none does (false).
    pub(crate) fn wait_for_work(&self) -> bool {
        let mut state = self.lock();
        while state.waiting.is_empty() && state.closing.is_none() {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.waiting.is_empty()
    }

    /// Announces the end: no new requests, and the running ones have until `deadline`.
    pub(crate) fn close(&self, deadline: Instant) {
        let mut state = self.lock();
        state.closing = Some(state.closing.map_or(deadline, |earlier| earlier.min(deadline)));
        drop(state);
        self.work.notify_one();
    }

    /// True when the time given by [`Queue::close`] is over.
    pub(crate) fn time_is_up(&self) -> bool {
        self.lock().closing.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The engine's thread ends; `fault` says why if it should not. Whoever still waits is told.
    pub(crate) fn end(&self, fault: Option<String>) {
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.waiting);
        state.running = 0;
        state.dead = fault;
        let error = match &state.dead {
            Some(reason) => GenerationError::Internal(reason.clone()),
            None => GenerationError::ShuttingDown,
        };
        state.ended = true;
        drop(state);
        for mut job in waiting {
            job.reply.end(Event::Failed(error.clone()));
        }
        self.ended.notify_all();
    }

    /// Blocks until the engine's thread is about to end.
    pub(crate) fn wait_for_end(&self) {
        let mut state = self.lock();
        while !state.ended {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes the thread's counters visible.
    pub(crate) fn publish(&self, metrics: &Metrics) {
        *self.metrics.lock().unwrap_or_else(PoisonError::into_inner) = metrics.clone();
    }

    /// The counters of this moment.
    pub(crate) fn metrics(&self) -> Metrics {
        let published = self.metrics.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let state = self.lock();
        Metrics {
            running: state.running,
            waiting: state.waiting.len(),
            accepting: state.closing.is_none() && !state.ended,
            accepted: state.accepted,
            refused_busy: state.refused,
            ..published
        }
    }
}
