//! Copies and fills that wait to be encoded together: those of one pass may run in any order.

use crate::View;

/// Work of a blit encoder.
#[derive(Debug, Clone)]
pub(super) enum Transfer {
    /// As many bytes as the shorter has.
    Copy { from: View, to: View },
    /// Zero bytes.
    Zero(View),
}

impl Transfer {
    fn reads(&self) -> Option<&View> {
        match self {
            Self::Copy { from, .. } => Some(from),
            Self::Zero(_) => None,
        }
    }

    fn writes(&self) -> &View {
        match self {
            Self::Copy { to, .. } | Self::Zero(to) => to,
        }
    }

    fn conflicts(&self, other: &Self) -> bool {
        let touches = |one: &Self, written: &View| {
            one.writes().overlaps(written) || one.reads().is_some_and(|read| read.overlaps(written))
        };
        touches(self, other.writes()) || touches(other, self.writes())
    }
}

/// Transfers of one pass.
#[derive(Debug, Default)]
pub(super) struct Transfers(Vec<Transfer>);

impl Transfers {
    /// True if the transfer must wait for one of those that are here already.
    pub(super) fn conflict(&self, transfer: &Transfer) -> bool {
        self.0.iter().any(|other| other.conflicts(transfer))
    }

    /// Adds one.
    pub(super) fn push(&mut self, transfer: Transfer) {
        self.0.push(transfer);
    }

    /// All of them; none are left.
    pub(super) fn take(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;

    #[test]
    fn what_depends_on_another_waits() {
        let (a, b) = (Buffer::new(64, "a", ()), Buffer::new(64, "b", ()));
        let copy = |from: View, to: View| Transfer::Copy { from, to };
        let mut transfers = Transfers::default();
        transfers.push(copy(a.view(0, 16), b.view(0, 16)));
        transfers.push(Transfer::Zero(b.view(32, 16)));
        assert!(!transfers.conflict(&copy(a.view(0, 16), b.view(16, 16))), "both read");
        assert!(transfers.conflict(&copy(b.view(8, 4), a.view(32, 4))), "reads what is written");
        assert!(transfers.conflict(&Transfer::Zero(a.view(15, 1))), "writes what is read");
        assert!(transfers.conflict(&Transfer::Zero(b.view(47, 8))), "writes what is written");
        assert_eq!(transfers.take().len(), 2);
        assert!(!transfers.conflict(&Transfer::Zero(b.view(47, 8))));
    }
}
