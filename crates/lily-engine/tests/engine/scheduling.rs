//! Several generations at once.

use crate::support::{Answer, ROWS, engine, engine_with, ids, noting, request, run};
use lily_engine::testing::{CallKind, Fault, ScriptedBackend};
use lily_engine::{Engine, EngineOptions, Event, SamplingParams, TokenId};
use std::ops::ControlFlow;
use std::sync::mpsc::{Sender, channel};

/// Prompts of many lengths, none a prefix of another.
fn prompt(i: u32) -> Vec<TokenId> {
    ids((0..3 + 11 * i).map(|j| (i * 31 + j) % 250))
}

fn count(i: u32) -> usize {
    97 - 11 * i as usize
}

/// Submits prompt `i`, and when it has said two tokens the next one.
fn join(engine: &Engine, i: u32, events: Sender<(u32, Event)>) {
    let mut tokens = 0;
    let joining = engine.clone();
    let sink = move |event| {
        tokens += usize::from(matches!(event, Event::Token { .. }));
        if tokens == 2 && i < 7 && matches!(event, Event::Token { .. }) {
            join(&joining, i + 1, events.clone());
        }
        events.send((i, event)).expect("the test listens");
        ControlFlow::Continue(())
    };
    engine.submit(request(&prompt(i), count(i)), sink).expect("taken");
}

/// Batches of 1, 2, 3, 4 and 8 with joins and leaves give the tokens that each prompt gets alone.
#[test]
fn batches_give_the_tokens_of_single_sequences() {
    let single = engine(ScriptedBackend::new(ROWS));
    let alone: Vec<Vec<TokenId>> = (0..8).map(|i| run(&single, request(&prompt(i), count(i))).ids).collect();
    for places in [1, 2, 3, 4, 8] {
        let (batches, script) =
            noting(|call| (call.kind == CallKind::Decode).then_some(call.sequences.len()));
        let options = EngineOptions { max_running: places, ..EngineOptions::default() };
        let engine = engine_with(ScriptedBackend::new(ROWS).script(script), options);
        let (sender, events) = channel();
        join(&engine, 0, sender);
        let mut answers: Vec<Answer> = (0..8).map(|_| Answer::default()).collect();
        for (i, event) in events {
            answers[i as usize].take_in(event);
        }
        for (i, answer) in answers.iter().enumerate() {
            assert_eq!(answer.ids, alone[i], "prompt {i} with {places} places");
        }
        let batches = batches.lock().unwrap();
        assert_eq!(batches.iter().copied().max(), Some(places), "the batch fills its places");
        let metrics = engine.metrics();
        assert_eq!((metrics.accepted, metrics.finished), (8, 8));
        assert_eq!(metrics.generated_tokens, (0..8).map(|i| count(i) as u64).sum::<u64>());
    }
}

/// A long prompt is read a chunk at a time: between two chunks every running stream gets a token.
#[test]
fn a_long_prompt_does_not_stall_a_running_stream() {
    const CHUNK: usize = 8;
    let (calls, script) = noting(|call| match call.kind {
        CallKind::Prefill => Some((call.kind, call.consumed)),
        CallKind::Decode => Some((call.kind, call.sequences.len())),
        _ => None,
    });
    let options = EngineOptions { snapshot_budget: 0, ..EngineOptions::default() };
    let engine = engine_with(ScriptedBackend::new(ROWS).chunk(CHUNK).script(script), options);
    // The stream itself submits the others, on the engine's thread, so that it runs all the while.
    let (handle, (sender, answers)) = (engine.clone(), channel());
    let mut tokens = 0;
    let sink = move |event| {
        tokens += usize::from(matches!(event, Event::Token { .. }));
        if tokens == 2 {
            let long = handle.generate(request(&ids((0..400).map(|i| i % 256)), 2)).expect("taken");
            let short = handle.generate(request(&ids([9; 5]), 2)).expect("taken");
            sender.send((long, short)).expect("the test listens");
        }
        ControlFlow::Continue(())
    };
    engine.submit(request(&ids([1, 2]), 400), sink).expect("taken");
    let (long, short) = answers.recv().expect("a stream");
    let (long, short) = (Answer::of(long), Answer::of(short));
    assert_eq!((short.ids.len(), long.ids.len()), (2, 2));
    assert!(long.prefill.len() >= 400 / CHUNK);
    let calls = calls.lock().unwrap();
    // Tokens read between two decode steps while the stream runs.
    let mut read = 0;
    for &(kind, count) in calls.iter() {
        read = if kind == CallKind::Prefill { read + count } else { 0 };
        assert!(read <= CHUNK, "{read} tokens were read without a decode step: {calls:?}");
    }
}

/// Prompts are read by turns, so a short one behind a long one is answered first.
#[test]
fn prompts_are_read_by_turns() {
    let slow = ScriptedBackend::new(ROWS).script(|_| Fault::Delay(std::time::Duration::from_millis(1)));
    let engine = engine(slow.chunk(4));
    let (sender, done) = channel();
    for (name, len) in [("long", 800), ("short", 6)] {
        let sender = sender.clone();
        let sink = move |event| {
            if let Event::Finished { .. } = event {
                sender.send(name).expect("the test listens");
            }
            ControlFlow::Continue(())
        };
        engine.submit(request(&ids((0..len).map(|i| i % 200)), 1), sink).expect("taken");
    }
    assert_eq!(done.recv(), Ok("short"));
    assert_eq!(done.recv(), Ok("long"));
}

/// Places are given in the order of arrival.
#[test]
fn first_come_first_served() {
    let options = EngineOptions { max_running: 1, ..EngineOptions::default() };
    let engine = engine_with(ScriptedBackend::new(ROWS), options);
    let (sender, done) = channel();
    for i in 0..10 {
        let sender = sender.clone();
        let sink = move |event| {
            if let Event::Finished { .. } = event {
                sender.send(i).expect("the test listens");
            }
            ControlFlow::Continue(())
        };
        engine.submit(request(&prompt(9 - i), 3 + (i as usize % 4)), sink).expect("taken");
    }
    assert_eq!(done.iter().take(10).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

#[test]
fn greedy_is_the_same_alone_and_with_sampled_neighbours() {
    let single = run(&engine(ScriptedBackend::new(ROWS)), request(&prompt(2), 60)).ids;
    let engine = engine(ScriptedBackend::new(ROWS));
    let neighbours: Vec<_> = (3..6)
        .map(|i| {
            let mut request = request(&prompt(i), 100);
            request.sampling = SamplingParams { temperature: 1.0, ..SamplingParams::default() };
            engine.generate(request).expect("taken")
        })
        .collect();
    assert_eq!(run(&engine, request(&prompt(2), 60)).ids, single);
    drop(neighbours);
}
