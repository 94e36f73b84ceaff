//! Rows of bf16 as the prefill kernels pass them on.

use crate::support::{Buffer, Random, bf16, from_bf16};

/// Random rows, rounded to bf16: the buffer, and the values that it holds.
pub(crate) fn bf16_rows(random: &mut Random, len: usize, scale: f32) -> (Buffer, Vec<f32>) {
    let words: Vec<u16> = (0..len).map(|_| bf16(scale * random.float())).collect();
    let values = words.iter().map(|&word| from_bf16(word)).collect();
    (Buffer::u16(&words), values)
}

/// A buffer for bf16 results, NaN everywhere.
pub(crate) fn bf16_results(len: usize) -> Buffer {
    Buffer::u16(&vec![0x7fff; len])
}

/// The values of bf16 results.
pub(crate) fn values(buffer: &Buffer) -> Vec<f32> {
    buffer.to_u16().into_iter().map(from_bf16).collect()
}

/// Where element `k` of a row stands if the row is stored for register operands (`kernels/rows.h`).
pub(crate) fn permuted(k: usize) -> usize {
    let (block, chunk, e) = (k & !127, k / 8 % 16, k % 8);
    let (t, j, i, high) = (chunk / 4, chunk % 4, e % 4, e / 4);
    block + (4 * j + i) * 8 + 2 * t + high
}

/// The same rows of `width`, stored permuted.
pub(crate) fn permute(values: &[f32], width: usize) -> Vec<f32> {
    let mut out = vec![0.0; values.len()];
    for (out, row) in out.chunks_exact_mut(width).zip(values.chunks_exact(width)) {
        row.iter().enumerate().for_each(|(k, &value)| out[permuted(k)] = value);
    }
    out
}

/// Rows that were stored permuted, in order again.
pub(crate) fn in_order(values: &[f32], width: usize) -> Vec<f32> {
    values.chunks_exact(width).flat_map(|row| (0..width).map(|k| row[permuted(k)])).collect()
}

#[test]
fn the_permutation_is_one() {
    let mut seen = vec![false; 256];
    (0..256).for_each(|k| seen[permuted(k)] = true);
    assert!(seen.iter().all(|&seen| seen));
}
