//! Router logits: from the residual stream, as exact as f32 sums are.

use crate::support::{Buffer, Kernel, Quantised, Random, Value, assert_close};
use lily_kernels::reference::{linear, rms_norm};

#[test]
fn logits_do_not_see_the_rounding_to_bf16() {
    for (rows, outputs, width) in [(1, 33, 320), (33, 257, 64), (5, 65, 2048)] {
        let mut r = Random::new(rows as u64);
        let (x, gain) = (r.vec(rows * width, 2.0), r.gain(width));
        let mut w = Quantised::new(&mut r, outputs, width, 8, 64);
        let mut normed = x.clone();
        normed.chunks_exact_mut(width).for_each(|row| rms_norm(row, &gain, 1e-6));
        let scale: Vec<f32> = (0..rows).map(|row| normed[row * width] / (x[row * width] * gain[0])).collect();
        let mut logits = Buffer::floats(rows * outputs);
        Kernel::new("router", &[("K", width as i64)]).run(
            "router_logits",
            [outputs.div_ceil(64), rows.div_ceil(32), 1],
            &mut [
                ("x", &mut Buffer::f32(&x)),
                ("gain", &mut Buffer::f32(&gain)),
                ("scale", &mut Buffer::f32(&scale)),
                ("w", &mut w.codes),
                ("scales", &mut w.scales),
                ("biases", &mut w.biases),
                ("logits", &mut logits),
            ],
            &[("rows", Value::U(rows)), ("n", Value::U(outputs)), ("ld", Value::U(outputs))],
        );
        // bf16 operands would be off by 3e-3.
        assert_close(
            &logits.to_f32(),
            &linear(&w.dense(), &normed),
            3e-5,
            &format!("{rows} x {outputs} x {width}"),
        );
    }
}
