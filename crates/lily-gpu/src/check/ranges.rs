//! Sets of bytes.

use std::ops::Range;

/// Ranges without overlaps, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges(Vec<Range<usize>>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a range in; what it touches becomes one with it.
    pub(super) fn insert(&mut self, range: &Range<usize>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|one| one.end < range.start);
        let to = self.0.partition_point(|one| one.start <= range.end);
        let merged = self.0[from..to]
            .iter()
            .fold(range.clone(), |all, one| all.start.min(one.start)..all.end.max(one.end));
        self.0.splice(from..to, [merged]);
    }

    /// True if every byte of a range is in it.
    pub(super) fn covers(&self, range: &Range<usize>) -> bool {
        let at = self.0.partition_point(|one| one.end < range.end);
        range.is_empty() || self.0.get(at).is_some_and(|one| one.start <= range.start && range.end <= one.end)
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn what_touches_becomes_one() {
        let mut set = Ranges::default();
        for range in [0..4, 8..12, 20..24, 4..8] {
            set.insert(&range);
        }
        assert!(set.covers(&(0..12)) && set.covers(&(3..9)) && set.covers(&(20..24)) && set.covers(&(7..7)));
        assert!(!set.covers(&(11..13)) && !set.covers(&(12..20)) && !set.covers(&(0..24)));
        set.insert(&(10..22));
        assert!(set.covers(&(0..24)));
    }
}
