//! The causal convolution over rows, from chunk to chunk.

use crate::rows::{bf16_results, bf16_rows, values};
use crate::support::{Buffer, Kernel, Random, Value, assert_close};
use lily_kernels::reference::{causal_conv, l2_norm};

const EPS: f32 = 1e-6;

/// Nano's and a shape whose channels do not fill the last threadgroup.
#[test]
fn chunks_of_any_length_carry_the_window_over() {
    for (keys, vals, chunks) in
        [(256, 512, vec![1, 2, 3, 17]), (128, 384, vec![16, 1, 5]), (128, 128, vec![33])]
    {
        let channels = 2 * keys + vals;
        let ldx = channels + 8;
        let mut r = Random::new(keys as u64);
        let taps = r.vec(channels * 4, 0.7);
        let kernel = Kernel::new("conv_rows", &[("KEYS", keys as i64), ("VALUES", vals as i64)]);
        let mut window = Buffer::f32(&vec![0.0; 4 * channels]);
        let (mut reference, mut position) = (vec![0.0; 3 * channels], 0);
        for rows in chunks {
            let (mut x, plain) = bf16_rows(&mut r, rows * ldx, 1.0);
            let params = [
                ("rows", Value::U(rows)),
                ("ldx", Value::U(ldx)),
                ("position", Value::U(position)),
                ("q_scale", Value::F(128_f32.powf(-0.5))),
                ("eps", Value::F(EPS)),
            ];
            let (mut q, mut k, mut v) =
                (bf16_results(rows * keys), bf16_results(rows * keys), bf16_results(rows * vals));
            kernel.run(
                "conv_rows",
                [channels.div_ceil(1024), rows.div_ceil(16), 1],
                &mut [
                    ("x", &mut x),
                    ("taps", &mut Buffer::f32(&taps)),
                    ("window", &mut window),
                    ("q", &mut q),
                    ("k", &mut k),
                    ("v", &mut v),
                ],
                &params,
            );
            kernel.run(
                "conv_window",
                [channels.div_ceil(1024), 4, 1],
                &mut [("x", &mut x), ("window", &mut window)],
                &params,
            );
            let mut wanted: Vec<f32> =
                plain.chunks_exact(ldx).flat_map(|row| row[..channels].to_vec()).collect();
            causal_conv(&mut reference, &taps, 4, &mut wanted);
            for row in wanted.chunks_exact_mut(channels) {
                row[..2 * keys].chunks_exact_mut(128).for_each(|head| l2_norm(head, EPS));
                row[..keys].iter_mut().for_each(|q| *q *= 128_f32.powf(-0.5));
            }
            let part = |from: usize, to: usize| -> Vec<f32> {
                wanted.chunks_exact(channels).flat_map(|row| row[from..to].to_vec()).collect()
            };
            let what = format!("{rows} rows from {position}");
            assert_close(&values(&q), &part(0, keys), 3e-3, &format!("q, {what}"));
            assert_close(&values(&k), &part(keys, 2 * keys), 3e-3, &format!("k, {what}"));
            assert_close(&values(&v), &part(2 * keys, channels), 3e-3, &format!("v, {what}"));
            position += rows;
            let window = window.to_f32();
            for (at, wanted) in reference.chunks_exact(channels).enumerate() {
                // The reference's window holds positions position - 3 ... position - 1.
                let slot = (position + at + 1) % 4;
                assert_eq!(window[slot * channels..(slot + 1) * channels], *wanted, "window, {what}");
            }
        }
    }
}
