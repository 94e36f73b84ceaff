//! [`CpuBackend`] against the plain reference on nano: every instruction set, every precision, every way to cut a
//! prompt.

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, CpuState, Precision, ReferenceBackend, Tier};
use lily_engine::{Backend, DecodeStep, LogitsWanted, SequenceState, TokenId};
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
            match precision {
                Precision::F32 => assert!(difference < bound, "{tier}: {difference}"),
                _ => assert!(divergence < bound, "{tier} {precision}: {divergence}"),
            }
        }
    }
}

/// How a prompt is cut changes rounding at most, single tokens included.
#[test]
fn cuts_of_a_prompt_agree() {
    let tokens = prompt(150);
    for precision in [Precision::Bf16, Precision::Int8] {
        let mut backend = backend(&options(precision));
        let (whole, mut state) = prefill(&mut backend, &tokens, &[]);
        let next = decode(&mut backend, &mut state, TokenId(300));
        let fast: &[&[usize]] = &[&[1; 150], &[1, 2, 1, 60, 1, 63, 1], &[63, 64, 23], &[149, 1]];
        let cuts = if precision == Precision::Int8 { fast } else { &[&[64, 1, 85][..]][..] };
        for &cuts in cuts {
            let (cut, mut state) = prefill(&mut backend, &tokens, cuts);
            let (difference, divergence) = distance(&whole, &cut);
            assert!(divergence < 1e-3 && difference < 0.2, "{precision} {cuts:?}: {difference} {divergence}");
            let (_, divergence) =
                distance(std::slice::from_ref(&next), &[decode(&mut backend, &mut state, TokenId(300))]);
            assert!(divergence < 1e-3, "{precision} {cuts:?}, the next token: {divergence}");
        }
    }
}

/// The last logits alone, as a chat asks for them, for a prompt of one token and for more.
#[test]
fn the_last_logits_are_those_of_each() {
    for len in [1, 2, 63, 65] {
        let mut backend = backend(&options(Precision::Int8));
        let (each, _) = prefill(&mut backend, &prompt(len), &[]);
        let mut state = backend.new_state().expect("memory");
        let mut last = Vec::new();
        backend.prefill(&mut state, &prompt(len), LogitsWanted::Last(&mut last)).expect("prefill");
        let (difference, _) = distance(&each[len - 1..], &[last]);
        assert!(difference < 0.05, "{len}: {difference}");
    }
}

#[test]
fn threads_change_no_bit() {
    let run = |threads| {
        let mut backend = backend(&CpuOptions { threads: Some(threads), ..CpuOptions::default() });
        let (mut all, mut state) = prefill(&mut backend, &prompt(90), &[]);
        all.extend((0..4).map(|i| decode(&mut backend, &mut state, TokenId(400 + i))));
        all
    };
    let alone = run(1);
    assert!(run(2) == alone && run(3) == alone);
}

/// A state is a value, and what else is in a batch changes no bit of it.
#[test]
fn snapshots_and_batches_change_no_bit() {
    let mut backend = backend(&options(Precision::Int8));
    let mut states: Vec<CpuState> =
        [5, 70, 300].map(|len| prefill(&mut backend, &prompt(len), &[]).1).into_iter().collect();
    let snapshots: Vec<_> = states.iter().map(|state| backend.snapshot(state).expect("memory")).collect();
    // By step, then by sequence.
    let expected: Vec<Vec<Vec<f32>>> = (0..6)
        .map(|i| states.iter_mut().map(|state| decode(&mut backend, state, TokenId(310 + i))).collect())
        .collect();
    let mut restored: Vec<CpuState> =
        snapshots.iter().map(|snapshot| backend.restore(snapshot).expect("memory")).collect();
    for (i, expected) in expected.iter().enumerate() {
        let mut logits = vec![Vec::new(); restored.len()];
        let mut steps: Vec<_> = restored
            .iter_mut()
            .zip(&mut logits)
            .map(|(state, logits)| DecodeStep { state, token: TokenId(310 + i as u32), logits })
            .collect();
        backend.decode(&mut steps).expect("decode");
        assert!(logits == *expected, "step {i}");
    }
}

#[test]
fn bad_calls_change_nothing() {
    let mut backend = backend(&CpuOptions { max_context: Some(20), ..options(Precision::Int8) });
    let (_, mut state) = prefill(&mut backend, &prompt(19), &[]);
    let snapshot = backend.snapshot(&state).expect("memory");
    let vocab = backend.vocab_size() as u32;
    assert!(backend.prefill(&mut state, &[TokenId(vocab)], LogitsWanted::None).is_err());
    assert!(backend.prefill(&mut state, &prompt(2), LogitsWanted::None).is_err());
    assert_eq!(state.position(), 19);
    let next = decode(&mut backend, &mut state, TokenId(301));
    let mut untouched = backend.restore(&snapshot).expect("memory");
    assert!(decode(&mut backend, &mut untouched, TokenId(301)) == next);
    let mut logits = Vec::new();
    let full =
        backend.decode(&mut [DecodeStep { state: &mut state, token: TokenId(1), logits: &mut logits }]);
    assert!(full.is_err_and(|error| error.to_string().contains("context is full")));
}
