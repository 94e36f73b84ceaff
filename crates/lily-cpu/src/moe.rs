//! The mixture of experts, for any number of rows.

use crate::{
    Op,
    buffers::Buffers,
    input::Input,
    machine::Machine,
    model::{Expert, Model, Moe},
    pool::{Columns, Rectangles},
    project::outputs_per_task,
    router::Forced,
    simd::Kernels,
};

/// Inner columns of one task.
const INNER: usize = 64;

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
    let start = machine.start();
    buffers.routing.route(machine, dims, weights, &buffers.hidden, rows, forced);
    let routed: usize = rows * dims.experts * model.config.hidden_size;
    machine.stop(start, Op::Router, weights.router.bytes(), 2 * routed);

    let start = machine.start();
    expert_in(machine, weights, rows, buffers);
    let used: usize =
        buffers.routing.groups.iter().map(|g| expert_of(buffers, weights, g.start).in_bytes()).sum();
    let inner = rows * (dims.experts_per_token * dims.inner + dims.shared_inner);
    let operations = 2 * inner * model.config.hidden_size;
    machine.stop(start, Op::ExpertIn, used + weights.shared.in_bytes(), 2 * operations);

    let start = machine.start();
    let entries = buffers.routing.entries.len();
    buffers.inner.prepare(machine, entries);
    buffers.shared.prepare(machine, rows);
    expert_out(machine, model, weights, rows, buffers);
    let used: usize =
        buffers.routing.groups.iter().map(|g| expert_of(buffers, weights, g.start).down.bytes()).sum();
    machine.stop(start, Op::ExpertOut, used + weights.shared.down.bytes(), operations);
}

impl Expert {
    fn in_bytes(&self) -> usize {
        self.gate.bytes() + self.up.bytes()
    }
}

fn expert_of<'a>(buffers: &Buffers, weights: &'a Moe, entry: usize) -> &'a Expert {
    &weights.experts[buffers.routing.entries[entry].expert as usize]
}

/// `silu(gate x) * up x` of all chosen experts and of the shared one.
fn expert_in(machine: &mut Machine, weights: &Moe, rows: usize, buffers: &mut Buffers) {
    let Buffers { hidden, inner, shared, routing, shared_gate, .. } = buffers;
    let (hidden, kernels) = (&*hidden, machine.kernels);
    let entries = routing.entries.len();
    let width = inner.cols();
    let blocks = width.div_ceil(INNER);
    let parts = Rectangles::new(inner.exact_mut(entries), width, INNER, &routing.groups);
    machine.pool.for_each(parts, &mut machine.scratch, |index, mut out, scratch| {
        let group = &routing.groups[index / blocks];
        let start = index % blocks * INNER;
        let expert = &weights.experts[routing.entries[group.start].expert as usize];
        let [gate, up] = scratch.take([INNER; 2]);
        for (at, route) in routing.entries[group.clone()].iter().enumerate() {
            let out = out.row_mut(at);
            gated(kernels, expert, hidden, route.row as usize, start, [gate, up], out);
        }
    });
    let width = shared.cols();
    let parts = Columns::new(shared.exact_mut(rows), width, INNER);
    machine.pool.for_each(parts, &mut machine.scratch, |index, mut out, scratch| {
        let [gate, up] = scratch.take([INNER; 2]);
        for row in 0..rows {
            gated(kernels, &weights.shared, hidden, row, index * INNER, [gate, up], out.row_mut(row));
        }
    });
    for (row, gate) in shared_gate[..rows].iter_mut().enumerate() {
        let mut logit = [0.0];
        hidden.dot_exact(kernels, &weights.shared_expert_gate, 0..1, row, &mut logit);
        *gate = 1.0 / (1.0 + (-logit[0]).exp());
    }
}

/// `out = silu(gate x) * up x` for inner columns `start..start + out.len()`.
fn gated(
    kernels: &Kernels,
    expert: &Expert,
    input: &Input,
    row: usize,
    start: usize,
    [gate, up]: [&mut [f32]; 2],
    out: &mut [f32],
) {
    let (gate, up) = (&mut gate[..out.len()], &mut up[..out.len()]);
    input.dot(kernels, &expert.gate, start..start + out.len(), row, gate);
    input.dot(kernels, &expert.up, start..start + out.len(), row, up);
    kernels.silu_mul(gate, up, out);
}

/// Down projections, weighted and added to the residual stream: for each row the experts in ascending order, then the
/// shared one, whatever other rows there are.
fn expert_out(machine: &mut Machine, model: &Model, weights: &Moe, rows: usize, buffers: &mut Buffers) {
    let Buffers { x, inner, shared, routing, shared_gate, .. } = buffers;
    let kernels = machine.kernels;
    let width = model.config.hidden_size;
    let bytes = weights.shared.down.bytes() * (routing.groups.len() + 1);
    let block = outputs_per_task(machine, width, bytes);
    let parts = Columns::new(&mut x[..rows * width], width, block);
    machine.pool.for_each(parts, &mut machine.scratch, |index, mut out, scratch| {
        let start = index * block;
        let outputs = start..(start + block).min(width);
        let [sums] = scratch.take([outputs.len()]);
        for group in &routing.groups {
            let expert = &weights.experts[routing.entries[group.start].expert as usize];
            for entry in group.clone() {
                let route = routing.entries[entry];
                inner.dot(kernels, &expert.down, outputs.clone(), entry, sums);
                kernels.accumulate(sums, route.weight, out.row_mut(route.row as usize));
            }
        }
        for row in 0..rows {
            shared.dot(kernels, &weights.shared.down, outputs.clone(), row, sums);
            kernels.accumulate(sums, shared_gate[row], out.row_mut(row));
        }
    });
}
