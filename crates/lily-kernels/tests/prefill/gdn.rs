//! The recurrence over rows, state carried from chunk to chunk.

use crate::rows::{bf16_results, bf16_rows, values};
use crate::support::{Buffer, Kernel, Random, Value, assert_close};
use lily_kernels::reference::{decay, gated_delta_rule, l2_norm, sigmoid};

const D: usize = 128;

/// q and k rows: normed per head, rounded to bf16.
fn heads(r: &mut Random, count: usize, scale: f32) -> (Buffer, Vec<f32>) {
    let mut rows = r.vec(count * D, 1.0);
    for head in rows.chunks_exact_mut(D) {
        l2_norm(head, 1e-6);
        head.iter_mut().for_each(|x| *x *= scale);
    }
    let buffer = Buffer::bf16(&rows);
    let rounded = values(&buffer);
    (buffer, rounded)
}

/// What one chunk needs, as one of the two kernels takes it.
pub(crate) struct Chunk<'a> {
    pub(crate) rows: usize,
    pub(crate) q: &'a mut Buffer,
    pub(crate) k: &'a mut Buffer,
    pub(crate) v: &'a mut Buffer,
    pub(crate) gates: &'a mut Buffer,
    pub(crate) a_log: &'a mut Buffer,
    pub(crate) dt_bias: &'a mut Buffer,
    pub(crate) state: &'a mut Buffer,
    pub(crate) o: &'a mut Buffer,
}

/// Runs chunks through `run` and the reference; answers the largest distances of outputs and states.
pub(crate) fn check(
    (key_heads, value_heads): (usize, usize),
    chunks: &[usize],
    bounds: (f64, f64),
    run: impl Fn(Chunk<'_>),
) {
    let mut r = Random::new(value_heads as u64);
    let (a_log, dt_bias) = (r.vec(value_heads, 1.0), r.vec(value_heads, 1.0));
    let mut reference = r.vec(value_heads * D * D, 0.3);
    let mut state = Buffer::f32(&reference);
    for &rows in chunks {
        let (mut q, qs) = heads(&mut r, rows * key_heads, (D as f32).powf(-0.5));
        let (mut k, ks) = heads(&mut r, rows * key_heads, 1.0);
        let (mut v, vs) = bf16_rows(&mut r, rows * value_heads * D, 1.0);
        let gates = r.vec(rows * 2 * value_heads, 2.0);
        let mut o = bf16_results(rows * value_heads * D);
        run(Chunk {
            rows,
            q: &mut q,
            k: &mut k,
            v: &mut v,
            gates: &mut Buffer::f32(&gates),
            a_log: &mut Buffer::f32(&a_log),
            dt_bias: &mut Buffer::f32(&dt_bias),
            state: &mut state,
            o: &mut o,
        });
        let mut wanted = vec![0.0; rows * value_heads * D];
        for row in 0..rows {
            for h in 0..value_heads {
                let key = (row * key_heads + h / (value_heads / key_heads)) * D;
                let at = (row * value_heads + h) * D;
                let gate = &gates[row * 2 * value_heads..];
                gated_delta_rule(
                    &mut reference[h * D * D..(h + 1) * D * D],
                    (&qs[key..key + D], &ks[key..key + D], &vs[at..at + D]),
                    decay(gate[value_heads + h], a_log[h], dt_bias[h]),
                    sigmoid(gate[h]),
                    &mut wanted[at..at + D],
                );
            }
        }
        assert_close(&values(&o), &wanted, bounds.0, &format!("{rows} rows: output"));
        assert_close(&state.to_f32(), &reference, bounds.1, &format!("{rows} rows: state"));
    }
}

#[test]
fn register_scan() {
    for (key_heads, value_heads, lanes, simdgroups) in [(2, 4, 8, 8), (1, 2, 32, 4), (1, 1, 4, 4)] {
        let kernel = Kernel::new(
            "gdn_scan",
            &[
                ("KEY_HEADS", key_heads as i64),
                ("VALUE_HEADS", value_heads as i64),
                ("LPC", lanes as i64),
                ("NSG", simdgroups as i64),
            ],
        );
        let columns = simdgroups * 32 / lanes;
        check((key_heads, value_heads), &[1, 16, 19], (3e-3, 1e-5), |c| {
            kernel.run(
                "gdn_scan",
                [D / columns, value_heads, 1],
                &mut [
                    ("q", c.q),
                    ("k", c.k),
                    ("v", c.v),
                    ("gates", c.gates),
                    ("a_log", c.a_log),
                    ("dt_bias", c.dt_bias),
                    ("state", c.state),
                    ("o", c.o),
                ],
                &[("rows", Value::U(c.rows)), ("ldg", Value::U(2 * value_heads))],
            );
        });
    }
}

/// The matrix form, 64 rows at a time: bf16 operands, the state f32 from block to block.
#[test]
fn chunked_matrix_form() {
    for (key_heads, value_heads, chunks) in [(1, 2, vec![64, 1, 130]), (2, 2, vec![65])] {
        let constants = [("KEY_HEADS", key_heads as i64), ("VALUE_HEADS", value_heads as i64)];
        let prepare = Kernel::new("gdn_chunk_prepare", &constants);
        let scan = Kernel::new("gdn_chunk_scan", &constants);
        check((key_heads, value_heads), &chunks, (1e-2, 6e-3), |c| {
            let blocks = c.rows.div_ceil(64);
            let rows = blocks * value_heads * 64;
            let (mut w, mut u) = (bf16_results(rows * D), bf16_results(rows * D));
            let (mut m, mut kt) = (bf16_results(rows * 64), bf16_results(rows * D));
            let mut gamma = Buffer::floats(rows);
            prepare.run(
                "gdn_chunk_prepare",
                [blocks, value_heads, 1],
                &mut [
                    ("q", &mut *c.q),
                    ("k", c.k),
                    ("v", c.v),
                    ("gates", c.gates),
                    ("a_log", c.a_log),
                    ("dt_bias", c.dt_bias),
                    ("w", &mut w),
                    ("u", &mut u),
                    ("m", &mut m),
                    ("kt", &mut kt),
                    ("gamma", &mut gamma),
                ],
                &[("rows", Value::U(c.rows)), ("ldg", Value::U(2 * value_heads))],
            );
            scan.run(
                "gdn_chunk_scan",
                [4, value_heads, 1],
                &mut [
                    ("q", c.q),
                    ("w", &mut w),
                    ("u", &mut u),
                    ("m", &mut m),
                    ("kt", &mut kt),
                    ("gamma", &mut gamma),
                    ("state", c.state),
                    ("o", c.o),
                ],
                &[("rows", Value::U(c.rows))],
            );
        });
    }
}
