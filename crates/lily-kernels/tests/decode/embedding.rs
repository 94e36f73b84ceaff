//! The embedding row of a token.

use crate::support::{Buffer, Kernel, Quantised, Random, Value};

#[test]
fn a_row_is_dequantised() {
    for (bits, group, width) in [(4, 64, 320), (8, 32, 64), (6, 64, 2048), (3, 64, 4096), (16, 64, 320)] {
        let mut r = Random::new(bits as u64);
        let vocab = 7;
        let mut w = Quantised::new(&mut r, vocab, width, bits, group);
        let kernel =
            Kernel::new("embedding", &[("K", width as i64), ("BITS", bits as i64), ("GROUP", group as i64)]);
        for token in [0, 3, 6] {
            let mut step = Buffer::u32(&[token as u32, 0, 0, 0, 0, 0, 0, 0]);
            let mut x = Buffer::floats(width);
            kernel.run(
                "embedding",
                [width.div_ceil(2048), 1, 1],
                &mut [
                    ("w", &mut w.codes),
                    ("scales", &mut w.scales),
                    ("biases", &mut w.biases),
                    ("step", &mut step),
                    ("x", &mut x),
                ],
                &[("vocab", Value::U(vocab))],
            );
            // A fused multiply and add rounds once, the reference twice.
            let row = &w.values[token * width..(token + 1) * width];
            for (found, wanted) in x.to_f32().iter().zip(row) {
                assert!((found - wanted).abs() < 1e-6, "{bits} bits, token {token}: {found}, not {wanted}");
            }
        }
    }
}
