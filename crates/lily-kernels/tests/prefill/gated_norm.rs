//! The output norm of Gated DeltaNet over rows.

use crate::rows::{bf16_results, bf16_rows, in_order, values};
use crate::support::{Buffer, Kernel, Random, Value, assert_close};
use lily_kernels::reference::gated_norm;

#[test]
fn every_head_is_normed_by_itself_and_gated() {
    for (rows, heads, permuted) in [(1, 4, 0), (5, 4, 1), (3, 32, 0), (1, 32, 1)] {
        let (width, ldz) = (heads * 128, heads * 128 + 16);
        let mut r = Random::new(heads as u64);
        let (mut o, plain) = bf16_rows(&mut r, rows * width, 2.0);
        let (mut z, gates) = bf16_rows(&mut r, rows * ldz, 2.0);
        let gain = r.gain(128);
        let mut y = bf16_results(rows * width);
        Kernel::new("gated_norm_rows", &[("HEADS", heads as i64), ("PERMUTED", permuted)]).run(
            "gated_norm_rows",
            [(rows * heads).div_ceil(16), 1, 1],
            &mut [("o", &mut o), ("z", &mut z), ("gain", &mut Buffer::f32(&gain)), ("y", &mut y)],
            &[("rows", Value::U(rows)), ("ldz", Value::U(ldz)), ("eps", Value::F(1e-6))],
        );
        let mut wanted = plain;
        for (row, heads) in wanted.chunks_exact_mut(width).enumerate() {
            for (h, head) in heads.chunks_exact_mut(128).enumerate() {
                gated_norm(head, &gain, &gates[row * ldz + h * 128..][..128], 1e-6);
            }
        }
        let found = if permuted == 1 { in_order(&values(&y), width) } else { values(&y) };
        assert_close(&found, &wanted, 3e-3, &format!("{rows} rows of {heads} heads"));
    }
}
