//! Embedding rows of a chunk.

use crate::support::{Buffer, Kernel, Quantised, Random, Value};

#[test]
fn rows_are_dequantised_and_no_row_beyond_the_matrix_is_read() {
    for (bits, group, width) in [(4, 64, 320), (8, 32, 64), (5, 64, 2048), (16, 64, 320)] {
        let mut w = Quantised::new(&mut Random::new(bits as u64), 7, width, bits, group);
        let kernel = Kernel::new(
            "embedding_rows",
            &[("DIM", width as i64), ("BITS", bits as i64), ("GROUP", group as i64)],
        );
        let tokens = [6_u32, 0, 3, 99];
        let mut x = Buffer::floats(tokens.len() * width);
        kernel.run(
            "embedding_rows",
            [tokens.len(), 1, 1],
            &mut [
                ("tokens", &mut Buffer::u32(&tokens)),
                ("w", &mut w.codes),
                ("scales", &mut w.scales),
                ("biases", &mut w.biases),
                ("x", &mut x),
            ],
            &[("vocabulary", Value::U(7))],
        );
        for (token, x) in tokens.iter().zip(x.to_f32().chunks_exact(width)) {
            let row = (*token as usize).min(6);
            let wanted = &w.values[row * width..(row + 1) * width];
            assert!(x.iter().zip(wanted).all(|(x, w)| (x - w).abs() <= 1e-6), "{bits} bits, token {token}");
        }
    }
}
