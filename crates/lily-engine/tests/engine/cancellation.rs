//! Ending a generation from outside.

use crate::support::{ROWS, engine, engine_with, eventually, ids, noting, request, run};
use lily_engine::testing::{CallKind, Fault, ScriptedBackend};
use lily_engine::{CancelToken, EngineOptions, Event, GenerationError, GenerationRequest};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn slow() -> ScriptedBackend {
    ScriptedBackend::new(ROWS).script(|_| Fault::Delay(Duration::from_millis(1)))
}

/// A sink that answers `Break` hears nothing more, is dropped, and not one more token is made for it.
#[test]
fn break_ends_it_within_one_token() {
    let (decodes, script) = noting(|call| (call.kind == CallKind::Decode).then_some(()));
    let engine = engine(ScriptedBackend::new(ROWS).script(script));
    let alive = Arc::new(());
    let held = alive.clone();
    let mut tokens = 0;
    let sink = move |event| {
        let _ = &held;
        tokens += usize::from(matches!(event, Event::Token { .. }));
        assert!(tokens <= 4);
        if tokens == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    engine.submit(request(&ids([1]), 1000), sink).expect("taken");
    eventually("the sink is dropped", || Arc::strong_count(&alive) == 1);
    run(&engine, request(&ids([2]), 1));
    assert_eq!(decodes.lock().unwrap().len(), 3, "the first of four tokens comes from the prefill");
    let metrics = engine.metrics();
    assert_eq!((metrics.cancelled, metrics.finished, metrics.running), (1, 1, 0));
}

#[test]
fn dropping_a_generation_cancels_it() {
    let engine = engine(slow());
    let mut generation = engine.generate(request(&ids([1]), 4000)).expect("taken");
    generation.next();
    drop(generation);
    eventually("it is gone", || engine.metrics().running == 0);
    assert_eq!(engine.metrics().cancelled, 1);
}

#[test]
fn waiting_ones_can_be_cancelled_and_dropped() {
    let options = EngineOptions { max_running: 1, ..EngineOptions::default() };
    let engine = engine_with(slow(), options);
    let running = engine.generate(request(&ids([1]), 4000)).expect("taken");
    let token = CancelToken::default();
    let cancelled = engine
        .generate(GenerationRequest { cancel: token.clone(), ..request(&ids([2]), 10) })
        .expect("taken");
    let dropped = engine.generate(request(&ids([3]), 10)).expect("taken");
    let last = engine.generate(request(&ids([4]), 2)).expect("taken");
    drop(dropped);
    token.cancel();
    let events: Vec<Event> = cancelled.collect();
    assert!(matches!(events[..], [Event::Failed(GenerationError::Cancelled)]), "{events:?}");
    eventually("only the last one waits", || engine.metrics().waiting == 1);
    drop(running);
    assert!(matches!(last.last(), Some(Event::Finished { .. })));
}

#[test]
fn a_cancel_token_ends_running_ones() {
    let engine = engine(slow());
    let token = CancelToken::default();
    let mut generation = engine
        .generate(GenerationRequest { cancel: token.clone(), ..request(&ids([1]), 4000) })
        .expect("taken");
    assert!(generation.any(|event| matches!(event, Event::Token { .. })));
    token.cancel();
    assert!(matches!(generation.last(), Some(Event::Failed(GenerationError::Cancelled))));
}

#[test]
fn deadlines() {
    let options = EngineOptions { max_running: 1, ..EngineOptions::default() };
    let engine = engine_with(slow(), options);
    let timed = |milliseconds| {
        let deadline = Some(Instant::now() + Duration::from_millis(milliseconds));
        engine.generate(GenerationRequest { deadline, ..request(&ids([1]), 4000) }).expect("taken")
    };
    let (running, waiting) = (timed(100), timed(50));
    for generation in [waiting, running] {
        assert!(matches!(generation.last(), Some(Event::Failed(GenerationError::DeadlinePassed))));
    }
}

/// A generation is cancelled between two chunks of its prompt.
#[test]
fn during_prefill() {
    let engine = engine(slow().chunk(4));
    let mut generation = engine.generate(request(&ids([7; 3000]), 1)).expect("taken");
    assert!(matches!(generation.next(), Some(Event::Prefill { done: 0, total: 3000 })));
    drop(generation);
    eventually("it is gone", || engine.metrics().running == 0);
    assert!(engine.metrics().prefilled_tokens < 3000);
}
