//! Pointwise functions.

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// `x sigmoid(x)`.
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// `ln(1 + exp(x))`, without overflow and exact in both tails.
pub fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(sigmoid(0.0), 0.5);
        assert!((silu(1.0) - 0.731_058_6).abs() < 1e-7);
        assert!((softplus(0.0) - std::f32::consts::LN_2).abs() < 1e-7);
    }

    #[test]
    fn tails_are_finite() {
        assert_eq!((sigmoid(-200.0), sigmoid(200.0)), (0.0, 1.0));
        assert_eq!((silu(-200.0), silu(200.0)), (0.0, 200.0));
        assert_eq!((softplus(200.0), softplus(-200.0)), (200.0, 0.0));
        assert!((softplus(-20.0) / (-20.0_f32).exp() - 1.0).abs() < 1e-6, "the lower tail keeps its digits");
    }
}
