//! Snapshots of prompt prefixes, so that a conversation's next turn does not start from nothing.

use crate::TokenId;

/// Keeps snapshots within a budget of bytes.
///
/// **Lookup.** A snapshot stands for one exact sequence of tokens and serves every prompt that begins with it and goes on for at
/// least one token (its logits are still needed). The deepest one wins.
///
/// **Eviction** is GreedyDual: a snapshot is worth the tokens that it saves. Each has a priority of `age + tokens`,
/// set when it is made and again when it is used; the lowest goes first, and `age` then rises to what it had. Snapshots of like
/// length leave in the order of last use, while a short one leaves long before a much longer one, which outlives about as many
/// short ones as it is times longer. A new snapshot may itself be the one that leaves.
#[derive(Debug)]
pub(crate) struct PrefixCache<S> {
    budget: usize,
    bytes: usize,
    age: u64,
    uses: u64,
    entries: Vec<Entry<S>>,
}

#[derive(Debug)]
struct Entry<S> {
    prefix: Box<[TokenId]>,
    snapshot: S,
    bytes: usize,
    priority: u64,
    /// The later of equal priorities stays.
    last_use: u64,
}

impl<S> Entry<S> {
    fn len(&self) -> usize {
        self.prefix.len()
    }

    /// Bytes of the snapshot and of the tokens that name it.
    fn cost(&self) -> usize {
        self.bytes + self.len() * size_of::<TokenId>()
    }
}

