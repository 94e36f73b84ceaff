//! The mixture of experts, for any number of rows.

use crate::{
    Op,
    buffers::Buffers,
    input::{Input, products_i8},
    machine::Machine,
    model::{Expert, Model, Moe},
    pool::{Columns, Rectangles, Tile},
    router::Forced,
    scratch::Scratch,
    simd::{GEMM_ROWS, Kernels},
};

/// Inner columns of one task: many, since activations are gathered and runs of weights begun once per task, but for one
/// row, where the chosen experts are all there is, no more than leave each thread some tasks.
fn inner_columns(rows: usize, columns: usize, threads: usize) -> usize {
    const MOST: usize = 4 * GEMM_ROWS;
    if rows > 1 {
        MOST
    } else {
        (columns / (16 * threads)).next_multiple_of(GEMM_ROWS).clamp(GEMM_ROWS, MOST)
    }
}

/// `x += moe(norm(x))` for the first `rows` rows of the residual stream.
pub(crate) fn moe(
    machine: &mut Machine,
    model: &Model,
    layer: usize,
    rows: usize,
    forced: Forced<'_>,
    buffers: &mut Buffers,
) {
    let weights = &model.layers[layer].moe;
    let dims = &model.config.moe;
    let hidden = model.config.hidden_size;
    let start = machine.start();
    buffers.routing.route(machine, dims, weights, &buffers.hidden, rows, forced);
    machine.stop(start, Op::Router, weights.router.bytes(), 2 * rows * dims.experts * hidden);

    let start = machine.start();
    expert_in(machine, weights, rows, buffers);
    let operations = 2 * rows * (dims.experts_per_token * dims.inner + dims.shared_inner) * hidden;
    let bytes = |expert: &Expert| expert.gate.bytes() + expert.up.bytes();
    machine.stop(start, Op::ExpertIn, used_bytes(weights, buffers, bytes), 2 * operations);

    let start = machine.start();
    let entries = buffers.routing.entries.len();
    buffers.inner.prepare(machine, entries);
    buffers.shared.prepare(machine, rows);
    expert_out(machine, hidden, weights, rows, buffers);
    machine.stop(
        start,
        Op::ExpertOut,
        used_bytes(weights, buffers, |expert| expert.down.bytes()),
        operations,
    );
}

/// Bytes of the experts that any row goes to.
fn used_bytes(weights: &Moe, buffers: &Buffers, bytes: impl Fn(&Expert) -> usize) -> usize {
    let routing = &buffers.routing;
    let used = routing.groups.iter().map(|group| &weights.experts[routing.expert(group)]);
    used.chain([&weights.shared]).map(bytes).sum()
}

/// `silu(gate x) * up x` of all chosen experts and of the shared one.
fn expert_in(machine: &mut Machine, weights: &Moe, rows: usize, buffers: &mut Buffers) {
    let Buffers { hidden, inner, shared, routing, shared_gate, identity, .. } = buffers;
    let (hidden, routing, kernels) = (&*hidden, &*routing, machine.kernels);
    let width = inner.cols();
    let block = inner_columns(rows, routing.entries.len() * width, machine.pool.threads());
    let blocks = width.div_ceil(block);
    let parts = Rectangles::new(inner.exact_mut(routing.entries.len()), width, block, &routing.groups);
    machine.pool.for_each(parts, &mut machine.scratch, |index, mut out, scratch| {
        let group = &routing.groups[index / blocks];
        let expert = &weights.experts[routing.expert(group)];
        let rows = &routing.rows[group.clone()];
        gated(kernels, expert, hidden, rows, index % blocks * block, scratch, &mut out);
    });
    let width = shared.cols();
    let parts = Columns::new(shared.exact_mut(rows), width, 2 * GEMM_ROWS);
    machine.pool.for_each(parts, &mut machine.scratch, |index, mut out, scratch| {
        gated(kernels, &weights.shared, hidden, &identity[..rows], index * 2 * GEMM_ROWS, scratch, &mut out);
    });
    for (row, gate) in shared_gate[..rows].iter_mut().enumerate() {
        let mut logit = [0.0; GEMM_ROWS];
        hidden.products_exact(kernels, &weights.shared_expert_gate, 0..1, row..row + 1, &mut logit);
        *gate = 1.0 / (1.0 + (-logit[0]).exp());
    }
}

