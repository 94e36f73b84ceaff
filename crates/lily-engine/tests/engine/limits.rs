//! What is refused at the door.

use crate::support::{ROWS, engine, engine_with, ids, request};
use lily_engine::testing::{Fault, ScriptedBackend};
use lily_engine::{EngineOptions, GenerationRequest, SamplingError, SamplingParams, SubmitError, TokenId};
use std::time::Duration;

#[test]
fn prompts() {
    let engine = engine(ScriptedBackend::new(ROWS).max_context(20));
    let refusal = |prompt| engine.generate(GenerationRequest::new(prompt)).err();
    assert_eq!(refusal(vec![]), Some(SubmitError::EmptyPrompt));
    assert_eq!(refusal(ids(0..20)), Some(SubmitError::PromptTooLong { prompt: 20, limit: 20 }));
    assert_eq!(refusal(ids(0..19)), None);
    assert_eq!(refusal(ids([1, 270])), Some(SubmitError::TokenOutOfRange { id: TokenId(270) }));
    let stop = vec!["x".to_owned(), String::new()];
    let error = engine.generate(GenerationRequest { stop, ..request(&ids([1]), 1) }).err();
    assert_eq!(error, Some(SubmitError::EmptyStop));
}

#[test]
fn sampling_parameters() {
    let engine = engine(ScriptedBackend::new(ROWS));
    let field =
        |sampling| match engine.generate(GenerationRequest { sampling, ..request(&ids([1]), 1) }).err() {
            Some(SubmitError::Sampling(SamplingError { field, .. })) => field,
            other => panic!("{other:?}"),
        };
    let plain = SamplingParams::default;
    assert_eq!(field(SamplingParams { temperature: f32::NAN, ..plain() }), "temperature");
    assert_eq!(field(SamplingParams { top_p: 0.0, ..plain() }), "top_p");
    // A hole, a row past the tokenizer's end, no row at all.
    for id in [258, 265, 99_999_999] {
        assert_eq!(field(SamplingParams { logit_bias: vec![(TokenId(id), 1.0)], ..plain() }), "logit_bias");
    }
}

#[test]
fn the_queue_is_bounded() {
    let options = EngineOptions { max_running: 2, max_waiting: 3, ..EngineOptions::default() };
    let slow = ScriptedBackend::new(ROWS).script(|_| Fault::Delay(Duration::from_millis(2)));
    let engine = engine_with(slow, options);
    let mut taken: Vec<_> =
        (0..5).map(|_| engine.generate(request(&ids([1]), 4000)).expect("taken")).collect();
    for refused in 1..=2 {
        let error = engine.generate(request(&ids([1]), 1)).err();
        let Some(SubmitError::Busy { waiting }) = error else { panic!("{error:?}") };
        assert!((3..=5).contains(&waiting), "{waiting}");
        assert_eq!(engine.metrics().refused_busy, refused);
    }
    taken.remove(0);
    crate::support::eventually("a place is free", || engine.generate(request(&ids([1]), 1)).is_ok());
}

#[test]
fn an_engine_without_a_queue_still_takes_what_it_can_run() {
    let options = EngineOptions { max_running: 1, max_waiting: 0, ..EngineOptions::default() };
    let engine = engine_with(ScriptedBackend::new(ROWS), options);
    for _ in 0..50 {
        // The place is free as soon as the last event has come.
        let answer = crate::support::run(&engine, request(&ids([1]), 2));
        assert_eq!(answer.ids.len(), 2);
    }
}
