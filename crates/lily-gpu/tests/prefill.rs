//! Nano's prefill on the emulator, every access checked, against the CPU's f32 path along the same experts: whole, in chunks
//! that end anywhere, and with each optimisation switched off.
#![cfg(feature = "emulator")]

#[path = "support/two_heads.rs"]
mod two_heads;

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, Precision};
use lily_engine::{Backend, DecodeStep, LogitsWanted, TokenId};
use lily_gpu::{GpuBackend, GpuOptions, Optimisation, Switches, device::EmulatorDevice};
use lily_kernels::emulator::Checks;
use std::sync::Arc;

const TOKENS: usize = 13;

fn nano() -> Checkpoint {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    Checkpoint::open(folder.as_ref()).expect("nano opens")
}

fn tokens(count: usize) -> Vec<TokenId> {
    (0..count as u32).map(|i| TokenId(i.wrapping_mul(2_654_435_761) % 5000)).collect()
}

/// Logits at every position, fed in chunks of these sizes.
fn logits<B: Backend>(backend: &mut B, chunks: &[usize]) -> Vec<f32> {
    let (mut state, mut found, mut at) = (backend.new_state().expect("a state"), Vec::new(), 0);
    let tokens = tokens(chunks.iter().sum());
    for &rows in chunks {
        let mut each = |_: usize, row: &[f32]| found.extend_from_slice(row);
        let wanted = LogitsWanted::Each(&mut each);
        backend.prefill(&mut state, &tokens[at..at + rows], wanted).expect("runs");
        at += rows;
    }
    found
}

fn distance(found: &[f32], wanted: &[f32]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let (mut off, mut of) = (0.0, 0.0);
    for (found, wanted) in found.iter().zip(wanted) {
        off += f64::from(found - wanted).powi(2);
        of += f64::from(*wanted).powi(2);
    }
    (off / of).sqrt()
}

/// Within what bf16 activations may cost (docs/precision.md), along the experts that the device chose.
fn check(checkpoint: &Checkpoint, backend: &mut GpuBackend, chunks: &[usize], what: &str) {
    backend.trace_experts();
    let found = logits(backend, chunks);
    let choices = backend.take_experts().expect("traced");
    let count = chunks.iter().sum();
    assert_eq!(choices.positions(), count);
    let options = CpuOptions { precision: Precision::F32, ..CpuOptions::default() };
    let mut cpu =
        CpuBackend::new(checkpoint, &options).expect("a backend").with_forced_experts(Arc::new(choices));
    let distance = distance(&found, &logits(&mut cpu, &[count]));
    eprintln!("{what}: relative distance of the logits {distance:.2e}");
    assert!(distance <= 3e-2, "{what}: relative distance {distance:.2e}, at most 3e-2");
}

fn backend(checkpoint: &Checkpoint, device: EmulatorDevice) -> GpuBackend {
    let options = GpuOptions { max_context: Some(256), prefill_chunk: Some(128), ..GpuOptions::default() };
    GpuBackend::new(Arc::new(device), checkpoint, &options).expect("a backend")
}

#[test]
fn chunks_that_end_anywhere() {
    let checkpoint = nano();
    let mut backend = backend(&checkpoint, EmulatorDevice::new(Checks::Full));
    for chunks in [&[TOKENS][..], &[1, 2, 9, 1]] {
        check(&checkpoint, &mut backend, chunks, &format!("chunks {chunks:?}"));
    }
}

/// Without chunks of bounded size a prompt is one chunk, and its temporaries are made for it.
#[test]
fn without_chunks() {
    let checkpoint = nano();
    let options = GpuOptions {
        max_context: Some(256),
        prefill_chunk: Some(8),
        switches: Switches::without(&[Optimisation::ChunkedPrefill]),
        ..GpuOptions::default()
    };
    let device = Arc::new(EmulatorDevice::new(Checks::Full));
    let mut backend = GpuBackend::new(device, &checkpoint, &options).expect("a backend");
    assert_eq!(backend.prefill_chunk(), 256);
    check(&checkpoint, &mut backend, &[TOKENS], "one chunk");
    backend.set_switches(Switches::default());
    assert_eq!(backend.prefill_chunk(), 8);
    check(&checkpoint, &mut backend, &[8, TOKENS - 8], "chunks of 8");
}

