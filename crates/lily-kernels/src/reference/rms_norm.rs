//! Root mean square normalisation.

/// `x / sqrt(mean(x²) + eps) * gain`, in place, over the whole slice. `gain` is the gain itself: a checkpoint that
/// stores `w` for a gain of `1 + w` has been shifted before.
///
/// # Panics
/// If `gain` has another length.
pub fn rms_norm(x: &mut [f32], gain: &[f32], eps: f32) {
    assert_eq!(x.len(), gain.len(), "a gain per element");
    let mean = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / x.len() as f64;
    let scale = (1.0 / (mean + f64::from(eps)).sqrt()) as f32;
    for (x, gain) in x.iter_mut().zip(gain) {
        *x = *x * scale * gain;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let mut x = [3.0, -4.0];
        rms_norm(&mut x, &[1.0, 2.0], 0.0);
        let rms = 12.5_f32.sqrt();
        assert!((x[0] - 3.0 / rms).abs() < 1e-6 && (x[1] + 8.0 / rms).abs() < 1e-6);
    }

    #[test]
    fn epsilon_stands_under_the_root() {
        let mut x = [1e-3, 1e-3];
        rms_norm(&mut x, &[1.0, 1.0], 1e-6);
        assert!((x[0] - 0.5_f32.sqrt()).abs() < 1e-6, "mean of squares and eps are equal here");
        let mut zero = [0.0; 4];
        rms_norm(&mut zero, &[1.0; 4], 1e-6);
        assert_eq!(zero, [0.0; 4]);
    }
}
