//! Linear layers over several rows.

use crate::{
    input::Input,
    machine::Machine,
    model::Stack,
    pool::{Chunks, Columns, SplitMut, Tile},
};
use std::ops::Range;

/// What to do with the products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// `out = W x`.
    Set,
    /// `out += W x`: the residual stream.
    Add,
}

/// `out[row] = stack · input[row]` (or added to it) for the first `rows` rows; `out` is `[rows][stack.rows]`.
/// Weights are read once for all rows.
pub(crate) fn project(
    machine: &mut Machine,
    stack: &Stack,
    input: &Input,
    rows: Range<usize>,
    store: Store,
    out: &mut [f32],
) {
    let block = outputs_per_task(machine, stack.rows, stack.bytes());
    let kernels = machine.kernels;
    if rows.len() == 1 && store == Store::Set {
        machine.pool.for_each_part(Chunks::new(out, block), |index, out| {
            each_part(stack, index * block..index * block + out.len(), |part, range, at| {
                input.dot(kernels, part, range.clone(), rows.start, &mut out[at..at + range.len()]);
            });
        });
        return;
    }
    let parts = Columns::new(out, stack.rows, block);
    debug_assert_eq!(parts.parts(), stack.rows.div_ceil(block));
    machine.pool.for_each(parts, &mut machine.scratch, |index, mut tile: Tile<'_, f32>, scratch| {
        let [sums] = scratch.take([block]);
        let end = (index * block + block).min(stack.rows);
        each_part(stack, index * block..end, |part, range, at| {
            for row in 0..tile.rows() {
                let sums = &mut sums[..range.len()];
                input.dot(kernels, part, range.clone(), rows.start + row, sums);
                let out = &mut tile.row_mut(row)[at..at + range.len()];
                match store {
                    Store::Set => out.copy_from_slice(sums),
                    Store::Add => kernels.accumulate(sums, 1.0, out),
                }
            }
        });
    });
}

/// Outputs of one task: a multiple of 16, so that a cache line of results has one writer.
pub(crate) fn outputs_per_task(machine: &Machine, rows: usize, bytes: usize) -> usize {
    machine.units_per_task(rows, bytes).next_multiple_of(16)
}

/// Calls `visit(matrix, its rows, offset in the range)` for each matrix that output range `outputs` touches.
fn each_part(
    stack: &Stack,
    outputs: Range<usize>,
    mut visit: impl FnMut(&crate::linear::Linear, Range<usize>, usize),
) {
    let mut first = 0;
    for part in &stack.parts {
        let (start, end) = (outputs.start.max(first), outputs.end.min(first + part.rows()));
        if start < end {
            visit(part, start - first..end - first, start - outputs.start);
        }
        first += part.rows();
    }
}
