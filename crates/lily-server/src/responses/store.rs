//! Responses kept for later requests: in memory, bounded, the oldest go first.

use super::items::Item;
use crate::elsewhere::drop_elsewhere;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A kept response.
pub(crate) struct Stored {
    /// The response object, as JSON text.
    pub(crate) response: String,
    /// Its own input items.
    pub(crate) input: Vec<Item>,
    /// The whole conversation, its answer included and instructions left out, as messages of chat completions.
    pub(crate) messages: Vec<lily_text::json::Value>,
    /// Bytes that all this takes, about.
    pub(crate) bytes: usize,
}

/// At most `count` responses of `bytes` together.
pub(crate) struct Store {
    count: usize,
    bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    responses: HashMap<String, Arc<Stored>>,
    order: VecDeque<String>,
    bytes: usize,
}

impl Store {
    pub(crate) fn new(count: usize, bytes: usize) -> Self {
        Self { count, bytes, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it holds the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Stored>> {
        self.kept().responses.get(id).cloned()
    }

    /// Keeps a response, unless it is larger than the whole store.
    pub(crate) fn insert(&self, id: &str, stored: Stored) {
        if self.count == 0 || stored.bytes > self.bytes {
            return;
        }
        let mut kept = self.kept();
        kept.bytes += stored.bytes;
        kept.order.push_back(id.to_owned());
        kept.responses.insert(id.to_owned(), Arc::new(stored));
        let mut gone = Vec::new();
        while kept.responses.len() > self.count || kept.bytes > self.bytes {
            let Some(oldest) = kept.order.pop_front() else { break };
            gone.extend(kept.take(&oldest));
        }
        drop(kept);
        if !gone.is_empty() {
            drop_elsewhere(gone);
        }
    }

    /// True if there was one.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let mut kept = self.kept();
        kept.order.retain(|known| known != id);
        let stored = kept.take(id);
        drop(kept);
        let found = stored.is_some();
        stored.into_iter().for_each(drop_elsewhere);
        found
    }
}

impl Kept {
    fn take(&mut self, id: &str) -> Option<Arc<Stored>> {
        let stored = self.responses.remove(id)?;
        self.bytes -= stored.bytes;
        Some(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bytes: usize) -> Stored {
        Stored { response: String::new(), input: Vec::new(), messages: Vec::new(), bytes }
    }

    #[test]
    fn the_oldest_go_first() {
        let store = Store::new(2, 100);
        for id in ["a", "b", "c"] {
            store.insert(id, stored(10));
        }
        assert!(store.get("a").is_none() && store.get("b").is_some() && store.get("c").is_some());
        store.insert("d", stored(95));
        assert!(store.get("c").is_none() && store.get("d").is_some());
        store.insert("too large", stored(101));
        assert!(store.get("too large").is_none() && store.get("d").is_some());
        assert!(store.remove("d") && !store.remove("d"));
        assert_eq!(store.kept().bytes, 0);
    }
}
