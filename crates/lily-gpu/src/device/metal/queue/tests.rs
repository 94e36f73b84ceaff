//! The queue against [`simulated`](super::simulated), in many orders of what happens.

use super::{
    IN_FLIGHT, Prepared, Queue, Signal, Ticket,
    simulated::{self, Failure, Simulated},
};
use crate::{
    Buffer, Device, Kernel, Pass, Recorder,
    device::{
        DryDevice,
        metal::{parts::Pace, transfers::Transfer},
    },
};
use lily_kernels::{Platform, Specialisation};
use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// Orders of what happens that each test goes through.
const SEEDS: u64 = 200;

/// A kernel whose stand-in reads a byte of `x` and writes one more to `y`, with the slots of both.
fn kernel() -> (Kernel, (u32, u32)) {
    let gemv = Specialisation::named("gemv", &[("K", 64)]).expect("complete");
    let kernel = DryDevice::new(Platform::Metal).compile(&gemv, "gemv").expect("an entry");
    let slot = |name: &str| {
        let bindings = &kernel.signature().bindings;
        bindings.iter().find(|binding| binding.name == name).expect("a binding").index
    };
    let slots = (slot("x"), slot("y"));
    (kernel, slots)
}

struct Bench {
    kernel: Kernel,
    simulated: Simulated,
    queue: Queue<Simulated>,
}

impl Bench {
    fn new(seed: u64, failures: &[(u64, Failure)]) -> Self {
        let (kernel, slots) = kernel();
        let simulated = Simulated::new(seed, slots, failures);
        Self { kernel, queue: Queue::new(simulated.clone()), simulated }
    }

    /// Dispatches that hand a byte on, each from one place of the buffer to the next, 256 bytes further. One that takes long
    /// by its pace makes a command buffer of its own.
    fn chain(&self, buffer: &Buffer, steps: usize, pace: f64, pass: Pass) -> Arc<Prepared> {
        let weights = simulated::buffer(vec![0; 1024]).0.whole();
        let mut recorder = Recorder::new();
        for at in 0..steps {
            recorder
                .dispatch(&self.kernel, [64, 1, 1])
                .bind("w", &weights)
                .bind("scales", &weights)
                .bind("biases", &weights)
                .bind("x", &buffer.view(256 * at, 256))
                .bind("y", &buffer.view(256 * (at + 1), 256))
                .param("rows", 16_u32)
                .param("stride", 0_u32)
                .label("link");
        }
        let recording = recorder.finish().expect("complete");
        let paces = recording.dispatches().iter().map(|_| slow(pace)).collect();
        Arc::new(Prepared { recording, pass, paces })
    }

    fn log(&self) -> Vec<String> {
        self.simulated.gpu().log.clone()
    }
}

/// A pace that expects about `times` the first guess.
fn slow(times: f64) -> Arc<Pace> {
    let pace = Pace::default();
    while times > 1.0 && pace.factor() < times {
        pace.correct(64.0);
    }
    Arc::new(pace)
}

/// A pace at which each dispatch of [`Bench::chain`] fills a command buffer.
const SLOW: f64 = 1e3;

fn chain_buffer(steps: usize) -> Buffer {
    simulated::buffer(vec![0; 256 * (steps + 1)]).0
}

#[test]
fn the_calls_of_a_run_and_their_order() {
    let bench = Bench::new(0, &[]);
    let buffer = chain_buffer(2);
    bench.queue.run(&bench.chain(&buffer, 2, 1.0, Pass::Concurrent)).expect("runs");
    bench.queue.transfer(Transfer::Zero(buffer.view(0, 8))).expect("waits");
    bench.queue.run(&bench.chain(&buffer, 1, 1.0, Pass::Serial)).expect("runs");
    let calls = [
        "working, begin, compute 1, kernel gemv, dispatch, barrier, dispatch, update, end, signal 1, handler, commit",
        "begin, blit, wait, zero 8, update, end, signal 2, handler, commit",
        "working, begin, compute 0, wait, kernel gemv, dispatch, update, end, signal 3, handler, commit",
    ];
    assert_eq!(bench.log().join(", "), calls.join(", "));
}

