//! From the engine's thread to an asynchronous reader: a bounded queue whose sender never waits.
//!
//! The engine serves everyone on one thread, so a slow reader must not make it wait. Events queue up to a limit in
//! bytes; past it the generation is cancelled and its reader finds [`Overrun`] after what had been queued. A reader
//! that goes away cancels its generation at the next event, that is, within one token or one prefill chunk.

use lily_engine::Event;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// More was waiting than the limit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overrun;

/// The engine's end.
pub(crate) struct Sender(Arc<Shared>);

/// The reader's end.
pub(crate) struct Receiver(Arc<Shared>);

struct Shared {
    limit: usize,
    queue: Mutex<Queue>,
    ready: Notify,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    overrun: bool,
    sender_gone: bool,
    receiver_gone: bool,
}

/// A queue of at most `limit` bytes.
pub(crate) fn mailbox(limit: usize) -> (Sender, Receiver) {
    let shared = Arc::new(Shared { limit, queue: Mutex::default(), ready: Notify::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code that holds the lock can panic half-way; a poisoned queue is a whole one.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Queues an event; `Break` when no one will read on.
    pub(crate) fn send(&self, event: Event) -> ControlFlow<()> {
        let mut queue = self.0.queue();
        if queue.receiver_gone || queue.overrun {
            return ControlFlow::Break(());
        }
        if let (Event::Prefill { .. }, Some(last @ Event::Prefill { .. })) = (&event, queue.events.back_mut())
        {
            *last = event;
            return ControlFlow::Continue(());
        }
        let bytes = size(&event);
        if queue.bytes + bytes > self.0.limit {
            queue.overrun = true;
        } else {
            queue.bytes += bytes;
            queue.events.push_back(event);
        }
        let overrun = queue.overrun;
        drop(queue);
        self.0.ready.notify_one();
        if overrun { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.queue().sender_gone = true;
        self.0.ready.notify_one();
    }
}

impl Receiver {
    /// The next event; `None` after the last. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Option<Result<Event, Overrun>> {
        loop {
            let ready = self.0.ready.notified();
            if let Some(next) = self.0.queue().pop() {
                return next;
            }
            ready.await;
        }
    }
}

impl Queue {
    /// `None` when nothing can be said yet.
    fn pop(&mut self) -> Option<Option<Result<Event, Overrun>>> {
        if let Some(event) = self.events.pop_front() {
            self.bytes = self.bytes.saturating_sub(size(&event));
            return Some(Some(Ok(event)));
        }
        if self.overrun {
            return Some(Some(Err(Overrun)));
        }
        self.sender_gone.then_some(None)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.receiver_gone = true;
        queue.events.clear();
    }
}

/// Bytes that an event holds.
fn size(event: &Event) -> usize {
    let text = match event {
        Event::Token { text, logprob, .. } => {
            text.len() + logprob.as_ref().map_or(0, |logprob| size_of_val(logprob.top.as_slice()))
        }
        Event::Finished { text, .. } => text.len(),
        Event::Prefill { .. } | Event::Failed(_) => 0,
    };
    size_of::<Event>() + text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lily_engine::TokenId;

    fn token(text: &str) -> Event {
        Event::Token { id: TokenId(0), text: text.to_owned(), logprob: None }
    }

    #[tokio::test]
    async fn events_arrive_in_order_and_then_the_end() {
        let (sender, mut receiver) = mailbox(1 << 20);
        assert!(sender.send(token("a")).is_continue());
        assert!(sender.send(token("b")).is_continue());
        drop(sender);
        let mut texts = Vec::new();
        while let Some(Ok(Event::Token { text, .. })) = receiver.next().await {
            texts.push(text);
        }
        assert_eq!(texts, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_reader_that_is_too_slow_gets_what_fits_and_then_an_overrun() {
        let (sender, mut receiver) = mailbox(10 * size(&token("x")));
        let sent = (0..100).take_while(|_| sender.send(token("x")).is_continue()).count();
        assert_eq!(sent, 10);
        assert!(sender.send(token("x")).is_break());
        for _ in 0..sent {
            assert!(matches!(receiver.next().await, Some(Ok(Event::Token { .. }))));
        }
        assert!(matches!(receiver.next().await, Some(Err(Overrun))));
    }

    #[tokio::test]
    async fn reading_makes_room_again() {
        let (sender, mut receiver) = mailbox(2 * size(&token("x")));
        for _ in 0..100 {
            assert!(sender.send(token("x")).is_continue());
            assert!(matches!(receiver.next().await, Some(Ok(_))));
        }
    }

    #[tokio::test]
    async fn progress_does_not_pile_up() {
        let (sender, mut receiver) = mailbox(2 * size(&token("")));
        for done in 0..1000 {
            assert!(sender.send(Event::Prefill { done, total: 1000 }).is_continue());
        }
        assert!(matches!(receiver.next().await, Some(Ok(Event::Prefill { done: 999, .. }))));
    }

    #[test]
    fn a_reader_gone_cancels_at_the_next_event() {
        let (sender, receiver) = mailbox(1 << 20);
        drop(receiver);
        assert!(sender.send(token("a")).is_break());
    }
}
