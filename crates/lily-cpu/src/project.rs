//! Linear layers over several rows.

use crate::{
    activations::Product,
    input::Input,
    linear::Linear,
    machine::Machine,
    model::Stack,
    pool::{Chunks, Columns},
    simd::GEMM_ROWS,
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

/// `out[i] = stack · input[rows[i]]` (or added to it); `out` is `[rows.len()][stack.rows]`. Weights are read once for
/// all rows.
pub(crate) fn project(
    machine: &mut Machine,
    stack: &Stack,
    input: &Input,
    rows: Range<usize>,
    store: Store,
    out: &mut [f32],
) {
    let block = machine.units_per_task(stack.rows, stack.bytes()).next_multiple_of(GEMM_ROWS);
    let kernels = machine.kernels;
    // A matrix product writes whole blocks, which a single row of outputs has no room for.
    if rows.len() == 1 && store == Store::Set && input.product() == Product::Vector {
        machine.pool.for_each_part(Chunks::new(out, block), |index, out| {
            each_block(stack, index * block..index * block + out.len(), |part, range, at| {
                input.products(kernels, part, range.clone(), rows.clone(), &mut out[at..at + range.len()]);
            });
        });
        return;
    }
    let parts = Columns::new(out, stack.rows, block);
    machine.pool.for_each(parts, &mut machine.scratch, |index, mut tile, scratch| {
        let [sums] = scratch.take([rows.len() * GEMM_ROWS]);
        let end = (index * block + block).min(stack.rows);
        each_block(stack, index * block..end, |part, range, at| {
            input.products(kernels, part, range.clone(), rows.clone(), sums);
            for (row, sums) in sums.chunks_exact(GEMM_ROWS).enumerate() {
                let (sums, out) = (&sums[..range.len()], &mut tile.row_mut(row)[at..at + range.len()]);
                match store {
                    Store::Set => out.copy_from_slice(sums),
                    Store::Add => kernels.accumulate(sums, 1.0, out),
                }
            }
        });
    });
}

/// Calls `visit(matrix, its rows, offset in the range)` for blocks of at most [`GEMM_ROWS`] rows of each matrix that
/// `outputs` touches.
fn each_block(stack: &Stack, outputs: Range<usize>, mut visit: impl FnMut(&Linear, Range<usize>, usize)) {
    let mut first = 0;
    for part in &stack.parts {
        let (start, end) = (outputs.start.max(first), outputs.end.min(first + part.rows()));
        for start in (start..end).step_by(GEMM_ROWS) {
            let end = end.min(start + GEMM_ROWS);
            visit(part, start - first..end - first, start - outputs.start);
        }
        first += part.rows();
    }
}
