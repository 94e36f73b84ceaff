//! Broken numbers, failing and panicking backends, panicking receivers: each hurts only its own generation.

use crate::support::{Answer, ROWS, engine, engine_with, eventually, ids, request, run};
use lily_engine::testing::{Call, CallKind, Fault, ScriptedBackend};
use lily_engine::{
    BackendError, Engine, EngineOptions, Event, FinishReason, GenerationError, GenerationRequest,
    SamplingParams, SubmitError, TokenId,
};
use std::ops::ControlFlow;

/// The first token of a prompt whose generation is to suffer.
const VICTIM: u32 = 200;

fn hits_victim(call: &Call<'_>) -> bool {
    call.sequences.iter().any(|tokens| tokens.first() == Some(&TokenId(VICTIM)))
}

/// A victim and three others, at once; the others answer as they do alone.
fn victim_and_others(engine: &Engine) -> Answer {
    let prompts: Vec<Vec<TokenId>> = (1..4).map(|i| ids([i, 2 * i, 7])).collect();
    let peaceful = crate::support::engine(ScriptedBackend::new(ROWS));
    let others: Vec<_> =
        prompts.iter().map(|prompt| engine.generate(request(prompt, 40)).expect("taken")).collect();
    let victim = Answer::of(engine.generate(request(&ids([VICTIM, 1]), 40)).expect("taken"));
    for (prompt, other) in prompts.iter().zip(others) {
        let other = Answer::of(other);
        assert_eq!(other.reason, Some(FinishReason::Length), "{:?}", other.error);
        assert_eq!(other.ids, run(&peaceful, request(prompt, 40)).ids);
        assert_eq!(other.deltas.concat(), other.text);
    }
    victim
}

#[test]
fn bad_logits_end_the_request_and_are_never_token_0() {
    let cases = [(f32::NAN, "NaN"), (f32::INFINITY, "infinite"), (f32::NEG_INFINITY, "infinite")];
    for (value, expected) in cases {
        for sampling in [
            SamplingParams::default(),
            SamplingParams { temperature: 1.0, top_k: 20, top_p: 0.95, ..SamplingParams::default() },
        ] {
            for logprobs in [None, Some(5)] {
                let backend = ScriptedBackend::new(ROWS).script(move |call| {
                    let bad = call.kind == CallKind::Decode && call.sequences[0].len() == 6;
                    if bad { Fault::Logit(TokenId(77), value) } else { Fault::None }
                });
                let request =
                    GenerationRequest { sampling: sampling.clone(), logprobs, ..request(&ids([1, 2]), 40) };
                let answer = run(&engine(backend), request);
                let Some(GenerationError::BadLogits { what, position }) = answer.error else {
                    panic!("{answer:?}")
                };
                assert_eq!((what, position, answer.ids.len()), (expected, 6, 4));
            }
        }
    }
}

#[test]
fn bad_logits_of_one_do_not_touch_the_others() {
    let engine = engine(ScriptedBackend::new(ROWS).logits(|tokens, row| {
        for (id, logit) in (0..).zip(row.iter_mut()) {
            *logit = ((id * 7919 + tokens.len() * 31 + tokens[0].0 as usize) % 101) as f32 / 10.0;
        }
        if tokens[0] == TokenId(VICTIM) && tokens.len() == 10 {
            row[3] = f32::NAN;
        }
    }));
    let others: Vec<_> = (1..4).map(|i| engine.generate(request(&ids([i]), 30)).expect("taken")).collect();
    let victim = run(&engine, request(&ids([VICTIM, 1]), 40));
    assert!(
        matches!(victim.error, Some(GenerationError::BadLogits { what: "NaN", position: 10 })),
        "{victim:?}"
    );
    for other in others {
        assert_eq!(Answer::of(other).ids.len(), 30);
    }
}

#[test]
fn everything_banned() {
    let engine = engine(ScriptedBackend::new(ROWS));
    let logit_bias = (0..261).filter(|id| ![258, 259].contains(id)).map(|id| (TokenId(id), -100.0)).collect();
    let sampling = SamplingParams { logit_bias, ..SamplingParams::default() };
    let answer = run(&engine, GenerationRequest { sampling, ..request(&ids([1]), 4) });
    assert!(matches!(answer.error, Some(GenerationError::NothingToSample)), "{answer:?}");
}

/// A batched step that one sequence makes fail: the others are read again and go on as if nothing had been.
#[test]
fn an_error_in_a_batch_meets_only_its_sequence() {
    for after in [3, 10, 25] {
        let engine = engine(ScriptedBackend::new(ROWS).script(move |call| {
            let longest = call.sequences.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
            if call.kind == CallKind::Decode && hits_victim(call) && longest >= after {
                Fault::Error(BackendError::Device("a bad block".to_owned()))
            } else {
                Fault::None
            }
        }));
        let victim = victim_and_others(&engine);
        assert!(
            matches!(&victim.error, Some(GenerationError::Backend(BackendError::Device(what))) if what == "a bad block")
        );
        let metrics = engine.metrics();
        assert_eq!((metrics.finished, metrics.failed, metrics.running), (3, 1, 0));
    }
}

