//! [`CpuBackend`] against the plain reference on nano: every instruction set, every precision, every way to cut a
//! prompt.

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, CpuState, Precision, ReferenceBackend, Tier, WeightMemory};
use lily_engine::{Backend, BackendError, DecodeStep, LogitsWanted, SequenceState, TokenId};
use std::{path::Path, sync::LazyLock};

static NANO: LazyLock<Checkpoint> = LazyLock::new(|| {
    Checkpoint::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/nano")).expect("nano opens")
});

/// Ids of something like text: the vocabulary's common part, with repeats.
fn prompt(len: usize) -> Vec<TokenId> {
    (0..len as u32).map(|i| TokenId(300 + i.wrapping_mul(2_654_435_761) % 97 * 7)).collect()
}

fn backend(options: &CpuOptions) -> CpuBackend {
    CpuBackend::new(&NANO, options).expect("nano fits")
}

fn options(precision: Precision) -> CpuOptions {
    CpuOptions { precision, threads: Some(2), ..CpuOptions::default() }
}

/// Logits after each token, the prompt cut as `cuts` says.
fn prefill<B: Backend>(backend: &mut B, tokens: &[TokenId], cuts: &[usize]) -> (Vec<Vec<f32>>, B::State) {
    let mut state = backend.new_state().expect("memory");
    let mut all = Vec::new();
    let mut rest = tokens;
    let mut cuts = cuts.iter().copied().chain(std::iter::repeat(backend.prefill_chunk()));
    while !rest.is_empty() {
        let (now, later) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
        backend
            .prefill(&mut state, now, LogitsWanted::Each(&mut |_, logits| all.push(logits.to_vec())))
            .expect("prefill");
        rest = later;
    }
    (all, state)
}

fn decode(backend: &mut CpuBackend, state: &mut CpuState, token: TokenId) -> Vec<f32> {
    let mut logits = Vec::new();
    backend.decode(&mut [DecodeStep { state, token, logits: &mut logits }]).expect("decode");
    logits
}

/// The largest difference of log-probabilities, and the Kullback-Leibler divergence, at the worst position.
fn distance(reference: &[Vec<f32>], logits: &[Vec<f32>]) -> (f64, f64) {
    let log_softmax = |logits: &[f32]| -> Vec<f64> {
        let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|&l| f64::from(l - top).exp()).sum();
        logits.iter().map(|&l| f64::from(l - top) - sum.ln()).collect()
    };
    assert_eq!(reference.len(), logits.len());
    let mut worst = (0.0f64, 0.0f64);
    for (reference, logits) in reference.iter().zip(logits) {
        let (p, q) = (log_softmax(reference), log_softmax(logits));
        let difference = p.iter().zip(&q).map(|(p, q)| (p - q).abs()).fold(0.0, f64::max);
        let divergence: f64 = p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum();
        assert!(difference.is_finite());
        worst = (worst.0.max(difference), worst.1.max(divergence));
    }
    worst
}

#[test]
fn every_tier_and_precision_agrees_with_the_reference() {
    let tokens = prompt(70);
    let (expected, _) = prefill(&mut ReferenceBackend::new(&NANO), &tokens, &[]);
    for tier in Tier::available() {
        for (precision, bound) in [(Precision::F32, 1e-3), (Precision::Bf16, 0.05), (Precision::Int8, 0.2)] {
            let mut backend = backend(&CpuOptions { simd: Some(tier), ..options(precision) });
            let (logits, _) = prefill(&mut backend, &tokens, &[]);
            let (difference, divergence) = distance(&expected, &logits);
            eprintln!("{tier} {precision}: log-probability {difference:.2e}, KL {divergence:.2e}");
            match precision {
                Precision::F32 => assert!(difference < bound, "{tier}: {difference}"),
                _ => assert!(divergence < bound, "{tier} {precision}: {divergence}"),
            }
        }
    }
}

/// NUM-09: lengths around every border, in one call, in uneven pieces, and token by token.
#[test]
fn a_prompt_may_be_cut_anywhere() {
    let mut backend = backend(&options(Precision::F32));
    for length in (1..=20).chain([63, 64, 65, 127, 128, 129]) {
        let tokens = prompt(length);
        let (whole, _) = prefill(&mut backend, &tokens, &[]);
        let (pieces, _) = prefill(&mut backend, &tokens, &[1, 7, 1, 40, 64]);
        let (mut state, mut steps) = (backend.new_state().expect("memory"), Vec::new());
        for &token in &tokens {
            steps.push(decode(&mut backend, &mut state, token));
        }
        for (what, other) in [("pieces", pieces), ("steps", steps)] {
            let (difference, _) = distance(&whole, &other);
            assert!(difference < 1e-3, "{length} tokens in {what}: {difference}");
        }
    }
}

/// Results do not depend on the number of threads, to the bit.
#[test]
fn threads_change_no_bit() {
    let tokens = prompt(90);
    for precision in [Precision::Int8, Precision::Bf16, Precision::F32] {
        let run = |threads| {
            let mut backend = backend(&CpuOptions { threads: Some(threads), ..options(precision) });
            let (mut all, mut state) = prefill(&mut backend, &tokens, &[33]);
            all.push(decode(&mut backend, &mut state, TokenId(500)));
            all
        };
        let one = run(1);
        for threads in [2, 3, 7] {
            assert!(run(threads) == one, "{precision}: {threads} threads give other bits");
        }
    }
}

