//! Dependency levels from what each dispatch reads and writes.

use super::Dispatch;
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

/// An access to a buffer that later ones may depend on.
struct Past {
    range: Range<usize>,
    writes: bool,
    dispatch: u32,
}

impl Past {
    fn overlaps(&self, range: &Range<usize>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }

    fn is_inside(&self, range: &Range<usize>) -> bool {
        range.start <= self.range.start && self.range.end <= range.end
    }
}

/// Finds out which dispatch depends on which (one of the two writes what the other touches), and sorts them by level,
/// keeping program order within a level.
pub(super) fn order(mut dispatches: Vec<Dispatch>) -> Vec<Dispatch> {
    depend(&mut dispatches);
    let mut order: Vec<usize> = (0..dispatches.len()).collect();
    order.sort_by_key(|&at| dispatches[at].level);
    let mut place = vec![0_u32; order.len()];
    for (to, &from) in order.iter().enumerate() {
        place[from] = to as u32;
    }
    for dispatch in &mut dispatches {
        for after in &mut dispatch.after {
            *after = place[*after as usize];
        }
        dispatch.after.sort_unstable();
    }
    // Stable, and by the same key as `order`.
    dispatches.sort_by_key(|dispatch| dispatch.level);
    dispatches
}

fn depend(dispatches: &mut [Dispatch]) {
    // Weights are never written: there is nothing to find in them.
    let written: HashSet<u64> = dispatches
        .iter()
        .flat_map(|dispatch| &dispatch.bindings)
        .filter(|bound| bound.writes())
        .map(|bound| bound.view.buffer().id())
        .collect();
    let mut past: HashMap<u64, Vec<Past>> = HashMap::new();
    for at in 0..dispatches.len() {
        let mut after: Vec<u32> = Vec::new();
        for bound in &dispatches[at].bindings {
            let (id, range) = (bound.view.buffer().id(), bound.view.range());
            let Some(past) = past.get(&id) else { continue };
            let conflicts =
                past.iter().filter(|past| past.overlaps(&range) && (past.writes || bound.writes()));
            after.extend(conflicts.map(|past| past.dispatch));
        }
        for bound in &dispatches[at].bindings {
            let (id, range) = (bound.view.buffer().id(), bound.view.range());
            if !written.contains(&id) {
                continue;
            }
            let past = past.entry(id).or_default();
            if bound.writes() {
                // Whoever would depend on those depends on this one, which depends on them.
                past.retain(|past| !past.is_inside(&range));
            }
            past.push(Past { range, writes: bound.writes(), dispatch: at as u32 });
        }
        after.sort_unstable();
        after.dedup();
        dispatches[at].level =
            after.iter().map(|&other| dispatches[other as usize].level + 1).max().unwrap_or(0);
        dispatches[at].after = direct(dispatches, &after);
    }
}

/// Leaves out what another dependency already waits for, as far as one step shows.
fn direct(dispatches: &[Dispatch], after: &[u32]) -> Vec<u32> {
    let implied =
        |one: u32| after.iter().any(|&other| other > one && dispatches[other as usize].after.contains(&one));
    after.iter().copied().filter(|&one| !implied(one)).collect()
}
