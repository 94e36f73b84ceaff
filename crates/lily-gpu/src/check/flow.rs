//! What a launch reads was written before; what it writes is read before something else takes its place; what it is given to
//! write, it writes.

use super::{
    Fault, FaultKind,
    hazards::{self, Access},
    ranges::Ranges,
    roles,
};
use crate::{Dispatch, View};
use lily_kernels::Access as Use;
use std::collections::HashMap;

/// A result that no launch has read yet.
struct Fresh {
    access: Access,
    what: String,
}

/// Between the launches of a plan, in program order. `given`: what is there before the first launch and stays of use after
/// the last.
pub(super) fn check(dispatches: &[&Dispatch], given: &[View], faults: &mut Vec<Fault>) {
    let mut written: HashMap<u64, Ranges> = HashMap::new();
    for view in given {
        written.entry(view.buffer().id()).or_default().insert(&view.range());
    }
    let kept = written.clone();
    let mut fresh: HashMap<u64, Vec<Fresh>> = HashMap::new();
    for dispatch in dispatches {
        let signature = dispatch.kernel.signature();
        let name = |binding: &str| format!("{} ({}): `{binding}`", dispatch.name(), signature.entry);
        let touched: Vec<(Access, &str, Use)> = dispatch
            .bindings
            .iter()
            .zip(&signature.bindings)
            .enumerate()
            .filter(|(_, (_, binding))| !roles::is_ahead(&signature.entry, &binding.name))
            .filter_map(|(at, (bound, binding))| {
                Some((hazards::access(dispatch, at)?, binding.name.as_str(), bound.access))
            })
            .collect();
        for (access, binding, _) in touched.iter().filter(|(.., how)| *how != Use::Write) {
            if !written.get(&access.buffer).is_some_and(|written| written.covers(&access.range)) {
                let what = format!(
                    "{} at {:?} of {} is read, and not wholly written before",
                    name(binding),
                    access.range,
                    access.what
                );
                faults.push(Fault { kind: FaultKind::Unwritten, what });
            }
            let results = fresh.entry(access.buffer).or_default();
            results.retain(|one| !overlap(&one.access, access));
        }
        for (access, binding, _) in touched.into_iter().filter(|(.., how)| *how != Use::Read) {
            let results = fresh.entry(access.buffer).or_default();
            let (lost, left) = std::mem::take(results)
                .into_iter()
                .partition::<Vec<_>, _>(|one| overlap(&one.access, &access));
            *results = left;
            for one in lost {
                let what =
                    format!("{} takes the place of {}, which nothing has read", name(binding), one.what);
                faults.push(Fault { kind: FaultKind::Lost, what });
            }
            written.entry(access.buffer).or_default().insert(&access.range);
            let stays = kept.get(&access.buffer).is_some_and(|kept| kept.covers(&access.range));
            // Half of what the norm of a chunk leaves is for the router alone.
            if !stays && (signature.entry.as_str(), binding) != ("rms_norm_rows", "scale") {
                results.push(Fresh { what: name(binding), access });
            }
        }
    }
}

fn overlap(one: &Access, other: &Access) -> bool {
    one.range.start < other.range.end && other.range.start < one.range.end
}

/// What is bound for a result is as long as the result.
pub(super) fn check_lengths(dispatch: &Dispatch, faults: &mut Vec<Fault>) {
    let signature = dispatch.kernel.signature();
    for (bound, binding) in dispatch.bindings.iter().zip(&signature.bindings) {
        if bound.access != Use::Write {
            continue;
        }
        let touched = binding.bytes(&dispatch.params, dispatch.groups);
        if let Some(touched) = touched.filter(|&touched| touched < bound.view.bytes() as u64) {
            let what = format!(
                "{} ({}): `{}` is {:?}, of which {touched} bytes are written",
                dispatch.name(),
                signature.entry,
                binding.name,
                bound.view,
            );
            faults.push(Fault { kind: FaultKind::Overlong, what });
        }
    }
}