/// A batch that fails though none of its sequences fails alone: all go on alone, and all finish.
#[test]
fn a_fault_of_batches_alone_ends_no_answer() {
    let engine = engine(ScriptedBackend::new(ROWS).script(|call| {
        if call.kind == CallKind::Decode && call.sequences.len() > 1 && hits_victim(call) {
            Fault::Error(BackendError::Device("batches do not work".to_owned()))
        } else {
            Fault::None
        }
    }));
    let victim = victim_and_others(&engine);
    assert_eq!((victim.ids.len(), victim.reason), (40, Some(FinishReason::Length)));
    assert_eq!(engine.metrics().failed, 0);
}

#[test]
fn a_panic_in_prefill_or_decode_meets_only_its_sequence() {
    for kind in [CallKind::Prefill, CallKind::Decode] {
        let engine = engine(ScriptedBackend::new(ROWS).script(move |call| {
            if call.kind == kind && hits_victim(call) {
                Fault::Panic("index out of bounds")
            } else {
                Fault::None
            }
        }));
        let victim = victim_and_others(&engine);
        let error = victim.error.expect("a panic").to_string();
        assert!(error.contains("panicked") && error.contains("index out of bounds"), "{error}");
        assert_eq!(run(&engine, request(&ids([1]), 3)).ids.len(), 3, "the engine lives");
    }
}

#[test]
fn a_backend_that_only_panics_is_given_up() {
    let engine = engine(ScriptedBackend::new(ROWS).script(|call| {
        if call.kind == CallKind::Prefill { Fault::Panic("broken for good") } else { Fault::None }
    }));
    eventually("it takes no more requests", || match engine.generate(request(&ids([1]), 3)) {
        Ok(generation) => {
            let last = generation.last();
            assert!(matches!(last, Some(Event::Failed(_))), "{last:?}");
            false
        }
        Err(SubmitError::Dead { reason }) => reason.contains("broken for good"),
        Err(other) => panic!("{other}"),
    });
    assert!(!engine.metrics().accepting);
    engine.shut_down(std::time::Duration::ZERO);
}

#[test]
fn out_of_memory_makes_room_or_fails_the_request() {
    let backend = ScriptedBackend::new(ROWS).script(|call| match call.kind {
        CallKind::NewState => Fault::Error(BackendError::OutOfMemory("no state".to_owned())),
        _ => Fault::None,
    });
    let answer = run(&engine(backend), request(&ids([1]), 3));
    assert!(matches!(answer.error, Some(GenerationError::Backend(BackendError::OutOfMemory(_)))));

    // The second state is to be had only when a snapshot has made room.
    let mut states = 0;
    let backend = ScriptedBackend::new(ROWS).script(move |call| {
        states += usize::from(call.kind == CallKind::NewState);
        if call.kind == CallKind::NewState && states == 2 {
            Fault::Error(BackendError::OutOfMemory("no state".to_owned()))
        } else {
            Fault::None
        }
    });
    let engine = engine(backend);
    assert_eq!(run(&engine, request(&ids(0..40), 3)).ids.len(), 3);
    eventually("snapshots of prompt and reply", || engine.metrics().snapshots == 2);
    assert_eq!(run(&engine, request(&ids([9]), 3)).ids.len(), 3);
    assert_eq!(engine.metrics().snapshots, 1);
}

#[test]
fn a_snapshot_that_cannot_be_made_or_restored_is_done_without() {
    for kind in [CallKind::Snapshot, CallKind::Restore] {
        let engine = engine(ScriptedBackend::new(ROWS).script(move |call| {
            if call.kind == kind {
                Fault::Error(BackendError::OutOfMemory("no".to_owned()))
            } else {
                Fault::None
            }
        }));
        let first = run(&engine, request(&ids(0..60), 3));
        let second = run(&engine, request(&ids(0..60), 3));
        assert_eq!(first.ids, second.ids);
        assert_eq!(second.usage.cached_tokens, 0);
    }
}

#[test]
fn a_backend_that_gives_the_wrong_number_of_logits_is_told_off() {
    for rows in [0, ROWS - 1, ROWS + 1] {
        let backend = ScriptedBackend::new(ROWS).script(move |_| Fault::Rows(rows));
        let error = run(&engine(backend), request(&ids([1]), 3)).error.expect("an error").to_string();
        assert_eq!(error, format!("the backend gave {rows} logits, not {ROWS}"));
    }
}

#[test]
fn a_sink_that_panics_ends_only_its_own_generation() {
    let engine = engine_with(ScriptedBackend::new(ROWS), EngineOptions::default());
    let other = engine.generate(request(&ids([3]), 50)).expect("taken");
    let mut events = 0;
    let sink = move |_| {
        events += 1;
        assert!(events < 5, "a receiver's own fault");
        ControlFlow::Continue(())
    };
    engine.submit(request(&ids([1]), 1000), sink).expect("taken");
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("another fault of a receiver");
        }
    }
    let bomb = PanicsWhenDropped;
    let sink = move |_| {
        let _ = &bomb;
        ControlFlow::Continue(())
    };
    engine.submit(request(&ids([2]), 5), sink).expect("taken");
    assert_eq!(Answer::of(other).ids.len(), 50);
    eventually("all are gone", || engine.metrics().running == 0);
    assert_eq!(run(&engine, request(&ids([1]), 3)).ids.len(), 3);
}