/// The overrides for Hopper that nano's shapes allow: attention, and the recurrence in matrix form from 128 rows on.
#[test]
fn on_hopper() {
    let checkpoint = nano();
    let mut backend = backend(&checkpoint, EmulatorDevice::hopper(Checks::Bounds));
    check(&checkpoint, &mut backend, &[128, 1], "Hopper");
}

#[test]
fn without_each_optimisation() {
    let checkpoint = nano();
    let mut backend = backend(&checkpoint, EmulatorDevice::new(Checks::Bounds));
    for optimisation in [Optimisation::AdaptiveTiles, Optimisation::RegisterScan, Optimisation::FusedDequant]
    {
        backend.set_switches(Switches::without(&[optimisation]));
        check(&checkpoint, &mut backend, &[TOKENS], optimisation.name());
    }
    // The host's choice of experts cannot be traced, but it is the device's.
    backend.set_switches(Switches::default());
    let wanted = logits(&mut backend, &[TOKENS]);
    backend.set_switches(Switches::without(&[Optimisation::GpuRouting]));
    let distance = distance(&logits(&mut backend, &[TOKENS]), &wanted);
    eprintln!("gpu-routing: relative distance of the logits {distance:.2e}");
    assert!(distance <= 1e-3, "gpu-routing: relative distance {distance:.2e}, at most 1e-3");
}

/// Two key and value heads; a block of 32 rows and one of three, two rows behind them, and a token behind those.
#[test]
fn two_key_and_value_heads() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = two_heads::nano_with_two_heads(folder.path());
    let tokens = tokens(38);
    fn last<B: Backend>(backend: &mut B, tokens: &[TokenId], cuts: &[usize]) -> (B::State, Vec<Vec<f32>>) {
        let (mut state, mut found) = (backend.new_state().expect("a state"), Vec::new());
        for cut in cuts.windows(2) {
            let mut row = Vec::new();
            let wanted = LogitsWanted::Last(&mut row);
            backend.prefill(&mut state, &tokens[cut[0]..cut[1]], wanted).expect("runs");
            found.push(row);
        }
        (state, found)
    }
    let mut backend = backend(&checkpoint, EmulatorDevice::new(Checks::Bounds));
    backend.trace_experts();
    let (mut state, found) = last(&mut backend, &tokens, &[0, 35, 37]);
    let choices = backend.take_experts().expect("traced");
    let options = CpuOptions { precision: Precision::F32, ..CpuOptions::default() };
    let cpu = CpuBackend::new(&checkpoint, &options).expect("a backend");
    let (mut cpu_state, wanted) =
        last(&mut cpu.with_forced_experts(Arc::new(choices)), &tokens, &[0, 35, 37]);
    let mut far = Vec::new();
    for (what, found, wanted) in [("35 rows", &found[0], &wanted[0]), ("two more", &found[1], &wanted[1])] {
        far.push((what, distance(found, wanted)));
    }
    let mut free = CpuBackend::new(&checkpoint, &options).expect("a backend");
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    let step = DecodeStep { state: &mut cpu_state, token: tokens[37], logits: &mut wanted };
    free.decode(&mut [step]).expect("runs");
    let step = DecodeStep { state: &mut state, token: tokens[37], logits: &mut found };
    backend.decode(&mut [step]).expect("runs");
    far.push(("a token", distance(&found, &wanted)));
    eprintln!("two heads: relative distances of the logits {far:?}");
    for (what, distance) in far {
        assert!(distance <= 2e-2, "{what}: relative distance {distance:.2e}, at most 2e-2");
    }
}
