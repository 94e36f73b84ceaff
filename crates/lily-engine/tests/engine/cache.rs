//! Prompts that share a prefix.

use crate::support::{Answer, ROWS, engine, engine_with, eventually, ids, noting, request, run};
use lily_engine::testing::{CallKind, ScriptedBackend};
use lily_engine::{EngineOptions, GenerationRequest, TokenId};

fn prompt(len: u32) -> Vec<TokenId> {
    ids((0..len).map(|i| (i * 7 + 3) % 250))
}

/// An answer from a snapshot is the answer without one.
#[test]
fn a_cached_answer_is_the_same() {
    let off = engine_with(
        ScriptedBackend::new(ROWS),
        EngineOptions { snapshot_budget: 0, ..EngineOptions::default() },
    );
    let engine = engine(ScriptedBackend::new(ROWS));
    let mut history = prompt(50);
    for turn in 0..5 {
        let answer = run(&engine, request(&history, 12));
        let expected = run(&off, request(&history, 12));
        assert_eq!(answer.ids, expected.ids, "turn {turn}");
        assert_eq!(expected.usage.cached_tokens, 0);
        let cached = answer.usage.cached_tokens;
        assert_eq!(answer.prefill[0], (cached, history.len()));
        if turn > 0 {
            // The end of the reply before: all of it but the last token, which the state had not consumed.
            assert_eq!(cached, history.len() - 8 - 1, "turn {turn}");
        }
        history.extend(answer.ids);
        history.extend(ids([turn; 8]));
        eventually("the snapshot of the reply", || engine.metrics().snapshots as u32 == 2 * (turn + 1));
    }
    let metrics = engine.metrics();
    assert_eq!((metrics.cache_hits, metrics.cache_misses), (4, 1));
    assert!(metrics.snapshot_bytes > 0 && off.metrics().snapshot_bytes == 0);
}

/// The same prompt again reads one token.
#[test]
fn the_same_prompt_again() {
    let (read, script) = noting(|call| (call.kind == CallKind::Prefill).then_some(call.consumed));
    let engine = engine(ScriptedBackend::new(ROWS).chunk(64).script(script));
    let first = run(&engine, request(&prompt(40), 5));
    let again = run(&engine, request(&prompt(40), 5));
    assert_eq!(first.ids, again.ids);
    assert_eq!((first.usage.cached_tokens, again.usage.cached_tokens), (0, 39));
    assert_eq!(*read.lock().unwrap(), [39, 1, 1]);
}

/// The choices of one request come at once: their prompt is read by one of them, and the others begin from its snapshot.
#[test]
fn the_same_prompt_at_once_is_read_once() {
    let (read, script) = noting(|call| (call.kind == CallKind::Prefill).then_some(call.consumed));
    let engine = engine(ScriptedBackend::new(ROWS).chunk(16).script(script));
    let generations: Vec<_> =
        (0..4).map(|_| engine.generate(request(&prompt(100), 5)).expect("the request is taken")).collect();
    let answers: Vec<Answer> = generations.into_iter().map(Answer::of).collect();
    assert!(answers.iter().all(|answer| answer.ids == answers[0].ids && answer.error.is_none()));
    let cached: Vec<usize> = answers.iter().map(|answer| answer.usage.cached_tokens).collect();
    assert_eq!(cached, [0, 99, 99, 99]);
    assert_eq!(read.lock().unwrap().iter().sum::<usize>(), 100 + 3);
}

/// Without a cache there is nothing to wait for: each reads for itself, and none starves.
#[test]
fn the_same_prompt_at_once_without_a_cache() {
    let options = EngineOptions { snapshot_budget: 0, ..EngineOptions::default() };
    let engine = engine_with(ScriptedBackend::new(ROWS).chunk(16), options);
    let generations: Vec<_> =
        (0..4).map(|_| engine.generate(request(&prompt(100), 5)).expect("the request is taken")).collect();
    for generation in generations {
        let answer = Answer::of(generation);
        assert_eq!((answer.ids.len(), answer.usage.cached_tokens), (5, 0));
    }
}

/// A snapshot that does not fit the budget is not waited for twice.
#[test]
fn the_same_prompt_at_once_with_a_cache_too_small() {
    let options = EngineOptions { snapshot_budget: 1, ..EngineOptions::default() };
    let engine = engine_with(ScriptedBackend::new(ROWS).chunk(16), options);
    let generations: Vec<_> =
        (0..4).map(|_| engine.generate(request(&prompt(100), 5)).expect("the request is taken")).collect();
    assert!(generations.into_iter().map(Answer::of).all(|answer| answer.ids.len() == 5));
}

#[test]
fn borders_on_request_and_at_intervals() {
    let options = EngineOptions { snapshot_interval: 100, ..EngineOptions::default() };
    let (taken, script) = noting(|call| (call.kind == CallKind::Snapshot).then_some(call.sequences[0].len()));
    let engine = engine_with(ScriptedBackend::new(ROWS).chunk(64).script(script), options);
    let snapshot_at = vec![0, 130, 7, 130, 420, 9999];
    run(&engine, GenerationRequest { snapshot_at, ..request(&prompt(420), 0) });
    eventually("all snapshots", || engine.metrics().snapshots == 7);
    // 400 would be too near to the end to be worth it; the last is that of the reply (of no token).
    assert_eq!(*taken.lock().unwrap(), [7, 100, 130, 200, 300, 419, 420]);

    let mut other = prompt(250);
    other[150] = TokenId(255);
    assert_eq!(run(&engine, request(&other, 1)).usage.cached_tokens, 130);
    other[120] = TokenId(255);
    assert_eq!(run(&engine, request(&other, 1)).usage.cached_tokens, 100);
    other[99] = TokenId(255);
    assert_eq!(run(&engine, request(&other, 1)).usage.cached_tokens, 7);
    other[0] = TokenId(255);
    assert_eq!(run(&engine, request(&other, 1)).usage.cached_tokens, 0);
}

#[test]
fn the_budget_is_kept() {
    let options = EngineOptions { snapshot_budget: 3000, ..EngineOptions::default() };
    let engine = engine_with(ScriptedBackend::new(ROWS), options);
    for i in 0..30 {
        run(&engine, request(&ids((0..60).map(|j| (i * 37 + j) % 256)), 4));
        assert!(engine.metrics().snapshot_bytes <= 3000);
    }
    assert!(engine.metrics().snapshots >= 2);
}