#[test]
fn runs_and_copies_take_effect_in_the_order_of_the_calls() {
    for seed in 0..SEEDS {
        let bench = Bench::new(seed, &[]);
        let (first, second) = (chain_buffer(3), chain_buffer(3));
        let copy = |from: &Buffer, from_at, to: &Buffer, to_at| {
            let transfer = Transfer::Copy { from: from.view(from_at, 8), to: to.view(to_at, 4) };
            bench.queue.transfer(transfer).expect("waits");
        };
        // 0 1 2 3, then the last goes to the front of the other, whose end comes back.
        bench.queue.run(&bench.chain(&first, 3, SLOW, Pass::Concurrent)).expect("runs");
        copy(&first, 768, &second, 0);
        bench.queue.run(&bench.chain(&second, 3, SLOW, Pass::Early)).expect("runs");
        copy(&second, 768, &first, 0);
        bench.queue.transfer(Transfer::Zero(second.view(768, 8))).expect("waits");
        copy(&first, 0, &first, 100);
        let settled = bench.queue.settled().expect("no error");
        assert_eq!(bench.simulated.outstanding(), 0, "seed {seed}: something is under way");
        let (first, second) = (simulated::bytes(&first), simulated::bytes(&second));
        drop(settled);
        let at = |bytes: &[u8]| [bytes[0], bytes[256], bytes[512], bytes[768]];
        assert_eq!((at(&first), at(&second)), ([6, 1, 2, 3], [3, 4, 5, 0]), "seed {seed}");
        assert_eq!(first[100], 6, "seed {seed}");
        assert!(bench.simulated.gpu().most <= 2, "seed {seed}: {} under way", bench.simulated.gpu().most);
    }
    assert_eq!(IN_FLIGHT, 2);
}

#[test]
fn what_is_used_is_held_until_it_was_reported() {
    for seed in 0..SEEDS {
        let bench = Bench::new(seed, &[]);
        let (buffer, cells) = simulated::buffer(vec![0; 256 * 4]);
        let (target, copied) = simulated::buffer(vec![0; 8]);
        bench.queue.run(&bench.chain(&buffer, 3, SLOW, Pass::Concurrent)).expect("runs");
        let transfer = Transfer::Copy { from: buffer.view(768, 8), to: target.whole() };
        bench.queue.transfer(transfer).expect("waits");
        drop((buffer, target));
        let ticket = if seed % 2 == 0 {
            let chain = bench.chain(&chain_buffer(1), 1, 1.0, Pass::Concurrent);
            bench.queue.run(&chain).expect("runs")
        } else {
            // The copy is the last.
            bench.queue.wait(Ticket(0)).expect("no error");
            Ticket(4)
        };
        while bench.simulated.outstanding() > 0 {
            assert!(bench.simulated.step(), "seed {seed}");
        }
        assert!(bench.queue.is_done(ticket).expect("no error"));
        let gone = |cells: &Weak<Mutex<Vec<u8>>>| cells.upgrade().is_none();
        assert!(gone(&cells) && gone(&copied), "seed {seed}: held after the end");
    }
}

#[test]
fn a_ticket_is_done_when_everything_before_it_is_reported() {
    for seed in 0..SEEDS {
        let bench = Bench::new(seed, &[]);
        let mut tickets = Vec::new();
        for _ in 0..4 {
            let chain = bench.chain(&chain_buffer(2), 2, 1.0, Pass::Concurrent);
            tickets.push(bench.queue.run(&chain).expect("runs"));
        }
        assert_eq!(tickets, [1, 2, 3, 4].map(Ticket));
        for ticket in tickets {
            bench.queue.wait(ticket).expect("no error");
            let left = 4 - ticket.0 as usize;
            assert!(bench.simulated.outstanding() <= left, "seed {seed}: not all of {ticket:?}");
            assert!(bench.queue.is_done(ticket).expect("no error"));
        }
        assert_eq!(bench.queue.gpu_time(), Duration::from_secs(2), "half a second each");
    }
}

