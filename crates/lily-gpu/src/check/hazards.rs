//! What launches have in common, and whether it is ordered. This knows nothing of dependency levels: it looks at pairs.

use super::{Fault, FaultKind};
use crate::{Command, Dispatch};
use std::{collections::HashMap, ops::Range};

/// Bytes of a buffer that a launch may touch.
#[derive(Debug, Clone)]
pub struct Access {
    /// The buffer.
    pub buffer: u64,
    /// Which of its bytes.
    pub range: Range<usize>,
    /// True if they may be written.
    pub writes: bool,
    /// The argument, in words.
    pub what: String,
}

impl Access {
    /// True if both have a byte in common and one of them writes.
    pub fn meets(&self, other: &Self) -> bool {
        self.buffer == other.buffer
            && (self.writes || other.writes)
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

/// What a launch may touch: as its kernel's text says, within what is bound; nothing of arguments that it leaves alone.
pub(super) fn accesses(dispatch: &Dispatch) -> impl Iterator<Item = Access> + '_ {
    (0..dispatch.bindings.len()).filter_map(|at| access(dispatch, at))
}

/// The same of one argument.
pub(super) fn access(dispatch: &Dispatch, at: usize) -> Option<Access> {
    let bound = dispatch.bindings.get(at)?;
    let (view, binding) = (&bound.view, dispatch.kernel.signature().bindings.get(at));
    let reach = binding.and_then(|binding| binding.bytes(&dispatch.params, dispatch.groups));
    let bytes = reach
        .map_or(view.bytes(), |reach| usize::try_from(reach).map_or(view.bytes(), |r| r.min(view.bytes())));
    let name = binding.map_or("?", |binding| binding.name.as_str());
    (bytes > 0).then(|| Access {
        buffer: view.buffer().id(),
        range: view.offset()..view.offset() + bytes,
        writes: bound.writes(),
        what: format!("`{name}` ({})", view.buffer().label()),
    })
}

/// An access with its launch: the place among the commands, and between which barriers.
struct Past {
    access: Access,
    command: usize,
    epoch: usize,
}

/// Barriers: none missing, none for nothing; launches that meet in program order.
pub(super) fn check(commands: &[Command<'_>], faults: &mut Vec<Fault>) {
    let mut by_buffer: HashMap<u64, Vec<Past>> = HashMap::new();
    let mut epoch = 0;
    // Whether some launch after the last barrier meets one between the last two.
    let mut needed = true;
    let mut barrier_at = 0;
    let name = |command: usize| match commands[command] {
        Command::Dispatch(dispatch) => format!("{} (launch {})", dispatch.name(), dispatch.place),
        Command::Barrier => "a barrier".to_owned(),
    };
    let redundant = |at: usize| Fault {
        kind: FaultKind::RedundantBarrier,
        what: format!("command {at}: nothing that is launched after it meets what was launched before"),
    };
    for (at, command) in commands.iter().enumerate() {
        let Command::Dispatch(dispatch) = command else {
            if !needed {
                faults.push(redundant(barrier_at));
            }
            (epoch, needed, barrier_at) = (epoch + 1, false, at);
            continue;
        };
        for access in accesses(dispatch) {
            let past = by_buffer.entry(access.buffer).or_default();
            for one in past.iter().filter(|one| one.command != at && one.access.meets(&access)) {
                if one.epoch == epoch {
                    let what = format!(
                        "between {} and {}: {} meets {}",
                        name(one.command),
                        name(at),
                        one.access.what,
                        access.what
                    );
                    faults.push(Fault { kind: FaultKind::MissingBarrier, what });
                }
                needed |= one.epoch + 1 == epoch;
                if let Command::Dispatch(before) = commands[one.command]
                    && before.place > dispatch.place
                {
                    let what = format!("{} comes before {}, which it meets", name(one.command), name(at));
                    faults.push(Fault { kind: FaultKind::Order, what });
                }
            }
            past.push(Past { access, command: at, epoch });
        }
    }
    if !needed {
        faults.push(redundant(barrier_at));
    }
}

/// Edges: from each launch a path to whatever it meets later.
pub(super) fn check_edges(dispatches: &[Dispatch], faults: &mut Vec<Fault>) {
    let words = dispatches.len().div_ceil(64);
    // A bit for each launch that comes before, by edges.
    let mut before: Vec<Vec<u64>> = Vec::with_capacity(dispatches.len());
    let mut by_buffer: HashMap<u64, Vec<(usize, Access)>> = HashMap::new();
    for (at, dispatch) in dispatches.iter().enumerate() {
        let mut reached = vec![0_u64; words];
        for &after in &dispatch.after {
            let Some(earlier) = before.get(after as usize) else { continue };
            reached.iter_mut().zip(earlier).for_each(|(to, from)| *to |= from);
            reached[after as usize / 64] |= 1 << (after % 64);
        }
        for access in accesses(dispatch) {
            let past = by_buffer.entry(access.buffer).or_default();
            for (one, earlier) in past.iter().filter(|(one, earlier)| *one != at && earlier.meets(&access)) {
                if reached[one / 64] & 1 << (one % 64) == 0 {
                    let (first, second) = (dispatches[*one].name(), dispatch.name());
                    let what = format!("from {first} to {second}: {} meets {}", earlier.what, access.what);
                    faults.push(Fault { kind: FaultKind::MissingEdge, what });
                }
            }
            past.push((at, access));
        }
        before.push(reached);
    }
}
