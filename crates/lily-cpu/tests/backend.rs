//! [`CpuBackend`] against the plain reference on nano: every instruction set, every precision, every way to cut a
//! prompt.

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, CpuState, Precision, ReferenceBackend, Tier};
use lily_engine::{Backend, DecodeStep, LogitsWanted, TokenId};
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
            println!("{tier} {precision}: log-probability {difference:.2e}, KL {divergence:.2e}");
            match precision {
                Precision::F32 => assert!(difference < bound, "{tier}: {difference}"),
                _ => assert!(divergence < bound, "{tier} {precision}: {divergence}"),
            }
        }
    }
}
