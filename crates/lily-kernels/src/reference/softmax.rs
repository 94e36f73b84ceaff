//! Softmax.

/// `exp(x - max) / Σ exp(x - max)` in place; exponentials in f32, their sum in f64.
pub fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0_f64;
    for x in x.iter_mut() {
        *x = (*x - max).exp();
        sum += f64::from(*x);
    }
    let scale = (1.0 / sum) as f32;
    for x in x.iter_mut() {
        *x *= scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities() {
        let mut x = [0.0, 2.0_f32.ln(), f32::NEG_INFINITY];
        softmax(&mut x);
        assert!((x[0] - 1.0 / 3.0).abs() < 1e-7 && (x[1] - 2.0 / 3.0).abs() < 1e-7 && x[2] == 0.0);
        let mut large = [1000.0, 1000.0];
        softmax(&mut large);
        assert_eq!(large, [0.5, 0.5]);
    }
}
