//! Draws follow the exact distribution (chi-square), and each draw is the documented Gumbel-max one.

use crate::oracle::probabilities;
use lily_engine::{Sampler, SamplingParams, TokenId, TokenMask};

/// Logits of 50 rows with a spread like a language model's.
fn logits() -> Vec<f32> {
    (0..50u32).map(|id| ((id * 37 % 50) as f32).sqrt() * -1.3 + 4.0).collect()
}

/// Chi-square over tokens expected at least ten times, the rest as one class; compared with the 99.99 % quantile
/// (Wilson-Hilferty).
fn assert_follows(params: &SamplingParams, draws: u32, draw: impl Fn(u64) -> TokenId) {
    let expected = probabilities(params, &logits(), &[], &[], |_| true);
    let mut counts = vec![0u32; expected.len()];
    for seed in 0..u64::from(draws) {
        counts[draw(seed).0 as usize] += 1;
    }
    let (mut statistic, mut classes, mut rest) = (0.0, 0, (0.0, 0.0));
    for (probability, &count) in expected.iter().zip(&counts) {
        let (wanted, count) = (probability * f64::from(draws), f64::from(count));
        if wanted == 0.0 {
            assert_eq!(count, 0.0, "a token was drawn that had been cut off: {params:?}");
        } else if wanted < 10.0 {
            rest = (rest.0 + wanted, rest.1 + count);
        } else {
            statistic += (count - wanted).powi(2) / wanted;
            classes += 1;
        }
    }
    if rest.0 > 1.0 {
        statistic += (rest.1 - rest.0).powi(2) / rest.0;
        classes += 1;
    }
    let freedom = f64::from(classes - 1).max(1.0);
    let part = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - part + 3.719 * part.sqrt()).powi(3);
    assert!(statistic < limit, "chi-square {statistic:.1} over {limit:.1} for {params:?}: {counts:?}");
}

#[test]
fn draws_follow_the_exact_distribution() {
    let plain = || SamplingParams { temperature: 1.0, ..SamplingParams::default() };
    let cases = [
        plain(),
        SamplingParams { temperature: 0.5, ..plain() },
        SamplingParams { temperature: 1.7, ..plain() },
        SamplingParams { top_k: 5, ..plain() },
        SamplingParams { top_p: 0.8, ..plain() },
        SamplingParams { min_p: 0.1, ..plain() },
        SamplingParams { top_k: 20, top_p: 0.95, ..plain() },
        SamplingParams { temperature: 1.3, top_k: 30, top_p: 0.9, min_p: 0.05, ..plain() },
        SamplingParams { logit_bias: vec![(TokenId(3), 2.0), (TokenId(0), -100.0)], ..plain() },
    ];
    let tokens = std::sync::Arc::new(TokenMask::all(50));
    for params in cases {
        // Fresh generations with seeds in a row.
        assert_follows(&params, 20_000, |seed| {
            let params = SamplingParams { seed: Some(seed), ..params.clone() };
            Sampler::new(&params, &[], tokens.clone(), None).choose(&mut logits(), None).expect("a token").id
        });
    }
}

/// Steps of one generation are as independent as generations.
#[test]
fn steps_of_one_generation_follow_it_too() {
    let params = SamplingParams { temperature: 1.0, seed: Some(7), ..SamplingParams::default() };
    let sampler = Sampler::new(&params, &[], TokenMask::all(50).into(), None);
    let sampler = std::cell::RefCell::new(sampler);
    assert_follows(&params, 20_000, |_| {
        sampler.borrow_mut().choose(&mut logits(), None).expect("a token").id
    });
    // And one step says nothing about the next: pairs that are equal are as many as chance has.
    let probabilities = probabilities(&params, &logits(), &[], &[], |_| true);
    let expected: f64 = probabilities.iter().map(|p| p * p).sum();
    let draw = || sampler.borrow_mut().choose(&mut logits(), None).expect("a token").id;
    let pairs = (0..20_000).filter(|_| draw() == draw()).count() as f64 / 20_000.0;
    assert!((pairs - expected).abs() < 5.0 * (expected / 20_000.0).sqrt(), "{pairs} {expected}");
}

/// The very choice that the documentation of `Sampler` specifies, by an independent implementation of it.
#[test]
fn the_documented_draw() {
    // Enough rows for many blocks; their spread is such that low ones win now and then.
    let rows: Vec<f32> = (0..1003u32).map(|id| (id * 617 % 1003) as f32 * 0.008).collect();
    for (temperature, top_p) in [(0.8, 1.0), (2.0, 1.0), (0.3, 1.0), (1.2, 0.9)] {
        let seed = 0x1234_5678_9abc_def0;
        let params = SamplingParams { temperature, top_p, seed: Some(seed), ..SamplingParams::default() };
        let mut sampler = Sampler::new(&params, &[], TokenMask::all(rows.len()).into(), None);
        let kept = probabilities(&params, &rows, &[], &[], |_| true);
        for step in 0..300u32 {
            let candidates = (0u32..).zip(&rows).filter(|(id, _)| kept[*id as usize] > 0.0);
            let scores = candidates.map(|(id, &logit)| {
                let word = philox([id / 4, step, 0, 0], [0x9abc_def0, 0x1234_5678])[id as usize % 4];
                let v = ((f64::from(word) + 0.5) / 2f64.powi(32)) as f32;
                let noise = -(-(1.0 - f64::from(v)).ln()).ln();
                (f64::from(logit) / f64::from(temperature) + noise, id)
            });
            let expected = scores.max_by(|a, b| a.0.total_cmp(&b.0)).expect("scores").1;
            let choice = sampler.choose(&mut rows.clone(), None).expect("a token");
            assert_eq!(choice.id, TokenId(expected), "step {step} at {temperature}, top-p {top_p}");
        }
    }
}

/// Philox4x32-10 as the paper writes it.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut x0, mut x1, mut x2, mut x3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let low = u64::from(x0) * 0xd251_1f53;
        let high = u64::from(x2) * 0xcd9e_8d57;
        (x0, x1, x2, x3) =
            ((high >> 32) as u32 ^ x1 ^ k0, high as u32, (low >> 32) as u32 ^ x3 ^ k1, low as u32);
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    [x0, x1, x2, x3]
}

/// A temperature as small as f32 knows is greedy without a NaN, and the largest numbers overflow nothing.
#[test]
fn extremes() {
    for temperature in [1e-45, 1e-30, 1e-6] {
        for (top_k, top_p, min_p) in
            [(0, 1.0, 0.0), (20, 0.95, 0.0), (0, 0.5, 0.0), (0, 1.0, 0.1), (3, 1.0, 1.0)]
        {
            let params = SamplingParams { temperature, top_k, top_p, min_p, ..SamplingParams::default() };
            let mut sampler = Sampler::new(&params, &[], TokenMask::all(50).into(), Some(2));
            for _ in 0..20 {
                let choice = sampler.choose(&mut logits(), None).expect("a token");
                assert_eq!(choice.id, TokenId(0), "{params:?}");
                assert!(choice.logprob.expect("asked for").logprob.is_finite());
            }
        }
    }
    let params = SamplingParams { temperature: 2.0, seed: Some(1), ..SamplingParams::default() };
    for scale in [1e30, f32::MAX] {
        let mut logits: Vec<f32> = (0..50).map(|id| if id == 17 { scale } else { -scale }).collect();
        let choice = Sampler::new(&params, &[], TokenMask::all(50).into(), Some(1))
            .choose(&mut logits, None)
            .expect("a token");
        assert_eq!((choice.id, choice.logprob.expect("asked for").logprob), (TokenId(17), 0.0));
    }
}
