//! Many clients at once, some of which leave, on a backend that fails now and then.

use crate::support::{Answer, ROWS, engine_with, eventually, ids, request};
use lily_engine::testing::{CallKind, Fault, ScriptedBackend};
use lily_engine::{BackendError, EngineOptions, FinishReason, GenerationError, SubmitError, TokenId};
use std::collections::HashMap;

const CLIENTS: u32 = 16;
const REQUESTS: u32 = 40;

fn prompt(kind: u32) -> Vec<TokenId> {
    // Some share long beginnings.
    ids((0..20 + kind % 5 * 30).map(|i| (i * 7 + kind / 5 * 40) % 250))
}

fn most(kind: u32) -> usize {
    1 + (kind as usize * 13) % 50
}

/// A linear congruential generator: which kind of request comes next, who leaves.
fn next(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as u32
}

#[test]
fn every_answer_is_right_and_nothing_is_left_behind() {
    let quiet = engine_with(
        ScriptedBackend::new(ROWS),
        EngineOptions { snapshot_budget: 0, max_running: 1, ..EngineOptions::default() },
    );
    let expected: HashMap<u32, Vec<TokenId>> = (0..20)
        .map(|kind| (kind, Answer::of(quiet.generate(request(&prompt(kind), most(kind))).unwrap()).ids))
        .collect();
    let mut calls = 0;
    let backend = ScriptedBackend::new(ROWS).script(move |call| {
        calls += 1;
        match (call.kind, calls % 97) {
            (CallKind::Decode | CallKind::Prefill, 13) => {
                Fault::Error(BackendError::Device("now and then".into()))
            }
            (CallKind::Decode | CallKind::Prefill, 57) => Fault::Panic("now and then"),
            (CallKind::Snapshot | CallKind::Restore, 0..20) => {
                Fault::Error(BackendError::OutOfMemory("no".into()))
            }
            _ => Fault::None,
        }
    });
    let options =
        EngineOptions { max_running: 6, max_waiting: 8, snapshot_budget: 20_000, snapshot_interval: 32 };
    let engine = engine_with(backend, options);
    let mut finished = 0;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (engine, expected) = (&engine, &expected);
                scope.spawn(move || {
                    let (mut state, mut finished) = (u64::from(client), 0);
                    for _ in 0..REQUESTS {
                        let kind = next(&mut state) % 20;
                        let mut generation = loop {
                            match engine.generate(request(&prompt(kind), most(kind))) {
                                Ok(generation) => break generation,
                                Err(SubmitError::Busy { .. }) => std::thread::yield_now(),
                                Err(other) => panic!("{other}"),
                            }
                        };
                        if next(&mut state).is_multiple_of(10) {
                            generation.by_ref().take(next(&mut state) as usize % 8).for_each(drop);
                            continue;
                        }
                        let answer = Answer::of(generation);
                        // A fault ends the answer that it meets; what was said until then is right.
                        assert!(expected[&kind].starts_with(&answer.ids), "{answer:?}");
                        assert_eq!(answer.deltas.concat(), answer.text);
                        match (&answer.reason, &answer.error) {
                            (Some(FinishReason::Length), None) => {
                                assert_eq!(answer.ids, expected[&kind]);
                                finished += 1;
                            }
                            (None, Some(GenerationError::Backend(error))) => {
                                assert!(error.to_string().contains("now and then"), "{error}");
                            }
                            _ => panic!("{answer:?}"),
                        }
                    }
                    finished
                })
            })
            .collect();
        finished = clients.into_iter().map(|client| client.join().expect("a client's checks hold")).sum();
    });
    assert!(finished > CLIENTS * REQUESTS / 2, "{finished}");
    eventually("everyone has left", || engine.metrics().running + engine.metrics().waiting == 0);
    let metrics = engine.metrics();
    assert_eq!(metrics.accepted, u64::from(CLIENTS * REQUESTS));
    assert_eq!(metrics.finished + metrics.failed + metrics.cancelled, metrics.accepted, "{metrics:?}");
    assert!(metrics.snapshot_bytes <= 20_000 && metrics.cache_hits > 0, "{metrics:?}");
}
