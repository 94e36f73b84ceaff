//! The end of an engine.

use crate::support::{Answer, ROWS, engine, engine_with, ids, request, run};
use lily_engine::testing::{Fault, ScriptedBackend};
use lily_engine::{EngineOptions, Event, FinishReason, GenerationError, SubmitError};
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn slow() -> ScriptedBackend {
    ScriptedBackend::new(ROWS).script(|_| Fault::Delay(Duration::from_millis(1)))
}

#[test]
fn what_is_running_and_waiting_finishes_within_the_grace() {
    let engine = engine_with(slow(), EngineOptions { max_running: 1, ..EngineOptions::default() });
    let taken: Vec<_> = (0..3).map(|i| engine.generate(request(&ids([i]), 20)).expect("taken")).collect();
    engine.shut_down(Duration::from_secs(60));
    for generation in taken {
        let answer = Answer::of(generation);
        assert_eq!((answer.ids.len(), answer.reason), (20, Some(FinishReason::Length)));
    }
    assert_eq!(engine.generate(request(&ids([1]), 1)).err(), Some(SubmitError::ShuttingDown));
}

#[test]
fn what_takes_longer_is_told() {
    let engine = engine_with(slow(), EngineOptions { max_running: 2, ..EngineOptions::default() });
    let taken: Vec<_> = (0..4).map(|i| engine.generate(request(&ids([i]), 4000)).expect("taken")).collect();
    let clock = Instant::now();
    engine.shut_down(Duration::from_millis(100));
    assert!(clock.elapsed() >= Duration::from_millis(100));
    assert!(clock.elapsed() < Duration::from_secs(20));
    for generation in taken {
        assert!(matches!(generation.last(), Some(Event::Failed(GenerationError::ShuttingDown))));
    }
    // A second time is no fault.
    engine.shut_down(Duration::ZERO);
    assert!(!engine.metrics().accepting);
}

#[test]
fn an_idle_engine_ends_at_once_and_from_its_own_thread_too() {
    let idle = engine(slow());
    idle.shut_down(Duration::from_secs(3600));
    let engine = engine(slow());
    let (handle, (sender, done)) = (engine.clone(), channel());
    let sink = move |event| {
        if let Event::Token { .. } = event {
            handle.shut_down(Duration::ZERO);
        }
        sender.send(event).expect("the test listens");
        ControlFlow::Continue(())
    };
    engine.submit(request(&ids([1]), 4000), sink).expect("taken");
    assert!(matches!(done.iter().last(), Some(Event::Failed(GenerationError::ShuttingDown))));
}

#[test]
fn dropping_the_last_handle_ends_what_runs() {
    let engine = engine(slow());
    let clone = engine.clone();
    let generation = engine.generate(request(&ids([1]), 4000)).expect("taken");
    drop(engine);
    assert_eq!(run(&clone, request(&ids([2]), 2)).ids.len(), 2);
    drop(clone);
    assert!(matches!(generation.last(), Some(Event::Failed(GenerationError::ShuttingDown))));
}
