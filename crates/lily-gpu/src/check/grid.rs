//! A launch's grid, and what else must fit, against the `// grid` line of its kernel's text.

use super::{Fault, FaultKind};
use crate::Dispatch;
use lily_kernels::Launch;

pub(super) fn check(dispatch: &Dispatch, context: Option<usize>, faults: &mut Vec<Fault>) {
    let signature = dispatch.kernel.signature();
    let mut fault = |kind, what: String| {
        faults.push(Fault { kind, what: format!("{} ({}): {what}", dispatch.name(), signature.entry) });
    };
    let Some(grid) = &signature.grid else {
        fault(FaultKind::Undeclared, "over which grid it is launched is not known".to_owned());
        return;
    };
    let elements: Vec<u64> = dispatch
        .bindings
        .iter()
        .zip(&signature.bindings)
        .map(|(bound, binding)| bound.view.bytes() as u64 / u64::from(binding.element_bytes))
        .collect();
    let launch = Launch { groups: dispatch.groups, params: &dispatch.params, elements: &elements, context };
    match grid.groups(&launch) {
        Ok(wanted) => {
            let differs = |(wanted, found): (&Option<u64>, u32)| {
                wanted.is_some_and(|wanted| wanted != u64::from(found))
            };
            if wanted.iter().zip(dispatch.groups).any(differs) {
                let wanted = wanted.map(|axis| axis.map_or("any".to_owned(), |axis| axis.to_string()));
                let what = format!("a grid of {:?}, not of {}", dispatch.groups, wanted.join(", "));
                fault(FaultKind::Grid, what);
            }
        }
        Err(error) => fault(FaultKind::Grid, error),
    }
    for condition in grid.broken(&launch) {
        fault(FaultKind::Condition, format!("it is not so that {condition}"));
    }
}
