//! Tokens that the backend chooses itself, one step ahead of the engine: nobody who asks can tell.

use crate::constraints::{constrained, fixed};
use crate::support::{Answer, ROWS, engine, engine_with, eventually, ids, noting, request, run};
use lily_engine::testing::{Call, CallKind, END, Fault, ScriptedBackend, bytes};
use lily_engine::{
    BackendError, CancelToken, Engine, EngineOptions, Event, FinishReason, GenerationError,
    GenerationRequest, SamplingParams, TokenId,
};
use std::ops::ControlFlow;
use std::time::Duration;

fn choosing() -> ScriptedBackend {
    ScriptedBackend::new(ROWS).choosing()
}

/// Tokens chosen by the backend so far.
fn by_backend(engine: &Engine) -> u64 {
    engine.metrics().backend_tokens
}

/// One that answers these bytes after a prompt of `prompt` tokens, then the end.
fn saying(text: &str, prompt: usize) -> impl Fn(&[TokenId]) -> Option<TokenId> + Send + 'static {
    let text = bytes(text);
    move |tokens| Some(text.get(tokens.len() - prompt).copied().unwrap_or(END))
}

#[test]
fn every_kind_of_request_gets_the_same_answer_from_either() {
    let (device, host) = (engine(choosing()), engine(ScriptedBackend::new(ROWS)));
    let params = |edit: fn(&mut SamplingParams)| {
        let mut params = SamplingParams { temperature: 0.9, seed: Some(11), ..SamplingParams::default() };
        edit(&mut params);
        params
    };
    let samplings = [
        SamplingParams::default(),
        params(|_| {}),
        params(|p| (p.top_k, p.top_p, p.min_p) = (20, 0.9, 0.01)),
        params(|p| (p.repetition_penalty, p.repetition_window) = (1.5, 4)),
        params(|p| (p.presence_penalty, p.frequency_penalty) = (1.0, 0.5)),
        params(|p| p.logit_bias = vec![(TokenId(65), 6.0), (TokenId(66), -100.0)]),
    ];
    for sampling in samplings {
        for logprobs in [None, Some(3)] {
            let asked = GenerationRequest {
                sampling: sampling.clone(),
                logprobs,
                stop: vec!["A".to_owned()],
                stop_ids: vec![END],
                ..request(&ids([1, 2, 65, 66]), 40)
            };
            let before = by_backend(&device);
            let (found, wanted) = (run(&device, asked.clone()), run(&host, asked));
            assert_eq!(found.ids, wanted.ids, "{sampling:?}");
            assert_eq!((found.text, found.deltas), (wanted.text, wanted.deltas));
            assert_eq!((found.reason, found.stop), (wanted.reason, wanted.stop));
            assert_eq!(found.logprobs, wanted.logprobs);
            assert_eq!(by_backend(&device) - before, found.ids.len() as u64 - 1, "all but the prompt's own");
        }
    }
    assert_eq!(by_backend(&host), 0);
}

