//! Which tokens can be drawn at all, for any parameters: those that the oracle gives a probability.

use crate::oracle::probabilities;
use lily_engine::{Sampler, SamplingParams, TokenId, TokenMask};
use proptest::prelude::*;
use std::collections::HashSet;

fn params() -> impl Strategy<Value = SamplingParams> {
    let truncation = (
        prop_oneof![Just(0.0f32), 0.05f32..2.0],
        prop_oneof![Just(0usize), 1usize..30, Just(999_999_999)],
        prop_oneof![Just(1.0f32), 0.01f32..1.0],
        prop_oneof![Just(0.0f32), 0.0f32..1.0],
    );
    let penalties = (
        prop_oneof![Just(1.0f32), 0.5f32..2.0],
        prop_oneof![Just(1024usize), 0usize..6],
        prop_oneof![Just(0.0f32), -2f32..2.0],
        prop_oneof![Just(0.0f32), -2f32..2.0],
    );
    let bias = proptest::collection::vec((0u32..40, prop_oneof![-5f32..5.0, Just(-100.0)]), 0..4);
    (truncation, penalties, bias, any::<u64>()).prop_map(|(truncation, penalties, bias, seed)| {
        SamplingParams {
            temperature: truncation.0,
            top_k: truncation.1,
            top_p: truncation.2,
            min_p: truncation.3,
            repetition_penalty: penalties.0,
            repetition_window: penalties.1,
            presence_penalty: penalties.2,
            frequency_penalty: penalties.3,
            logit_bias: bias.into_iter().map(|(id, bias)| (TokenId(id), bias)).collect(),
            seed: Some(seed),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Every choice has a probability, and what is likely does come.
    #[test]
    fn only_what_the_oracle_keeps_is_chosen(
        params in params(),
        // Steps of a quarter: equal logits occur, near misses do not.
        rows in proptest::collection::vec((-40i8..40).prop_map(|quarter| f32::from(quarter) / 4.0), 40),
        prompt in proptest::collection::vec((0u32..40).prop_map(TokenId), 1..8),
        without_token in proptest::collection::hash_set(0u32..40, 0..5),
        forbidden in proptest::collection::hash_set(0u32..40, 0..5),
    ) {
        let mut tokens = TokenMask::all(40);
        let mut grammar = TokenMask::all(40);
        without_token.iter().for_each(|&id| tokens.forbid(TokenId(id)));
        forbidden.iter().for_each(|&id| grammar.forbid(TokenId(id)));
        let allowed = |id: TokenId| !without_token.contains(&id.0) && !forbidden.contains(&id.0);
        let mut sampler = Sampler::new(&params, &prompt, tokens.into(), None);
        let mut answer = Vec::new();
        for _ in 0..12 {
            let expected = probabilities(&params, &rows, &prompt, &answer, allowed);
            let choice = sampler.choose(&mut rows.clone(), Some(&grammar)).expect("a token is left");
            // Where rounding decides whether a token is in (a border of top-p or min-p), either is right.
            let loose = SamplingParams {
                top_p: (params.top_p * 1.0001).min(1.0),
                min_p: params.min_p * 0.9999,
                ..params.clone()
            };
            let possible = probabilities(&loose, &rows, &prompt, &answer, allowed);
            prop_assert!(possible[choice.id.0 as usize] > 0.0, "{:?} after {:?}: {:?}", choice, answer, expected);
            answer.push(choice.id);
        }
    }

    /// Over many seeds all that the oracle keeps comes, so nothing more is cut off.
    #[test]
    fn all_that_the_oracle_keeps_can_be_chosen(
        (top_k, top_p, min_p) in (0usize..6, 0.3f32..1.0, 0.0f32..0.5),
        rows in proptest::collection::vec((0i8..12).prop_map(|quarter| f32::from(quarter) / 4.0), 40),
    ) {
        let params = SamplingParams { temperature: 1.0, top_k, top_p, min_p, ..SamplingParams::default() };
        let tight = SamplingParams { top_p: top_p * 0.9999, min_p: min_p * 1.0001, ..params.clone() };
        let expected = probabilities(&tight, &rows, &[], &[], |_| true);
        let tokens = std::sync::Arc::new(TokenMask::all(40));
        let seen: HashSet<u32> = (0..3000)
            .map(|seed| {
                let params = SamplingParams { seed: Some(seed), ..params.clone() };
                Sampler::new(&params, &[], tokens.clone(), None).choose(&mut rows.clone(), None).expect("a token").id.0
            })
            .collect();
        for (id, &probability) in (0u32..).zip(&expected) {
            // The chance to miss it is below e^-15.
            prop_assert!(probability < 0.005 || seen.contains(&id), "{} of {:?}", id, expected);
        }
    }
}

/// A nucleus far larger than the first look at the candidates, and top-k larger than any heap would like.
#[test]
fn wide_nuclei() {
    let rows = 5000;
    let logits: Vec<f32> = (0..rows).map(|id| ((id * 7919) % rows) as f32 * 1e-3).collect();
    let tokens = std::sync::Arc::new(TokenMask::all(rows));
    for (top_k, top_p) in [(0, 0.9), (4000, 0.9), (0, 0.999), (3000, 1.0), (0, 0.02)] {
        let params = SamplingParams { temperature: 1.0, top_k, top_p, ..SamplingParams::default() };
        let expected = probabilities(&params, &logits, &[], &[], |_| true);
        let kept = expected.iter().filter(|p| **p > 0.0).count();
        let drawn: HashSet<u32> = (0..400)
            .map(|seed| {
                let params = SamplingParams { seed: Some(seed), ..params.clone() };
                let mut sampler = Sampler::new(&params, &[], tokens.clone(), None);
                sampler.choose(&mut logits.clone(), None).expect("a token").id.0
            })
            .collect();
        let outside: Vec<&u32> = drawn.iter().filter(|id| expected[**id as usize] == 0.0).collect();
        assert!(outside.len() <= 1, "{outside:?} of {kept} kept with top_k {top_k}, top_p {top_p}");
        assert!(drawn.len() > kept.min(400) / 3, "{} of {kept}", drawn.len());
    }
}