#[test]
fn a_failed_command_buffer_never_looks_like_one_that_is_done() {
    for seed in 0..SEEDS {
        for (at, failure) in [(1, Failure::Silent), (2, Failure::Counted), (3, Failure::Silent)] {
            let bench = Bench::new(seed, &[(at, failure)]);
            let mut answers = Vec::new();
            for value in 1..=4 {
                let chain = bench.chain(&chain_buffer(1), 1, 1.0, Pass::Concurrent);
                answers.push(bench.queue.run(&chain).and_then(|ticket| {
                    assert_eq!(ticket, Ticket(value));
                    if value == 2 { Ok(()) } else { bench.queue.wait(ticket) }
                }));
            }
            for (answer, value) in answers.iter().zip(1..) {
                // The second is not waited for by itself.
                let heard = if at == 2 { 3 } else { at };
                match answer {
                    Ok(()) => assert!(value < heard, "seed {seed}: {value} is well though {at} failed"),
                    Err(error) => {
                        assert!(value >= at, "seed {seed}: {value}");
                        assert!(error.to_string().starts_with("link: timeout (code 2)"), "{error}");
                    }
                }
            }
            assert!(bench.queue.settled().is_err() && bench.queue.wait(Ticket(1)).is_err());
            assert!(bench.queue.is_done(Ticket(1)).is_err());
            bench.queue.drain().expect_err("it waits all the same");
            assert_eq!(bench.simulated.outstanding(), 0, "seed {seed}");
            assert!(bench.simulated.value() >= at, "seed {seed}: whoever sleeps on the event is not woken");
            let commits = |bench: &Bench| bench.log().iter().filter(|call| *call == "commit").count();
            let before = commits(&bench);
            let chain = bench.chain(&chain_buffer(1), 1, 1.0, Pass::Concurrent);
            bench.queue.run(&chain).expect_err("nothing works on wrong data");
            bench.queue.transfer(Transfer::Zero(chain_buffer(1).whole())).expect("waits");
            bench.queue.wait(Ticket(1)).expect_err("nothing works on wrong data");
            assert_eq!(commits(&bench), before, "seed {seed}");
        }
    }
}

#[test]
fn what_cannot_be_encoded_is_not_committed() {
    let bench = Bench::new(0, &[]);
    let buffer = chain_buffer(1);
    let chain = bench.chain(&buffer, 1, 1.0, Pass::Concurrent);
    bench.simulated.gpu().refuses = true;
    bench.queue.run(&chain).expect_err("the kernel is refused");
    assert_eq!(bench.log().join(", "), "working, begin, compute 1, kernel gemv, update, end");
    bench.simulated.gpu().refuses = false;
    assert_eq!(bench.queue.run(&chain).expect("the next is the first"), Ticket(1));
    bench.queue.wait(Ticket(1)).expect("no error");
}

#[test]
fn the_pace_is_corrected_by_what_ended_well() {
    let bench = Bench::new(0, &[(2, Failure::Counted)]);
    let (good, bad) = (chain_buffer(1), chain_buffer(1));
    let (good, bad) =
        (bench.chain(&good, 1, 1.0, Pass::Concurrent), bench.chain(&bad, 1, 1.0, Pass::Concurrent));
    bench.queue.run(&good).expect("runs");
    bench.queue.run(&bad).expect("runs");
    bench.queue.drain().expect_err("the second fails");
    assert!(good.paces[0].factor() > 1.0, "half a second is more than was expected");
    assert!((bad.paces[0].factor() - 1.0).abs() < f64::EPSILON, "a failure says nothing about the pace");
}

#[test]
fn a_call_that_is_left_out_does_not_go_unnoticed() {
    let goes_wrong = |call: Option<&'static str>, failures: &[(u64, Failure)], seed: u64| {
        let run = || {
            let bench = Bench::new(seed, failures);
            bench.simulated.gpu().leaves_out = call;
            let buffer = chain_buffer(2);
            for _ in 0..2 {
                bench.queue.run(&bench.chain(&buffer, 2, 1.0, Pass::Concurrent)).expect("runs");
            }
            assert_eq!(bench.queue.drain().is_err(), !failures.is_empty());
            while bench.simulated.step() {}
            assert_eq!(bench.simulated.value(), 2, "whoever sleeps on the event is not woken");
        };
        std::panic::catch_unwind(run).is_err()
    };
    let fails = [(2, Failure::Silent)];
    for seed in 0..5 {
        assert!(!goes_wrong(None, &[], seed) && !goes_wrong(None, &fails, seed), "seed {seed}");
        for call in ["wait", "update", "end", "signal", "handler", "commit"] {
            assert!(goes_wrong(Some(call), &[], seed), "seed {seed}: {call}");
        }
        assert!(goes_wrong(Some("set"), &fails, seed), "seed {seed}: set");
    }
}
