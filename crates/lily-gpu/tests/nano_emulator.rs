//! The whole nano model in the emulator: every kernel of both plans at its real shapes, checked access by access, against
//! the CPU's f32 path along the same experts.
#![cfg(feature = "emulator")]

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, Precision};
use lily_engine::{Backend, DecodeStep, LogitsWanted, SequenceState, TokenId};
use lily_gpu::{GpuBackend, GpuOptions, device::EmulatorDevice};
use lily_kernels::emulator::Checks;
use std::sync::Arc;

fn nano() -> Checkpoint {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    Checkpoint::open(folder.as_ref()).unwrap()
}

fn backend(checkpoint: &Checkpoint) -> GpuBackend {
    on(EmulatorDevice::new(Checks::Full), checkpoint)
}

fn on(device: EmulatorDevice, checkpoint: &Checkpoint) -> GpuBackend {
    let options = GpuOptions { max_context: Some(1024), prefill_chunk: Some(64), ..GpuOptions::default() };
    GpuBackend::new(Arc::new(device), checkpoint, &options).unwrap()
}

fn tokens(count: u32) -> Vec<TokenId> {
    (0..count).map(|i| TokenId(i.wrapping_mul(2_654_435_761) % 5000)).collect()
}

fn distance(found: &[Vec<f32>], wanted: &[Vec<f32>]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let (mut off, mut of) = (0.0, 0.0);
    for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
        off += f64::from(found - wanted).powi(2);
        of += f64::from(*wanted).powi(2);
    }
    (off / of).sqrt()
}

/// The oracle's logits after each token, along the experts that the device chose.
fn oracle(checkpoint: &Checkpoint, device: &mut GpuBackend, tokens: &[TokenId]) -> Vec<Vec<f32>> {
    let choices = device.take_experts().unwrap();
    assert_eq!(choices.positions(), tokens.len());
    let options = CpuOptions { precision: Precision::F32, ..CpuOptions::default() };
    let mut cpu = CpuBackend::new(checkpoint, &options).unwrap().with_forced_experts(Arc::new(choices));
    let (mut state, mut logits) = (cpu.new_state().unwrap(), Vec::new());
    let mut each = |_: usize, row: &[f32]| logits.push(row.to_vec());
    cpu.prefill(&mut state, tokens, LogitsWanted::Each(&mut each)).unwrap();
    logits
}

fn step(backend: &mut GpuBackend, state: &mut lily_gpu::GpuState, token: TokenId) -> Vec<f32> {
    let mut logits = Vec::new();
    backend.decode(&mut [DecodeStep { state, token, logits: &mut logits }]).unwrap();
    logits
}

#[test]
fn steps_agree_with_the_oracle() {
    let (checkpoint, tokens) = (nano(), tokens(6));
    let mut backend = backend(&checkpoint);
    backend.trace_experts();
    let mut state = backend.new_state().unwrap();
    let found: Vec<Vec<f32>> = tokens.iter().map(|&token| step(&mut backend, &mut state, token)).collect();
    assert_eq!(state.position(), tokens.len());
    let distance = distance(&found, &oracle(&checkpoint, &mut backend, &tokens));
    eprintln!("steps: {distance:.2e}");
    assert!(distance <= 1e-2, "{distance:.2e}");
}

#[test]
fn a_chunk_agrees_with_the_oracle_and_steps_go_on_from_it() {
    let (checkpoint, tokens) = (nano(), tokens(21));
    let mut backend = backend(&checkpoint);
    backend.trace_experts();
    let mut state = backend.new_state().unwrap();
    let mut found: Vec<Vec<f32>> = Vec::new();
    let (prompt, rest) = tokens.split_at(19);
    let mut each = |_: usize, row: &[f32]| found.push(row.to_vec());
    backend.prefill(&mut state, prompt, LogitsWanted::Each(&mut each)).unwrap();
    let snapshot = backend.snapshot(&state).unwrap();
    found.extend(rest.iter().map(|&token| step(&mut backend, &mut state, token)));
    let distance = distance(&found, &oracle(&checkpoint, &mut backend, &tokens));
    eprintln!("a chunk, then steps: {distance:.2e}");
    assert!(distance <= 3e-2, "{distance:.2e}");

    // A restored snapshot goes on as the state that it was taken from did.
    let mut again = backend.restore(&snapshot).unwrap();
    assert_eq!(again.position(), prompt.len());
    let repeated: Vec<Vec<f32>> = rest.iter().map(|&token| step(&mut backend, &mut again, token)).collect();
    assert_eq!(repeated, found[prompt.len()..]);
}

/// The prefill plan of an M5.
#[test]
fn a_chunk_on_tensor_operations_agrees_with_the_oracle() {
    let (checkpoint, tokens) = (nano(), tokens(19));
    let mut backend = on(EmulatorDevice::tensor(Checks::Full), &checkpoint);
    backend.trace_experts();
    let mut state = backend.new_state().unwrap();
    let mut found: Vec<Vec<f32>> = Vec::new();
    let mut each = |_: usize, row: &[f32]| found.push(row.to_vec());
    backend.prefill(&mut state, &tokens, LogitsWanted::Each(&mut each)).unwrap();
    let distance = distance(&found, &oracle(&checkpoint, &mut backend, &tokens));
    eprintln!("a chunk on tensor operations: {distance:.2e}");
    assert!(distance <= 3e-2, "{distance:.2e}");
}
