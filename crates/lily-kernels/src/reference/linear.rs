//! `y = W x` for several tokens.

use super::{RowSource, dot};
use rayon::prelude::*;

/// Multiplies each token's vector: `x` is `[tokens, cols]`, the answer `[tokens, rows]`. Each row is read once for all
/// tokens.
///
/// # Panics
/// If `x` is not a whole number of vectors.
pub fn linear(w: &dyn RowSource, x: &[f32]) -> Vec<f32> {
    let (rows, cols) = (w.rows(), w.cols());
    assert_eq!(x.len() % cols, 0, "{} elements are no vectors of {cols}", x.len());
    let tokens = x.len() / cols;
    let mut by_row = vec![0.0; rows * tokens];
    by_row.par_chunks_mut(tokens.max(1)).enumerate().for_each_init(
        || vec![0.0; cols],
        |weights, (row, y)| {
            w.row(row, weights);
            for (y, x) in y.iter_mut().zip(x.chunks_exact(cols)) {
                *y = dot(weights, x);
            }
        },
    );
    let mut by_token = vec![0.0; tokens * rows];
    for (token, y) in by_token.chunks_exact_mut(rows).enumerate() {
        for (row, y) in y.iter_mut().enumerate() {
            *y = by_row[row * tokens + token];
        }
    }
    by_token
}
