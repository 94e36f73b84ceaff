//! Nano's prefill on the emulator, every access checked, against the plain reference: whole, in chunks that end anywhere,
//! and with each optimisation switched off.
#![cfg(feature = "emulator")]

use lily_checkpoint::Checkpoint;
use lily_cpu::ReferenceBackend;
use lily_engine::{Backend, LogitsWanted, TokenId};
use lily_gpu::{
    Device, GpuModel, Optimisation, Pass, Recorder, StateBuffers, Switches,
    device::EmulatorDevice,
    plan::prefill::{Chunk, PrefillTemporaries, record_chunk, record_logits},
    weights::WeightPlan,
};
use lily_kernels::emulator::Checks;
use std::sync::{Arc, LazyLock};

/// Rows of logits that are computed at once.
const LOGIT_ROWS: usize = 8;

fn nano() -> Checkpoint {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    Checkpoint::open(folder.as_ref()).expect("nano opens")
}

fn tokens(vocab: usize) -> Vec<u32> {
    (0..35_u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab as u32).collect()
}

/// The reference's logits at every position.
static WANTED: LazyLock<Vec<Vec<f32>>> = LazyLock::new(|| {
    let checkpoint = nano();
    let mut backend = ReferenceBackend::new(&checkpoint);
    let mut state = backend.new_state().expect("a state");
    let ids: Vec<TokenId> = tokens(checkpoint.config.vocab_size).into_iter().map(TokenId).collect();
    let mut wanted = Vec::new();
    let mut each = |_: usize, logits: &[f32]| wanted.push(logits.to_vec());
    backend.prefill(&mut state, &ids, LogitsWanted::Each(&mut each)).expect("runs");
    wanted
});

/// Logits at every position, fed in chunks of these sizes.
fn logits(switches: Switches, chunks: &[usize]) -> Vec<Vec<f32>> {
    let (checkpoint, device) = (nano(), Arc::new(EmulatorDevice::new(Checks::Full)));
    let config = checkpoint.config.clone();
    let weights = WeightPlan::new(&checkpoint).and_then(|plan| plan.load(&*device)).expect("weights");
    let longest = chunks.iter().copied().max().unwrap_or(1);
    let temporaries = PrefillTemporaries::new(&*device, &config, longest, LOGIT_ROWS).expect("memory");
    let state = StateBuffers::new(&*device, &config, 64).expect("memory");
    let model = GpuModel::new(device.clone(), config, weights, switches);
    let vocab = model.config.vocab_size;
    let (ids, mut found, mut position) = (tokens(vocab), Vec::new(), 0);
    for &rows in chunks {
        let bytes: Vec<u8> = ids[position..position + rows].iter().flat_map(|id| id.to_le_bytes()).collect();
        device.upload(&temporaries.tokens, &bytes).expect("uploads");
        let mut recorder = Recorder::new();
        record_chunk(&mut recorder, &model, &state, &temporaries, Chunk { rows, position }).expect("records");
        let recording = recorder.finish().expect("a plan");
        device.run(&recording, Pass::Serial).unwrap_or_else(|error| panic!("{error:?}"));
        for first in (0..rows).step_by(LOGIT_ROWS) {
            let block = first..rows.min(first + LOGIT_ROWS);
            let mut recorder = Recorder::new();
            record_logits(&mut recorder, &model, &temporaries, block.clone()).expect("records");
            device.run(&recorder.finish().expect("a plan"), Pass::Serial).expect("runs");
            let mut bytes = vec![0; block.len() * vocab * 4];
            device.download(&temporaries.logits, &mut bytes).expect("downloads");
            let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            found.extend(values.collect::<Vec<f32>>().chunks_exact(vocab).map(<[f32]>::to_vec));
        }
        position += rows;
    }
    found
}

fn log_probabilities(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&x| f64::from(x - max).exp()).sum();
    logits.iter().map(|&x| f64::from(x - max) - sum.ln()).collect()
}

/// Mean divergence from the reference in nats; a path with bf16 activations may lose 2e-3 (docs/precision.md).
fn check(found: &[Vec<f32>], what: &str) {
    assert_eq!(found.len(), WANTED.len());
    let divergence = |(found, wanted): (&Vec<f32>, &Vec<f32>)| -> f64 {
        let (found, wanted) = (log_probabilities(found), log_probabilities(wanted));
        found.iter().zip(&wanted).map(|(found, wanted)| wanted.exp() * (wanted - found)).sum()
    };
    let all: Vec<f64> = found.iter().zip(&*WANTED).map(divergence).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let worst = all.iter().copied().fold(0.0, f64::max);
    println!("{what}: mean divergence {mean:.2e} nats, worst {worst:.2e}");
    assert!(mean <= 2e-3, "{what}: mean divergence {mean:.2e} nats, at most 2e-3 wanted");
}

#[test]
fn whole() {
    check(&logits(Switches::default(), &[35]), "whole");
}

#[test]
fn in_chunks_that_end_anywhere() {
    check(&logits(Switches::default(), &[1, 2, 17, 15]), "chunks");
}

#[test]
fn without_each_optimisation() {
    let switched = [Optimisation::AdaptiveTiles, Optimisation::RegisterScan];
    for optimisation in switched {
        check(&logits(Switches::without(&[optimisation]), &[35]), optimisation.name());
    }
}