/// `out[i] = silu(gate x[rows[i]]) * up x[rows[i]]` for the inner columns from `start` on that `out` is wide.
fn gated(
    kernels: &Kernels,
    expert: &Expert,
    input: &Input,
    rows: &[u32],
    start: usize,
    scratch: &mut Scratch,
    out: &mut Tile<'_, f32>,
) {
    let lengths = [rows.len() * GEMM_ROWS; 2];
    // Products of many rows want them side by side.
    let first = rows[0] as usize;
    let adjacent = rows.iter().zip(first..).all(|(&row, at)| row as usize == at);
    let (gathered, [gate, up]) = match (input.quantized(&expert.gate), input.quantized(&expert.up)) {
        (Some(quantized), Some(other)) if !adjacent && std::ptr::eq(quantized, other) => {
            let (gathered, buffers) = scratch.gather(quantized, rows, lengths);
            (Some(gathered), buffers)
        }
        _ => (None, scratch.take(lengths)),
    };
    for at in (0..out.width()).step_by(GEMM_ROWS) {
        let count = GEMM_ROWS.min(out.width() - at);
        let block = start + at..start + at + count;
        for (linear, sums) in [(&expert.gate, &mut *gate), (&expert.up, &mut *up)] {
            match gathered {
                Some(gathered) => {
                    let x = (gathered, input.product());
                    products_i8(kernels, linear, block.clone(), x, 0..rows.len(), sums);
                }
                None if adjacent => {
                    input.products(kernels, linear, block.clone(), first..first + rows.len(), sums);
                }
                None => {
                    for (&row, sums) in rows.iter().zip(sums.chunks_exact_mut(GEMM_ROWS)) {
                        let row = row as usize;
                        input.products(kernels, linear, block.clone(), row..row + 1, sums);
                    }
                }
            }
        }
        let products = gate.chunks_exact(GEMM_ROWS).zip(up.chunks_exact(GEMM_ROWS));
        for (row, (gate, up)) in products.enumerate() {
            kernels.silu_mul(&gate[..count], &up[..count], &mut out.row_mut(row)[at..at + count]);
        }
    }
}

/// Down projections, weighted and added to the residual stream: for each row the experts in ascending order, then the
/// shared one, whatever other rows there are.
fn expert_out(machine: &mut Machine, hidden: usize, weights: &Moe, rows: usize, buffers: &mut Buffers) {
    let Buffers { x, inner, shared, routing, shared_gate, .. } = buffers;
    let (routing, kernels) = (&*routing, machine.kernels);
    let bytes = weights.shared.down.bytes() * (routing.groups.len() + 1);
    let block = machine.units_per_task(hidden, bytes).next_multiple_of(GEMM_ROWS);
    let most = routing.groups.iter().map(ExactSizeIterator::len).max().unwrap_or(0).max(rows);
    let parts = Columns::new(&mut x[..rows * hidden], hidden, block);
    machine.pool.for_each(parts, &mut machine.scratch, |index, mut out, scratch| {
        let [sums] = scratch.take([most * GEMM_ROWS]);
        let blocks =
            |width: usize| (0..width).step_by(GEMM_ROWS).map(move |at| at..width.min(at + GEMM_ROWS));
        // Expert by expert, so that each one's rows are read in one run.
        for group in &routing.groups {
            let down = &weights.experts[routing.expert(group)].down;
            let sums = &mut sums[..group.len() * GEMM_ROWS];
            for columns in blocks(out.width()) {
                let outputs = index * block + columns.start..index * block + columns.end;
                inner.products(kernels, down, outputs, group.clone(), sums);
                for (route, sums) in routing.entries[group.clone()].iter().zip(sums.chunks_exact(GEMM_ROWS)) {
                    let out = &mut out.row_mut(route.row as usize)[columns.clone()];
                    kernels.accumulate(&sums[..columns.len()], route.weight, out);
                }
            }
        }
        let sums = &mut sums[..rows * GEMM_ROWS];
        for columns in blocks(out.width()) {
            let outputs = index * block + columns.start..index * block + columns.end;
            shared.products(kernels, &weights.shared.down, outputs, 0..rows, sums);
            for (row, sums) in sums.chunks_exact(GEMM_ROWS).enumerate() {
                let out = &mut out.row_mut(row)[columns.clone()];
                kernels.accumulate(&sums[..columns.len()], shared_gate[row], out);
            }
        }
    });
}