/// NUM-11: sequences that join and leave a batch get the bits that they get alone.
#[test]
fn batches_change_no_bit() {
    let mut backend = backend(&options(Precision::Int8));
    let start = |backend: &mut CpuBackend, index: usize| {
        let (mut logits, state) = prefill(backend, &prompt(5 + 9 * index), &[]);
        (state, logits.pop().expect("a prompt has tokens"))
    };
    let best = |logits: &[f32]| {
        TokenId(logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(id, _)| id) as u32)
    };
    let lengths: Vec<usize> = (0..11).map(|index| 4 + index * 5 % 13).collect();
    let alone: Vec<Vec<Vec<f32>>> = (0..11)
        .map(|index| {
            let (mut state, mut logits) = start(&mut backend, index);
            (0..lengths[index])
                .map(|_| {
                    logits = decode(&mut backend, &mut state, best(&logits));
                    logits.clone()
                })
                .collect()
        })
        .collect();
    let mut running: Vec<_> = (0..11).map(|index| (start(&mut backend, index), 0)).collect();
    for round in 0.. {
        let mut now: Vec<_> = running
            .iter_mut()
            .enumerate()
            .filter(|(index, (_, done))| round >= *index / 2 && *done < lengths[*index])
            .collect();
        if now.is_empty() {
            break;
        }
        let mut steps: Vec<DecodeStep<'_, CpuState>> = now
            .iter_mut()
            .map(|(_, ((state, logits), _))| DecodeStep { state, token: best(logits), logits })
            .collect();
        backend.decode(&mut steps).expect("decode");
        for (index, ((_, logits), done)) in now {
            assert!(*logits == alone[index][*done], "sequence {index}, step {done}");
            *done += 1;
        }
    }
    assert!(running.iter().zip(&lengths).all(|((_, done), length)| done == length));
}

/// State is a value: a snapshot outlives what is done to the state, and may be restored more than once.
#[test]
fn snapshots_are_values() {
    let mut backend = backend(&options(Precision::Int8));
    // Across a page border, so that a shared page is written to.
    let (_, mut state) = prefill(&mut backend, &prompt(100), &[]);
    let frozen = backend.snapshot(&state).expect("memory");
    assert_eq!(backend.snapshot_bytes(&frozen), state.bytes());
    let first: Vec<_> = (0..40).map(|i| decode(&mut backend, &mut state, TokenId(400 + i))).collect();
    assert!(state.bytes() > backend.snapshot_bytes(&frozen), "the state has grown by a page");
    drop(state);
    for _ in 0..2 {
        let mut state = backend.restore(&frozen).expect("memory");
        assert_eq!(state.position(), 100);
        let again: Vec<_> = (0..40).map(|i| decode(&mut backend, &mut state, TokenId(400 + i))).collect();
        assert!(again == first);
    }
}

/// What cannot be is refused before anything has changed.
#[test]
fn refusals_change_nothing() {
    let mut backend = backend(&CpuOptions { max_context: Some(10), ..options(Precision::Int8) });
    assert_eq!(backend.max_context(), 10);
    let (_, mut state) = prefill(&mut backend, &prompt(9), &[]);
    let before = decode_copy(&mut backend, &state);
    let vocab = backend.vocab_size() as u32;
    let outside = [TokenId(300), TokenId(vocab)];
    let error = backend.prefill(&mut state, &outside[1..], LogitsWanted::None).expect_err("no such token");
    assert!(matches!(error, BackendError::TokenOutOfRange { id, .. } if id == vocab), "{error}");
    let error = backend.prefill(&mut state, &prompt(2), LogitsWanted::None).expect_err("no room");
    assert!(matches!(error, BackendError::ContextFull { wanted: 11, limit: 10 }), "{error}");
    // One bad step spoils no other of the batch.
    let mut other = backend.new_state().expect("memory");
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut steps = [
        DecodeStep { state: &mut state, token: TokenId(300), logits: &mut a },
        DecodeStep { state: &mut other, token: TokenId(vocab), logits: &mut b },
    ];
    assert!(backend.decode(&mut steps).is_err());
    assert_eq!((state.position(), other.position()), (9, 0));
    assert!(decode_copy(&mut backend, &state) == before);
    assert!(backend.prefill(&mut state, &[], LogitsWanted::None).is_err());
}

fn decode_copy(backend: &mut CpuBackend, state: &CpuState) -> Vec<f32> {
    let frozen = backend.snapshot(state).expect("memory");
    let mut copy = backend.restore(&frozen).expect("memory");
    decode(backend, &mut copy, TokenId(301))
}

#[test]
fn where_the_weights_are_changes_no_bit() {
    let tokens = prompt(40);
    let logits = |weights| {
        let mut backend = backend(&CpuOptions { weights, ..options(Precision::Int8) });
        assert!(backend.describe().contains(&format!("{weights} weights")), "{}", backend.describe());
        let (mut logits, mut state) = prefill(&mut backend, &tokens, &[]);
        logits.push(decode(&mut backend, &mut state, tokens[0]));
        logits
    };
    assert!(logits(WeightMemory::Mapped) == logits(WeightMemory::Resident));
}
