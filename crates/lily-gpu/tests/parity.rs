//! The model on a device against the oracle, inside the bounds of docs/precision.md.
//!
//! `LILY_TEST_DEVICE` names the device: `cuda`, `metal`, or `emulator` (with the feature; slow). `LILY_SYNTHETIC4_DIR` names a
//! checkpoint of four layers of the full shapes (`tools/gen_synthetic.py --layers 4`). Without them, these tests say that
//! they were skipped.

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, Precision};
use lily_engine::{
    Backend, DecodeStep, LogitsWanted, TokenId,
    evaluation::{Bounds, ExpertChoices, Feed, ReferenceFile, evaluate},
};
use lily_gpu::{Device, GpuBackend, GpuOptions};
use std::{path::PathBuf, sync::Arc};

mod device;

fn device() -> Option<Arc<dyn Device>> {
    let device = device::named();
    if device.is_none() {
        eprintln!("skipped: LILY_TEST_DEVICE is not set");
    }
    device
}

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn nano_keeps_the_bounds_of_bf16() {
    let Some(device) = device() else { return };
    let checkpoint = Checkpoint::open(&repository().join("models/nano")).expect("nano opens");
    let golden = repository().join("tests/data/goldens/nano.safetensors");
    let file = ReferenceFile::read(&golden).expect("the golden opens");
    let mut backend = GpuBackend::new(device, &checkpoint, &GpuOptions::default()).expect("a backend");
    for feed in [Feed::Prefill(usize::MAX), Feed::Prefill(100), Feed::Decode] {
        let report = evaluate(&mut backend, &file, feed, |_, _| {}).expect("runs");
        eprintln!("{feed:?}\n{report}");
        Bounds::BF16.check(&report).unwrap_or_else(|broken| panic!("{feed:?}\n{broken}"));
    }
}

/// The beginning of the shortest sequence, as a chunk and token by token: quick enough for the emulator, and the first thing to
/// look at when a device is wrong.
#[test]
fn nano_follows_the_shortest_golden() {
    let Some(device) = device() else { return };
    let checkpoint = Checkpoint::open(&repository().join("models/nano")).expect("nano opens");
    let golden = repository().join("tests/data/goldens/nano.safetensors");
    let file = ReferenceFile::read(&golden).expect("the golden opens");
    let options = GpuOptions { max_context: Some(1024), ..GpuOptions::default() };
    let mut backend = GpuBackend::new(device, &checkpoint, &options).expect("a backend");
    let shortest = file.sequences().iter().min_by_key(|sequence| sequence.rows.len()).expect("a sequence");
    for (first, at_once) in [(19, 19), (4, 1)] {
        let tokens = &file.tokens(shortest)[..first];
        let mut state = backend.new_state().expect("a state");
        let mut found: Vec<Vec<f32>> = Vec::new();
        for chunk in tokens.chunks(at_once) {
            if let &[token] = chunk {
                let mut logits = Vec::new();
                let step = DecodeStep { state: &mut state, token, logits: &mut logits };
                backend.decode(&mut [step]).expect("runs");
                found.push(logits);
            } else {
                let mut each = |_: usize, logits: &[f32]| found.push(logits.to_vec());
                backend.prefill(&mut state, chunk, LogitsWanted::Each(&mut each)).expect("runs");
            }
        }
        let divergences = found.iter().enumerate().map(|(at, logits)| {
            let row = file.row(shortest, at);
            let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = logits.iter().map(|logit| (logit - most).exp()).sum();
            let found = |id: TokenId| logits[id.0 as usize] - most - sum.ln();
            let best = row.top_ids.iter().zip(row.top_logprobs);
            best.map(|(&id, &wanted)| wanted.exp() * (wanted - found(id))).sum::<f32>()
        });
        let mean = divergences.sum::<f32>() / tokens.len() as f32;
        eprintln!("{first} tokens, {at_once} at a time: mean divergence {mean:.2e}");
        let most = Bounds::BF16.mean_kl;
        assert!(f64::from(mean.abs()) <= most, "{at_once} at a time: {mean:.2e}, at most {most:.0e}");
    }
}

/// Logits of four full-shape layers, the CPU's f32 path going to the experts that the device chose.
#[test]
fn four_full_layers_agree() {
    let Some(device) = device() else { return };
    let Some(folder) = std::env::var_os("LILY_SYNTHETIC4_DIR") else {
        eprintln!("skipped: LILY_SYNTHETIC4_DIR is not set");
        return;
    };
    let checkpoint = Checkpoint::open(folder.as_ref()).expect("the synthetic checkpoint opens");
    let vocab = checkpoint.config.vocab_size as u32;
    let tokens: Vec<TokenId> = (0..48_u32).map(|i| TokenId(i.wrapping_mul(2_654_435_761) % vocab)).collect();
    let options = GpuOptions { max_context: Some(1024), ..GpuOptions::default() };
    let mut backend = GpuBackend::new(device, &checkpoint, &options).expect("a backend");
    for chunk in [tokens.len(), 1] {
        backend.trace_experts();
        let mut found: Vec<Vec<f32>> = Vec::new();
        let mut state = backend.new_state().expect("a state");
        if chunk == 1 {
            for &token in &tokens {
                let mut logits = Vec::new();
                backend
                    .decode(&mut [DecodeStep { state: &mut state, token, logits: &mut logits }])
                    .expect("runs");
                found.push(logits);
            }
        } else {
            let mut each = |_: usize, logits: &[f32]| found.push(logits.to_vec());
            backend.prefill(&mut state, &tokens, LogitsWanted::Each(&mut each)).expect("runs");
        }
        let choices: ExpertChoices = backend.take_experts().expect("traced");
        assert_eq!(choices.positions(), tokens.len());
        let cpu = CpuOptions { precision: Precision::F32, ..CpuOptions::default() };
        let mut oracle =
            CpuBackend::new(&checkpoint, &cpu).expect("a backend").with_forced_experts(Arc::new(choices));
        let mut wanted: Vec<Vec<f32>> = Vec::new();
        let mut state = oracle.new_state().expect("a state");
        let mut each = |_: usize, logits: &[f32]| wanted.push(logits.to_vec());
        oracle.prefill(&mut state, &tokens, LogitsWanted::Each(&mut each)).expect("runs");
        let (mut off, mut of) = (0.0, 0.0);
        for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
            off += f64::from(found - wanted).powi(2);
            of += f64::from(*wanted).powi(2);
        }
        let distance = (off / of).sqrt();
        eprintln!("chunks of {chunk}: relative distance of the logits {distance:.2e}");
        assert!(distance <= 3e-2, "chunks of {chunk}: relative distance {distance:.2e}, at most 3e-2");
    }
}
