//! Launch shapes that a device takes.
//!
//! How many threads a pipeline allows depends on its registers, and only the device's own compiler tells. Each kernel states
//! its number, for which the compiler must leave registers; should a pipeline allow fewer all the same, another shape takes
//! the place of the one that asked for it.

use crate::{
    Device, GpuError, Switches,
    check::Plans,
    device::DryDevice,
    shapes::{Shapes, Slot},
};
use lily_checkpoint::Checkpoint;
use std::sync::Arc;

/// Rows of the shorter one of two chunks.
const FEW_ROWS: usize = 64;

/// `shapes`, with each slot whose kernels the device refuses replaced by the first alternative of which it takes more.
/// Kernels are compiled for that, those of a step in the shortest and the longest context and of chunks of few and of `rows`
/// rows; nothing runs.
///
/// # Errors
/// The device's first refusal, where no alternative helps; as [`Plans::new`].
pub fn fit(
    device: &dyn Device,
    checkpoint: &Checkpoint,
    switches: Switches,
    shapes: Shapes,
    rows: usize,
) -> Result<Shapes, GpuError> {
    let refused = |shapes| refused(device, checkpoint, switches, shapes, rows);
    let (mut fitting, mut refusals) = (shapes, refused(shapes)?);
    for slot in Slot::ALL {
        if refusals.is_empty() {
            break;
        }
        for values in slot.alternatives() {
            let mut shapes = fitting;
            let found = if slot.set(&mut shapes, &values) { refused(shapes)? } else { continue };
            if found.len() < refusals.len() {
                let (shape, refusal) = (slot.describe(&values), &refusals[0]);
                tracing::info!(%slot, shape, %refusal, "another launch shape than the chosen one, which the device refuses");
                (fitting, refusals) = (shapes, found);
                break;
            }
        }
    }
    match refusals.into_iter().next() {
        Some(refusal) => Err(refusal),
        None => Ok(fitting),
    }
}

/// What the device refuses of the kernels that plans with these shapes ask for.
fn refused(
    device: &dyn Device,
    checkpoint: &Checkpoint,
    switches: Switches,
    shapes: Shapes,
    rows: usize,
) -> Result<Vec<GpuError>, GpuError> {
    let dry = Arc::new(DryDevice::like(device));
    let plans = Plans::new(dry.clone(), checkpoint, switches, rows)?;
    plans.model().set_shapes(shapes);
    for context in [1, checkpoint.config.max_position_embeddings] {
        plans.step(context)?;
    }
    for rows in [plans.rows().min(FEW_ROWS), plans.rows()] {
        plans.chunk(rows, 0)?;
    }
    // All are started before one is waited for: devices compile on several threads.
    let kernels = dry.kernels();
    let started: Vec<_> = kernels.iter().map(|(kernel, entry)| device.compile(kernel, entry)).collect();
    let ready = started.into_iter().map(|kernel| kernel.and_then(|kernel| device.ready(&kernel)));
    Ok(ready.filter_map(Result::err).collect())
}
