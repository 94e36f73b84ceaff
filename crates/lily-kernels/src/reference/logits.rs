//! From the last hidden state to logits.

use super::{RowSource, linear, rms_norm};

/// `lm_head · rms_norm(x)` for each token: `x [tokens, hidden]` (the residual stream after the last layer) to
/// `[tokens, vocab]`.
pub fn logits(norm: &[f32], eps: f32, lm_head: &dyn RowSource, x: &[f32]) -> Vec<f32> {
    let mut x = x.to_vec();
    x.chunks_exact_mut(norm.len()).for_each(|x| rms_norm(x, norm, eps));
    linear(lm_head, &x)
}
