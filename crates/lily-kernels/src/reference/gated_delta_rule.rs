//! The recurrence of Gated DeltaNet, one head and one token at a time.

use super::{dot, softplus};

/// `x / sqrt(Σ x² + eps)` in place.
pub fn l2_norm(x: &mut [f32], eps: f32) {
    let squares = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
    let scale = (1.0 / (squares + f64::from(eps)).sqrt()) as f32;
    for x in x {
        *x *= scale;
    }
}

/// `exp(g)` with `g = -exp(a_log) softplus(a + dt_bias)`: the share of the state that stays, in (0, 1].
pub fn decay(a: f32, a_log: f32, dt_bias: f32) -> f32 {
    (-a_log.exp() * softplus(a + dt_bias)).exp()
}

/// `S = decay S; d = beta (v - S k); S += d kᵀ; o = S q`.
///
/// `state` is S, `[value_dim, key_dim]` row-major; `q` and `k` are L2-normalised, `q` scaled too; `o` is written to
/// `out [value_dim]`.
pub fn gated_delta_rule(
    state: &mut [f32],
    (q, k, v): (&[f32], &[f32], &[f32]),
    decay: f32,
    beta: f32,
    out: &mut [f32],
) {
    for ((row, v), out) in state.chunks_exact_mut(k.len()).zip(v).zip(out) {
        for s in row.iter_mut() {
            *s *= decay;
        }
        let d = beta * (v - dot(row, k));
        for (s, k) in row.iter_mut().zip(k) {
            *s += d * k;
        }
        *out = dot(row, q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l2_norm_adds_epsilon_to_the_sum() {
        let mut x = [3.0, 4.0];
        l2_norm(&mut x, 0.0);
        assert!((x[0] - 0.6).abs() < 1e-7 && (x[1] - 0.8).abs() < 1e-7);
        let mut small = [1e-3, 0.0];
        l2_norm(&mut small, 1e-6);
        assert!((small[0] - 0.5_f32.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn decay_is_a_share() {
        assert!((decay(0.0, 0.0, 0.0) - 0.5).abs() < 1e-7, "exp(-softplus(0)) = 1/2");
        assert!(
            (decay(1.0, 2.0_f32.ln(), -1.0) - 0.25).abs() < 1e-6,
            "the bias is added, exp(a_log) multiplies"
        );
        assert_eq!(decay(-200.0, 0.0, 0.0), 1.0);
        assert_eq!(decay(200.0, 3.0, 0.0), 0.0);
    }

    #[test]
    fn a_written_value_is_read_back_by_its_key() {
        let (k, other, v) = ([1.0, 0.0], [0.0, 1.0], [5.0, 7.0, 9.0]);
        let mut state = vec![0.0; 6];
        let mut out = [0.0; 3];
        gated_delta_rule(&mut state, (&k, &k, &v), 1.0, 1.0, &mut out);
        assert_eq!(out, v, "with beta 1 the state answers v to k");
        gated_delta_rule(&mut state, (&k, &other, &[1.0, 1.0, 1.0]), 1.0, 1.0, &mut out);
        assert_eq!(out, v, "an orthogonal key leaves it");
        gated_delta_rule(&mut state, (&k, &k, &[1.0, 2.0, 3.0]), 1.0, 1.0, &mut out);
        assert_eq!(out, [1.0, 2.0, 3.0], "the delta rule replaces, it does not add");
    }

    #[test]
    fn the_state_decays_before_the_error_is_taken() {
        let mut state = vec![2.0];
        let mut out = [0.0];
        gated_delta_rule(&mut state, (&[1.0], &[1.0], &[4.0]), 0.5, 0.5, &mut out);
        // S = 1; d = 0.5 (4 - 1) = 1.5; S = 2.5.
        assert_eq!((state[0], out[0]), (2.5, 2.5));
    }
}
