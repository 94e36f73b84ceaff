//! One step of the model: some rows through all layers. The rows are the tokens of one sequence (prefill) or one token
//! of each of several (decode); only the mixers tell these apart.

use crate::{
    Op,
    attention::attention,
    buffers::Buffers,
    gdn::gdn,
    input::Input,
    linear::{Linear, View},
    machine::Machine,
    model::{Mixer, Model},
    moe::moe,
    pool::Chunks,
    project::{Store, project},
    rotary::Rotary,
    router::Forced,
    state::{CpuState, LayerState},
};
use lily_engine::{TokenId, evaluation::ExpertChoices};

/// Sequences that go through the layers together in one decode step; a larger batch goes in several.
pub(crate) const DECODE_ROWS: usize = 8;

/// A run of rows that belong to one sequence.
pub(crate) struct Span<'a> {
    /// The sequence, at the position of the first row.
    pub state: &'a mut CpuState,
    /// One per row.
    pub tokens: &'a [TokenId],
}

/// Takes all rows through the layers, leaves them in `buffers.x`, and moves the states on. Tokens are in range, states
/// have room.
pub(crate) fn forward(
    machine: &mut Machine,
    model: &Model,
    rotary: &Rotary,
    forced: Option<&ExpertChoices>,
    spans: &mut [Span<'_>],
    buffers: &mut Buffers,
) {
    let rows: usize = spans.iter().map(|span| span.tokens.len()).sum();
    let hidden = model.config.hidden_size;
    let start = machine.start();
    let mut row = 0;
    for span in spans.iter() {
        for (index, token) in span.tokens.iter().enumerate() {
            embed(machine, &model.embed_tokens, token.0 as usize, &mut buffers.x[row * hidden..][..hidden]);
            buffers.positions[row] = span.state.position + index;
            rotary.angles(
                buffers.positions[row],
                &mut buffers.angles[row * rotary.width()..][..rotary.width()],
            );
            row += 1;
        }
    }
    machine.stop(start, Op::Embed, rows * hidden, 0);

    for (index, layer) in model.layers.iter().enumerate() {
        norm(machine, model, &layer.input_norm, rows, buffers);
        mixer(machine, model, index, rotary, spans, buffers);
        norm(machine, model, &layer.post_norm, rows, buffers);
        let positions = std::mem::take(&mut buffers.positions);
        let forced: Forced<'_> = forced.map(|choices| (choices, index, &positions[..rows]));
        moe(machine, model, index, rows, forced, buffers);
        buffers.positions = positions;
    }
    for span in spans {
        span.state.position += span.tokens.len();
    }
}

/// The logits of rows of the residual stream `x`, `[rows][vocab]`; `head` has room for them.
pub(crate) fn logits(machine: &mut Machine, model: &Model, x: &[f32], head: &mut Input, out: &mut [f32]) {
    let hidden = model.config.hidden_size;
    let rows = x.len() / hidden;
    let start = machine.start();
    norm_rows(machine, x, &model.norm, model.config.rms_norm_eps, head);
    head.prepare(machine, rows);
    project(machine, &model.lm_head, head, 0..rows, Store::Set, out);
    machine.stop(start, Op::Head, model.lm_head.bytes(), 2 * rows * hidden * model.lm_head.rows);
}

/// Normed rows into `buffers.hidden`, in every form.
fn norm(machine: &mut Machine, model: &Model, gain: &[f32], rows: usize, buffers: &mut Buffers) {
    let start = machine.start();
    let width = model.config.hidden_size;
    let Buffers { x, hidden, .. } = buffers;
    norm_rows(machine, &x[..rows * width], gain, model.config.rms_norm_eps, hidden);
    hidden.prepare(machine, rows);
    machine.stop(start, Op::Norm, 0, 0);
}

fn norm_rows(machine: &mut Machine, x: &[f32], gain: &[f32], eps: f32, out: &mut Input) {
    let (width, kernels) = (gain.len(), machine.kernels);
    let rows = x.len() / width;
    let block = if rows <= 4 { rows } else { 4 } * width;
    machine.pool.for_each_part(Chunks::new(out.exact_mut(rows), block), |index, out| {
        for (x, out) in x[index * block..].chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            kernels.rms_norm(x, gain, eps, out);
        }
    });
}

/// `x += mixer(norm(x))`.
fn mixer(
    machine: &mut Machine,
    model: &Model,
    layer: usize,
    rotary: &Rotary,
    spans: &mut [Span<'_>],
    buffers: &mut Buffers,
) {
    let Buffers { x, hidden, projected, mixed, angles, partials, .. } = buffers;
    let rows: usize = spans.iter().map(|span| span.tokens.len()).sum();
    let (in_proj, out_proj, kind, ops) = match &model.layers[layer].mixer {
        Mixer::Gdn(w) => (&w.in_proj, &w.out_proj, 0, [Op::GdnIn, Op::GdnScan, Op::GdnOut]),
        Mixer::Attention(w) => (&w.in_proj, &w.out_proj, 1, [Op::AttentionIn, Op::Attend, Op::AttentionOut]),
    };
    let mixed = &mut mixed[kind];
    let (width, hidden_size) = (mixed.cols(), model.config.hidden_size);

    let start = machine.start();
    let projected = &mut projected[..rows * in_proj.rows];
    project(machine, in_proj, hidden, 0..rows, Store::Set, projected);
    machine.stop(start, ops[0], in_proj.bytes(), 2 * rows * in_proj.rows * hidden_size);

    let start = machine.start();
    let mut bytes = 0;
    let mut row = 0;
    for span in spans {
        let tokens = span.tokens.len();
        let projected = &projected[row * in_proj.rows..][..tokens * in_proj.rows];
        let out = &mut mixed.exact_mut(rows)[row * width..][..tokens * width];
        let position = span.state.position;
        match (&model.layers[layer].mixer, &mut span.state.layers[layer]) {
            (Mixer::Gdn(weights), LayerState::Gdn(state)) => {
                bytes += 2 * size_of_val(&*state.memory);
                gdn(machine, &model.config, weights, (state, position), projected, out);
            }
            (Mixer::Attention(weights), LayerState::Attention(cache)) => {
                bytes += cache.bytes();
                let angles = &angles[row * rotary.width()..][..tokens * rotary.width()];
                let state = (cache, position);
                attention(machine, &model.config, weights, state, (projected, angles), (partials, out));
            }
            _ => unreachable!("a state is made from the model's layers"),
        }
        row += tokens;
    }
    machine.stop(start, ops[1], bytes, 0);

    let start = machine.start();
    mixed.prepare(machine, rows);
    project(machine, out_proj, mixed, 0..rows, Store::Add, &mut x[..rows * hidden_size]);
    machine.stop(start, ops[2], out_proj.bytes(), 2 * rows * out_proj.rows * width);
}

/// One embedding row.
fn embed(machine: &Machine, embedding: &Linear, token: usize, out: &mut [f32]) {
    match embedding.view() {
        View::Affine(view) => machine.kernels.dequantize_row(&view, token, out),
        View::Dense(view) => out.iter_mut().enumerate().for_each(|(i, out)| *out = view.element(token, i)),
    }
}
