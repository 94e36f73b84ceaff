//! The full-size model without its weights, and the page about its plans.
#![allow(dead_code, reason = "each program uses its own part")]

#[path = "../../../lily-checkpoint/tests/checkpoint/support/sparse.rs"]
mod sparse;

pub(crate) mod page;

use lily_checkpoint::Checkpoint;
use lily_gpu::{
    Switches,
    check::{AppleFamily, Checker, Plans, Rules},
    device::DryDevice,
};
use lily_kernels::Platform;
use std::sync::Arc;

/// A checkpoint of the full shapes, all holes.
pub(crate) struct FullSize {
    pub(crate) checkpoint: Checkpoint,
    _folder: tempfile::TempDir,
}

impl FullSize {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        sparse::write_sparse(folder.path(), 40);
        let checkpoint = Checkpoint::open(folder.path()).expect("the full size opens");
        Self { checkpoint, _folder: folder }
    }
}

/// Plans for an Apple family's smallest Mac that holds the model, with what checks them.
pub(crate) fn metal(checkpoint: &Checkpoint, family: AppleFamily) -> (Plans, Checker) {
    let gpu = family.smallest();
    plans(checkpoint, DryDevice::apple(gpu), Rules::apple(gpu))
}

/// The same for Hopper.
pub(crate) fn cuda(checkpoint: &Checkpoint) -> (Plans, Checker) {
    let device = DryDevice::new(Platform::Cuda);
    let rules = Rules::of(&device);
    plans(checkpoint, device, rules)
}

fn plans(checkpoint: &Checkpoint, device: DryDevice, rules: Rules) -> (Plans, Checker) {
    let plans = Plans::new(Arc::new(device), checkpoint, Switches::default(), 4096).expect("plans");
    let checker = Checker::new(rules).with_read_only(plans.weight_buffers());
    (plans, checker)
}
