//! Causal attention of a chunk's rows over everything before them: portable, on wgmma and on Metal's tensor operations.

use crate::rows::{bf16_results, bf16_rows, in_order, values};
use crate::support::{Kernel, Random, Value, assert_close};
use lily_kernels::reference::{KvRows, attend, sigmoid};

const D: usize = 256;

struct Case {
    heads: usize,
    kv_heads: usize,
    rows: usize,
    position: usize,
    permuted: bool,
}

/// `block`: rows per threadgroup.
fn check(file: &str, case: &Case, block: usize) {
    let &Case { heads, kv_heads, rows, position, permuted } = case;
    let context = position + rows;
    let capacity = context + 3;
    let ldx = (2 * heads + 2 * kv_heads) * D;
    let mut r = Random::new((context * 7 + rows) as u64);
    let (mut q, queries) = bf16_rows(&mut r, rows * heads * D, 2.0);
    let (mut x, projected) = bf16_rows(&mut r, rows * ldx, 2.0);
    let (mut k, keys) = bf16_rows(&mut r, kv_heads * capacity * D, 1.0);
    let (mut v, vals) = bf16_rows(&mut r, kv_heads * capacity * D, 1.0);
    let mut y = bf16_results(rows * heads * D);
    let kernel = Kernel::new(
        file,
        &[
            ("HEADS", heads as i64),
            ("KV_HEADS", kv_heads as i64),
            ("HEAD", D as i64),
            ("PERMUTED", i64::from(permuted)),
        ],
    );
    kernel.run(
        "attention_rows",
        [rows.div_ceil(block), heads, 1],
        &mut [("q", &mut q), ("keys", &mut k), ("values", &mut v), ("x", &mut x), ("y", &mut y)],
        &[
            ("rows", Value::U(rows)),
            ("ldx", Value::U(ldx)),
            ("position", Value::U(position)),
            ("kv_head", Value::U(capacity * D)),
            ("kv_row", Value::U(D)),
            ("scale", Value::F(1.0 / 16.0)),
        ],
    );
    // The reference keeps positions outermost.
    let by_position = |rows: &[f32]| -> Vec<f32> {
        (0..context)
            .flat_map(|p| (0..kv_heads).flat_map(move |h| rows[(h * capacity + p) * D..][..D].to_vec()))
            .collect()
    };
    let kv = KvRows { keys: by_position(&keys), values: by_position(&vals) };
    let mut wanted = vec![0.0; rows * heads * D];
    for (i, (out, query)) in wanted.chunks_exact_mut(D).zip(queries.chunks_exact(D)).enumerate() {
        let (row, h) = (i / heads, i % heads);
        attend(query, &kv, kv_heads, h / (heads / kv_heads), position + row + 1, out);
        let gate = &projected[row * ldx + (2 * h + 1) * D..][..D];
        out.iter_mut().zip(gate).for_each(|(out, gate)| *out *= sigmoid(*gate));
    }
    let found = if permuted { in_order(&values(&y), heads * D) } else { values(&y) };
    assert_close(&found, &wanted, 6e-3, &format!("{file}: {rows} rows from {position}, {heads} heads"));
}

#[test]
fn contexts_and_block_edges() {
    for (rows, position) in [(1, 0), (31, 0), (32, 0), (33, 0), (1, 63), (2, 63), (5, 130)] {
        let case = Case { heads: 2, kv_heads: 1, rows, position, permuted: false };
        check("attention_rows", &case, 32);
    }
}

#[test]
fn the_models_heads() {
    check("attention_rows", &Case { heads: 8, kv_heads: 1, rows: 3, position: 30, permuted: true }, 32);
    check("attention_rows", &Case { heads: 16, kv_heads: 2, rows: 2, position: 64, permuted: false }, 32);
}

#[test]
fn tensor_operations() {
    for (rows, position) in [(1, 0), (33, 0), (2, 63), (5, 130)] {
        let case = Case { heads: 2, kv_heads: 1, rows, position, permuted: false };
        check("attention_rows_tensor", &case, 32);
    }
    let case = Case { heads: 16, kv_heads: 2, rows: 2, position: 64, permuted: false };
    check("attention_rows_tensor", &case, 32);
}

#[test]
fn wgmma() {
    for (rows, position) in [(1, 0), (33, 0), (129, 0), (2, 63), (5, 200)] {
        let case = Case { heads: 2, kv_heads: 1, rows, position, permuted: rows > 32 };
        check("attention_rows_wgmma", &case, 128);
    }
    check(
        "attention_rows_wgmma",
        &Case { heads: 4, kv_heads: 2, rows: 2, position: 64, permuted: false },
        128,
    );
}
