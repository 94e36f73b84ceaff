//! The output norm of Gated DeltaNet.

use super::{rms_norm, silu};

/// `rms_norm(o) * gain * silu(z)` in place on one head. `gain` is a plain gain in every checkpoint.
pub fn gated_norm(o: &mut [f32], gain: &[f32], z: &[f32], eps: f32) {
    rms_norm(o, gain, eps);
    for (o, z) in o.iter_mut().zip(z) {
        *o *= silu(*z);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_comes_after_the_norm() {
        let mut o = [1.0, -1.0];
        gated_norm(&mut o, &[2.0, 3.0], &[1.0, -1.0], 0.0);
        assert!((o[0] - 2.0 * silu(1.0)).abs() < 1e-6 && (o[1] + 3.0 * silu(-1.0)).abs() < 1e-6);
    }
}
