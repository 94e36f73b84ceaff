//! A launch's arguments against its kernel's signature and text.

use super::{Fault, FaultKind};
use crate::Dispatch;
use lily_kernels::Reach;
use std::collections::HashSet;

pub(super) fn check(dispatch: &Dispatch, read_only: &HashSet<u64>, faults: &mut Vec<Fault>) {
    let signature = dispatch.kernel.signature();
    let mut fault = |kind, what: String| {
        faults.push(Fault { kind, what: format!("{} ({}): {what}", dispatch.name(), signature.entry) });
    };
    if dispatch.bindings.len() != signature.bindings.len() {
        let what = format!("{} buffers for {}", dispatch.bindings.len(), signature.bindings.len());
        fault(FaultKind::Index, what);
        return;
    }
    for (bound, binding) in dispatch.bindings.iter().zip(&signature.bindings) {
        let (name, view) = (&binding.name, &bound.view);
        if bound.index != binding.index || bound.access != binding.access {
            let what = format!(
                "`{name}` is bound at {} for {:?}, the kernel has it at {} for {:?}",
                bound.index, bound.access, binding.index, binding.access
            );
            fault(FaultKind::Index, what);
        }
        match binding.bytes(&dispatch.params, dispatch.groups) {
            Some(bytes) if bytes > view.bytes() as u64 => {
                let what = format!("`{name}` is {view:?}, {bytes} bytes are touched");
                fault(FaultKind::Undersized, what);
            }
            None if binding.reach != Reach::Data => {
                fault(FaultKind::Undeclared, format!("what it touches of `{name}` is not known"));
            }
            _ => {}
        }
        if view.offset() % binding.alignment as usize != 0 {
            let what = format!("`{name}` is {view:?}, not at a multiple of {}", binding.alignment);
            fault(FaultKind::Misaligned, what);
        }
        if bound.writes() && read_only.contains(&view.buffer().id()) {
            fault(FaultKind::WritesWeights, format!("`{name}` is {view:?}, which holds weights"));
        }
    }
    let touched: Vec<_> = super::hazards::accesses(dispatch).collect();
    for (at, one) in touched.iter().enumerate() {
        for other in touched[at + 1..].iter().filter(|other| one.meets(other)) {
            fault(FaultKind::Alias, format!("{} shares bytes with {}", one.what, other.what));
        }
    }
}
