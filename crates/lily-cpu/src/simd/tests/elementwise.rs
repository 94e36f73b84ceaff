//! Norms, gates, the convolution and softmax.

use super::{Noise, assert_close, tiers};
use lily_kernels::reference;

/// Around every vector length and its multiples.
const LENGTHS: [usize; 12] = [1, 3, 4, 7, 8, 15, 16, 17, 63, 64, 65, 320];

#[test]
fn norms() {
    let mut noise = Noise(10);
    for len in LENGTHS {
        let (x, z, gain) = (noise.numbers(len), noise.numbers(len), noise.numbers(len));
        for kernels in tiers() {
            let what = format!("{} {len}", kernels.tier());
            let mut out = vec![0.0; len];
            kernels.rms_norm(&x, &gain, 1e-6, &mut out);
            let mut expected = x.clone();
            reference::rms_norm(&mut expected, &gain, 1e-6);
            assert_close(&what, &out, &expected, 1e-6);

            let mut out = x.clone();
            kernels.gated_norm(&mut out, &z, &gain, 1e-6);
            let mut expected = x.clone();
            reference::gated_norm(&mut expected, &gain, &z, 1e-6);
            assert_close(&what, &out, &expected, 1e-6);

            let mut out = x.clone();
            kernels.l2_normalize(&mut out, 1e-6, 0.25);
            let mut expected = x.clone();
            reference::l2_norm(&mut expected, 1e-6);
            expected.iter_mut().for_each(|x| *x *= 0.25);
            assert_close(&what, &out, &expected, 1e-6);
        }
    }
}

#[test]
fn gates() {
    let mut noise = Noise(11);
    for len in LENGTHS {
        let gate: Vec<f32> = noise.numbers(len).iter().map(|x| x * 30.0).collect();
        let up = noise.numbers(len);
        for kernels in tiers() {
            let what = format!("{} {len}", kernels.tier());
            let mut out = vec![0.0; len];
            kernels.silu_mul(&gate, &up, &mut out);
            let expected: Vec<f32> =
                gate.iter().zip(&up).map(|(&gate, up)| reference::silu(gate) * up).collect();
            assert_close(&what, &out, &expected, 1e-6);

            let mut out = up.clone();
            kernels.scale_sigmoid(0.5, &gate, &mut out);
            let expected: Vec<f32> =
                gate.iter().zip(&up).map(|(&gate, up)| reference::sigmoid(gate) * up * 0.5).collect();
            assert_close(&what, &out, &expected, 1e-6);

            let mut out = up.clone();
            kernels.accumulate(&gate, 2.0, &mut out);
            let expected: Vec<f32> = gate.iter().zip(&up).map(|(gate, up)| up + 2.0 * gate).collect();
            assert_close(&what, &out, &expected, 1e-6);
            assert_close(&what, &[kernels.dot(&gate, &up)], &[reference::dot(&gate, &up)], 1e-5);
        }
    }
}

/// exp inside SiLU and softmax: extremes neither overflow nor hide a NaN.
#[test]
fn extremes() {
    for kernels in tiers() {
        let gate = [-1e30, -200.0, -90.0, 0.0, 90.0, 1e30, f32::NAN, f32::NEG_INFINITY];
        let gate: Vec<f32> = gate.into_iter().cycle().take(24).collect();
        let mut out = vec![0.0; 24];
        kernels.silu_mul(&gate, &[1.0; 24], &mut out);
        for out in out.chunks_exact(8) {
            assert!(out[..4].iter().all(|x| x.abs() < 1e-8), "{} {out:?}", kernels.tier());
            assert_eq!(out[4..6], [90.0, 1e30], "{}", kernels.tier());
            assert!(out[6].is_nan(), "{}", kernels.tier());
        }
        let mut logits = vec![f32::NEG_INFINITY; 33];
        logits[32] = 5.0;
        logits[3] = 5.0;
        kernels.softmax(&mut logits);
        assert_eq!((logits[3], logits[32]), (0.5, 0.5));
        assert!(logits[0] < 1e-37);
    }
}

#[test]
fn softmax_is_the_references() {
    let mut noise = Noise(12);
    for len in LENGTHS {
        let x: Vec<f32> = noise.numbers(len).iter().map(|x| x * 20.0).collect();
        let mut expected = x.clone();
        reference::softmax(&mut expected);
        for kernels in tiers() {
            let mut out = x.clone();
            kernels.softmax(&mut out);
            assert_close(&format!("{} {len}", kernels.tier()), &out, &expected, 2e-6);
        }
    }
}

#[test]
fn convolution() {
    let mut noise = Noise(13);
    let width = 4;
    for channels in LENGTHS {
        let weight = noise.numbers(channels * width);
        let x = noise.numbers(channels * 4);
        let mut expected = x.clone();
        reference::causal_conv(&mut vec![0.0; 3 * channels], &weight, width, &mut expected);
        let mut taps = vec![0.0; weight.len()];
        for (c, weights) in weight.chunks_exact(width).enumerate() {
            weights.iter().enumerate().for_each(|(t, w)| taps[t * channels + c] = *w);
        }
        let columns: Vec<&[f32]> = x.chunks_exact(channels).collect();
        for kernels in tiers() {
            let mut out = vec![0.0; channels];
            kernels.conv_silu(&taps, channels, &columns, &mut out);
            let what = format!("{} {channels}", kernels.tier());
            assert_close(&what, &out, &expected[3 * channels..], 2e-6);
        }
    }
}

#[test]
fn bf16_rounding_is_to_nearest_even() {
    let mut noise = Noise(14);
    let mut x: Vec<f32> =
        (0..200).map(|_| f32::from_bits(noise.bits() << 1)).filter(|x| !x.is_nan()).collect();
    x.extend([1.0, 1.003_906_2, 1.011_718_8, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE, -0.0]);
    let expected: Vec<u32> = x.iter().map(|&x| half::bf16::from_f32(x).to_f32().to_bits()).collect();
    for kernels in tiers() {
        let mut out = x.clone();
        kernels.round_bf16(&mut out);
        assert_eq!(out.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected);
    }
}