/// What a step ahead has computed is the reply's last token, never more: no call, no token, no state is left over.
#[test]
fn the_step_ahead_of_an_end_is_thrown_away() {
    let prompt = ids([1, 2, 3]);
    for (stop_ids, stop, ignore_eos, most, text, reason) in [
        (vec![END], vec![], false, 50, "yes it is", FinishReason::EndOfText),
        (vec![END], vec!["s it".to_owned()], false, 50, "ye", FinishReason::StopString),
        (vec![], vec![], true, 4, "yes ", FinishReason::Length),
        (vec![], vec![], true, 1, "y", FinishReason::Length),
    ] {
        let (calls, script) = noting(|call: &Call<'_>| Some((call.kind, call.sequences[0].to_vec())));
        let engine = engine(choosing().saying(saying("yes it is", 3)).script(script));
        let asked = GenerationRequest { stop_ids, stop, ignore_eos, ..request(&prompt, most) };
        let answer = run(&engine, asked);
        assert_eq!((answer.text.as_str(), answer.reason), (text, Some(reason)));
        assert_eq!(engine.metrics().generated_tokens, answer.ids.len() as u64);
        let chosen: Vec<_> =
            calls.lock().unwrap().iter().filter(|(kind, _)| *kind == CallKind::Choose).cloned().collect();
        assert_eq!(chosen.len(), answer.ids.len() - 1, "a choice was asked for that nobody wanted");
        for (index, (_, consumed)) in chosen.iter().enumerate() {
            let wanted: Vec<TokenId> = prompt.iter().chain(&answer.ids[..=index]).copied().collect();
            assert_eq!(*consumed, wanted);
        }
    }
}

/// The next turn begins where the reply ended: at its last token where the backend had consumed that already, else before
/// it. It says what it would have said without a snapshot.
#[test]
fn a_conversation_goes_on_after_it() {
    let off = EngineOptions { snapshot_budget: 0, ..EngineOptions::default() };
    let rule = |tokens: &[TokenId]| Some(TokenId(if tokens.len().is_multiple_of(7) { 65 } else { 98 }));
    for (stop, most, left) in [(Some("A"), 400, 0), (None, 12, 1)] {
        let backend = || if stop.is_some() { choosing().saying(rule) } else { choosing() };
        let (engine, off) = (engine(backend()), engine_with(backend(), off.clone()));
        let mut history = ids((0..50).map(|i| (i * 7 + 3) % 250));
        for turn in 0..4 {
            let asked = GenerationRequest {
                stop: stop.map(str::to_owned).into_iter().collect(),
                sampling: SamplingParams { temperature: 1.0, seed: Some(turn), ..SamplingParams::default() },
                ..request(&history, most)
            };
            let (answer, expected) = (run(&engine, asked.clone()), run(&off, asked));
            assert_eq!(answer.ids, expected.ids, "turn {turn}");
            assert_eq!(answer.reason == Some(FinishReason::StopString), stop.is_some(), "turn {turn}");
            if turn > 0 {
                assert_eq!(answer.usage.cached_tokens, history.len() - 8 - left, "turn {turn}");
            }
            history.extend(answer.ids);
            history.extend(ids([turn as u32; 8]));
            eventually("the snapshot of the reply", || engine.metrics().snapshots as u64 == 2 * (turn + 1));
        }
    }
}

#[test]
fn several_sequences_choose_side_by_side() {
    let sampled = |seed| SamplingParams { temperature: 1.0, seed: Some(seed), ..SamplingParams::default() };
    let asked = |seed: u64| GenerationRequest {
        sampling: sampled(seed),
        ..request(&ids(0..3 + seed as u32), 20 + seed as usize)
    };
    let host = engine(ScriptedBackend::new(ROWS));
    let alone: Vec<_> = (0..5).map(|seed| run(&host, asked(seed)).ids).collect();
    let engine = engine(choosing().script(|_| Fault::Delay(Duration::from_micros(200))));
    let together: Vec<_> = (0..5).map(|seed| engine.generate(asked(seed)).expect("taken")).collect();
    let together: Vec<_> = together.into_iter().map(|generation| Answer::of(generation).ids).collect();
    assert_eq!(together, alone);
    assert_eq!(by_backend(&engine), together.iter().map(|ids| ids.len() as u64 - 1).sum::<u64>());
}

#[test]
fn a_grammar_is_asked_before_each_choice() {
    let engine = engine(choosing());
    for sampling in [
        SamplingParams::default(),
        SamplingParams { temperature: 1.0, top_k: 20, top_p: 0.9, ..SamplingParams::default() },
    ] {
        let asked = GenerationRequest { sampling, logprobs: Some(3), ..constrained(fixed("{\"a\":1}")) };
        let answer = run(&engine, asked);
        assert_eq!((answer.text.as_str(), answer.reason), ("{\"a\":1}", Some(FinishReason::EndOfText)));
    }
    let sampling =
        SamplingParams { logit_bias: vec![(TokenId(u32::from(b'e')), -100.0)], ..SamplingParams::default() };
    let answer = run(&engine, GenerationRequest { sampling, ..constrained(fixed("yes")) });
    assert_eq!(answer.text, "y");
    assert!(matches!(answer.error, Some(GenerationError::NothingToSample)));
    assert!(by_backend(&engine) >= 14);
}

/// Cancelled, or left, within one token; the engine goes on with others.
#[test]
fn cancelling_and_leaving() {
    let (calls, script) = noting(|call: &Call<'_>| (call.kind == CallKind::Choose).then_some(()));
    let engine = engine(choosing().script(script));
    let mut tokens = 0;
    let sink = move |event| {
        tokens += usize::from(matches!(event, Event::Token { .. }));
        if tokens == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    engine.submit(request(&ids([1]), 1000), sink).expect("taken");
    eventually("it has left", || engine.metrics().cancelled == 1);
    assert_eq!(calls.lock().unwrap().len(), 3);

    let cancel = CancelToken::default();
    let asked = GenerationRequest { cancel: cancel.clone(), ..request(&ids([1]), 4000) };
    let mut generation = engine.generate(asked).expect("taken");
    assert!(generation.any(|event| matches!(event, Event::Token { .. })));
    cancel.cancel();
    assert!(matches!(generation.last(), Some(Event::Failed(GenerationError::Cancelled))));
    assert_eq!(run(&engine, request(&ids([2]), 5)).ids.len(), 5);
}

#[test]
fn a_full_context_ends_it() {
    let engine = engine(choosing().max_context(20));
    let answer = run(&engine, GenerationRequest { max_tokens: None, ..request(&ids([1, 2, 3]), 0) });
    assert_eq!((answer.ids.len(), answer.reason), (17, Some(FinishReason::Length)));
}

#[test]
fn faults_meet_the_sequence_they_belong_to() {
    type Case = (fn() -> Fault, fn(&GenerationError) -> bool);
    let cases: [Case; 3] = [
        (
            || Fault::Error(BackendError::Device("lost".to_owned())),
            |error| matches!(error, GenerationError::Backend(_)),
        ),
        (|| Fault::Panic("a fault"), |error| matches!(error, GenerationError::Backend(_))),
        (
            || Fault::Logit(TokenId(7), f32::NAN),
            |error| matches!(error, GenerationError::BadLogits { what: "NaN", position: 6 }),
        ),
    ];
    for (fault, is_expected) in cases {
        let script = move |call: &Call<'_>| {
            // The choice after the fifth token of one of the two.
            let own = call.kind == CallKind::Choose && call.sequences[0][0] == TokenId(9);
            if own && call.sequences[0].len() == 6 { fault() } else { Fault::None }
        };
        let engine = engine(choosing().script(script));
        let other = engine.generate(request(&ids([1, 2, 3]), 30)).expect("taken");
        let answer = run(&engine, request(&ids([9, 2, 3]), 30));
        assert_eq!(answer.ids.len(), 3);
        assert!(answer.error.as_ref().is_some_and(is_expected), "{:?}", answer.error);
        assert_eq!(Answer::of(other).ids.len(), 30);
    }
}
