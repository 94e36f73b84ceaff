//! RMSNorm over rows.

use crate::rows::{bf16_results, in_order, values};
use crate::support::{Buffer, Kernel, Random, Value, assert_close};
use lily_kernels::reference::rms_norm;

const EPS: f32 = 1e-6;

#[test]
fn rows_are_normed_and_their_scale_is_left_for_the_router() {
    for (dim, rows, permuted) in
        [(64, 3, 0), (320, 1, 0), (512, 2, 1), (2048, 2, 0), (2048, 1, 1), (4096, 1, 0)]
    {
        let mut r = Random::new(dim as u64);
        let (x, gain) = (r.vec(rows * dim, 3.0), r.gain(dim));
        let (mut y, mut scale) = (bf16_results(rows * dim), Buffer::floats(rows));
        let kernel = Kernel::new("rms_norm_rows", &[("DIM", dim as i64), ("PERMUTED", permuted)]);
        kernel.run(
            "rms_norm_rows",
            [rows, 1, 1],
            &mut [
                ("x", &mut Buffer::f32(&x)),
                ("gain", &mut Buffer::f32(&gain)),
                ("y", &mut y),
                ("scale", &mut scale),
            ],
            &[("eps", Value::F(EPS))],
        );
        let mut wanted = x.clone();
        wanted.chunks_exact_mut(dim).for_each(|row| rms_norm(row, &gain, EPS));
        let found = if permuted == 1 { in_order(&values(&y), dim) } else { values(&y) };
        assert_close(&found, &wanted, 3e-3, &format!("{rows} rows of {dim}"));
        let scales: Vec<f32> = (0..rows).map(|row| wanted[row * dim] / (x[row * dim] * gain[0])).collect();
        assert_close(&scale.to_f32(), &scales, 1e-5, "scales");
    }
}
