//! Token ids to vectors.

use super::RowSource;

/// Row `token` of the embedding for each token: `[tokens, hidden]`.
///
/// # Panics
/// If a token is no row.
pub fn embedding(w: &dyn RowSource, tokens: &[u32]) -> Vec<f32> {
    let cols = w.cols();
    let mut x = vec![0.0; tokens.len() * cols];
    for (x, &token) in x.chunks_exact_mut(cols).zip(tokens) {
        assert!((token as usize) < w.rows(), "token {token} of {} rows", w.rows());
        w.row(token as usize, x);
    }
    x
}