impl<S: Clone> PrefixCache<S> {
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, bytes: 0, age: 0, uses: 0, entries: Vec::new() }
    }

    /// True if nothing can ever be kept.
    pub(crate) fn is_off(&self) -> bool {
        self.budget == 0
    }

    /// Snapshots held.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The deepest snapshot of a proper prefix of `prompt`, with its length.
    pub(crate) fn deepest(&mut self, prompt: &[TokenId]) -> Option<(usize, S)> {
        let matching = (0..self.entries.len()).filter(|&index| {
            let entry = &self.entries[index];
            entry.len() < prompt.len() && prompt.starts_with(&entry.prefix)
        });
        let index = matching.max_by_key(|&index| self.entries[index].len())?;
        self.mark_used(index);
        Some((self.entries[index].len(), self.entries[index].snapshot.clone()))
    }

    /// True if this very prefix is held; counts as a use.
    pub(crate) fn touch(&mut self, prefix: &[TokenId]) -> bool {
        let held = self.entries.iter().position(|entry| *entry.prefix == *prefix);
        if let Some(index) = held {
            self.mark_used(index);
        }
        held.is_some()
    }

    fn mark_used(&mut self, index: usize) {
        self.uses += 1;
        let entry = &mut self.entries[index];
        entry.priority = self.age + entry.len() as u64;
        entry.last_use = self.uses;
    }

    /// Keeps a snapshot of `prefix` that holds `bytes`, if the budget and the more valuable ones leave room.
    pub(crate) fn insert(&mut self, prefix: &[TokenId], snapshot: S, bytes: usize) {
        if prefix.is_empty() || self.touch(prefix) {
            return;
        }
        let entry = Entry { prefix: prefix.into(), snapshot, bytes, priority: 0, last_use: 0 };
        if entry.cost() > self.budget {
            return;
        }
        self.bytes += entry.cost();
        self.entries.push(entry);
        self.mark_used(self.entries.len() - 1);
        while self.bytes > self.budget && self.evict() {}
    }

    /// Drops the least valuable snapshot; false if there was none.
    pub(crate) fn evict(&mut self) -> bool {
        let victim =
            self.entries.iter().enumerate().min_by_key(|(_, entry)| (entry.priority, entry.last_use));
        let Some((index, entry)) = victim else { return false };
        self.age = entry.priority;
        self.bytes -= entry.cost();
        self.entries.remove(index);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(ids: impl IntoIterator<Item = u32>) -> Vec<TokenId> {
        ids.into_iter().map(TokenId).collect()
    }

    /// A prompt of `len` tokens that shares nothing with one of another `name`.
    fn named(name: u32, len: usize) -> Vec<TokenId> {
        tokens((0..len as u32).map(|i| 1000 * name + i))
    }

    #[test]
    fn the_deepest_proper_prefix_wins() {
        let mut cache = PrefixCache::new(10_000);
        let prompt = tokens(0..100);
        for len in [10, 50, 99, 100] {
            cache.insert(&prompt[..len], len, 1);
        }
        assert_eq!(cache.deepest(&tokens(0..200)), Some((100, 100)));
        assert_eq!(cache.deepest(&prompt), Some((99, 99)), "a token must be left to be read");
        assert_eq!(cache.deepest(&tokens((0..60).chain([7, 7, 7]))), Some((50, 50)));
        assert_eq!(cache.deepest(&tokens(0..10)), None);
        assert_eq!(cache.deepest(&tokens(1..100)), None);
        assert_eq!(cache.deepest(&[]), None);
    }

    #[test]
    fn the_budget_holds_and_like_lengths_leave_in_order_of_use() {
        let mut cache = PrefixCache::new(3 * (100 + 40));
        for name in 0..3 {
            cache.insert(&named(name, 10), name, 100);
        }
        assert_eq!((cache.len(), cache.bytes()), (3, 420));
        assert!(cache.touch(&named(0, 10)));
        cache.insert(&named(3, 10), 3, 100);
        let held: Vec<bool> = (0..4).map(|name| cache.touch(&named(name, 10))).collect();
        assert_eq!(held, [true, false, true, true]);
    }

    #[test]
    fn short_side_requests_do_not_evict_the_long_main_one() {
        let mut cache = PrefixCache::new(300_000);
        cache.insert(&named(0, 10_000), 0, 100_000);
        for side in 1..=60 {
            cache.insert(&named(side, 100), side, 100_000);
            assert!(cache.touch(&named(side, 100)), "side request {side} is kept for now");
            assert!(
                cache.entries.iter().any(|entry| entry.len() == 10_000),
                "evicted by side request {side}"
            );
        }
        // But it does not stay for ever if it is never used again.
        for side in 61..=200 {
            cache.insert(&named(side, 100), side, 100_000);
        }
        assert!(cache.entries.iter().all(|entry| entry.len() == 100));
    }

    #[test]
    fn what_is_larger_than_the_budget_evicts_nothing() {
        let mut cache = PrefixCache::new(1000);
        cache.insert(&named(0, 10), 0, 500);
        cache.insert(&named(1, 10), 1, 5000);
        assert_eq!((cache.len(), cache.bytes()), (1, 540));
        let mut off = PrefixCache::new(0);
        assert!(off.is_off());
        off.insert(&named(0, 1), 0, 0);
        assert_eq!(off.len(), 0);
    }

    #[test]
    fn the_same_prefix_is_held_once() {
        let mut cache = PrefixCache::new(1000);
        cache.insert(&tokens(0..5), 'a', 100);
        cache.insert(&tokens(0..5), 'b', 100);
        assert_eq!((cache.len(), cache.bytes()), (1, 120));
    }

    proptest! {
        #[test]
        fn bytes_are_those_of_the_entries(
            inserts in proptest::collection::vec((0u32..6, 1usize..40, 0usize..300), 1..60),
        ) {
            let mut cache = PrefixCache::new(1000);
            for (name, len, bytes) in inserts {
                cache.insert(&named(name, len), (name, len), bytes);
                let held: usize = cache.entries.iter().map(Entry::cost).sum();
                prop_assert_eq!(cache.bytes(), held);
                prop_assert!(held <= 1000);
                let prompt = named(name, 40);
                let expected = cache.entries.iter().filter(|entry| entry.len() < 40 && entry.snapshot.0 == name);
                let expected = expected.map(Entry::len).max();
                prop_assert_eq!(cache.deepest(&prompt).map(|(len, snapshot)| (len, snapshot.1)), expected.map(|len| (len, len)));
            }
            while cache.evict() {}
            prop_assert_eq!((cache.bytes(), cache.len()), (0, 0));
        }
    }
}
