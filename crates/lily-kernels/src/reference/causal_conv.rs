//! Causal depthwise convolution with SiLU.

use super::silu;

/// `y[t][c] = silu(Σ_j weight[c][j] x[t - (width - 1) + j][c])`, in place on `x [tokens, channels]`.
///
/// `window [width - 1, channels]` holds the inputs before the first token, oldest first (zeros at the start of a
/// sequence), and afterwards those before the next one. `weight` is `[channels, width]`, oldest tap first.
///
/// # Panics
/// If the lengths do not fit each other.
pub fn causal_conv(window: &mut Vec<f32>, weight: &[f32], width: usize, x: &mut [f32]) {
    let channels = weight.len() / width;
    assert_eq!(window.len(), (width - 1) * channels, "a window of {} rows", width - 1);
    assert_eq!(x.len() % channels, 0, "whole rows of {channels} channels");
    let mut inputs = std::mem::take(window);
    inputs.extend_from_slice(x);
    for (t, y) in x.chunks_exact_mut(channels).enumerate() {
        for (c, y) in y.iter_mut().enumerate() {
            let mut sum = 0.0;
            for j in 0..width {
                sum += weight[c * width + j] * inputs[(t + j) * channels + c];
            }
            *y = silu(sum);
        }
    }
    inputs.drain(..inputs.len() - (width - 1) * channels);
    *window = inputs;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impulse_comes_out_newest_tap_first() {
        // One channel, taps oldest first: an impulse at t = 0 meets the newest tap first.
        let mut window = vec![0.0; 3];
        let mut x = [1.0, 0.0, 0.0, 0.0, 0.0];
        causal_conv(&mut window, &[1.0, 2.0, 3.0, 4.0], 4, &mut x);
        assert_eq!(x, [4.0, 3.0, 2.0, 1.0, 0.0].map(silu));
        assert_eq!(window, [0.0; 3]);
    }

    #[test]
    fn channels_do_not_mix_and_the_window_carries_over() {
        let weight = [0.5, -1.0, 2.0, 0.25, 1.0, 1.0, -1.0, 3.0];
        let input: Vec<f32> = (0..14).map(|i| (i * i % 11) as f32 - 4.0).collect();
        let mut whole = input.clone();
        causal_conv(&mut vec![0.0; 6], &weight, 4, &mut whole);
        for t in 0..7 {
            for c in 0..2 {
                let taps =
                    (0..4).filter(|j| t + j >= 3).map(|j| weight[c * 4 + j] * input[(t + j - 3) * 2 + c]);
                assert_eq!(whole[t * 2 + c], silu(taps.sum()));
            }
        }
        let mut window = vec![0.0; 6];
        let mut parts = input.clone();
        for part in [0..2, 2..4, 4..14] {
            causal_conv(&mut window, &weight, 4, &mut parts[part]);
        }
        assert_eq!(parts, whole);
        assert_eq!(window, input[8..]);
    }
}
