//! The emulator as a device: memory, order, kernels, weights.
#![cfg(feature = "emulator")]

use lily_checkpoint::{Checkpoint, Matrix};
use lily_gpu::{
    Device, GpuError, Pass, Recorder,
    device::EmulatorDevice,
    weights::{MatrixView, MixerWeights, WeightPlan},
};
use lily_kernels::Specialisation;

fn nano() -> Checkpoint {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    Checkpoint::open(folder.as_ref()).unwrap()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn memory_is_written_copied_cleared_and_read() {
    let device = EmulatorDevice::default();
    let (a, b) = (device.allocate(100, "a").unwrap(), device.allocate(100, "b").unwrap());
    device.upload(&a.view(4, 3), &[1, 2, 3]).unwrap();
    device.copy(&a.view(4, 3), &b.view(90, 10)).unwrap();
    device.zero(&b.view(91, 1)).unwrap();
    let mut out = [9; 3];
    device.download(&b.view(90, 3), &mut out).unwrap();
    assert_eq!(out, [1, 0, 3]);
}

/// A row of the embedding through the embedding kernel is the checkpoint's row, from weights in an arena.
#[test]
fn a_recorded_kernel_reads_weights_from_their_arena() {
    let (checkpoint, device) = (nano(), EmulatorDevice::default());
    let plan = WeightPlan::new(&checkpoint).unwrap();
    assert!(plan.bytes() > 15_000_000);
    let weights = plan.load(&device).unwrap();
    let hidden = checkpoint.config.hidden_size;
    let w = &weights.embed_tokens;
    let row = 7;
    for (view, matrix) in [
        (w.rows(row..row + 1), checkpoint.weights.embed_tokens.clone()),
        (weights.layers[1].moe.experts.down.rows(5 * hidden + 3..5 * hidden + 4), {
            checkpoint.weights.layers[1].moe.down_proj.experts[5].clone()
        }),
    ] {
        let row = if view.cols == hidden { row } else { 3 };
        assert_eq!(dequantised(&device, &view), row_of(&matrix, row));
    }
    let MixerWeights::Gdn(gdn) = &weights.layers[0].mixer else { panic!("layer 0 is Gated DeltaNet") };
    assert!(gdn.in_proj.single().is_some(), "one format, one launch");
    assert_eq!(gdn.in_proj.borders.len(), 5);
    let mut taps = vec![0; gdn.conv.bytes()];
    device.download(&gdn.conv, &mut taps).unwrap();
    let lily_checkpoint::MixerWeights::GatedDeltaNet(file) = &checkpoint.weights.layers[0].mixer else {
        panic!("layer 0 is Gated DeltaNet")
    };
    assert_eq!(taps, bytes(&file.conv1d));
}

fn row_of(matrix: &Matrix, row: usize) -> Vec<f32> {
    let mut out = vec![0.0; matrix.cols()];
    matrix.dequantize_row(row, &mut out);
    out
}

/// The one row of a 4-bit view, read back and dequantised by the oracle.
fn dequantised(device: &dyn Device, view: &MatrixView) -> Vec<f32> {
    let read = |view: &lily_gpu::View| {
        let mut out = vec![0; view.bytes()];
        device.download(view, &mut out).unwrap();
        out
    };
    let (codes, scales, biases) = (read(&view.codes), read(&view.scales), read(&view.biases));
    let bf16 =
        |bytes: &[u8], at: usize| half::bf16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32();
    let group = view.format.group as usize;
    (0..view.cols)
        .map(|col| {
            let code = codes[col / 2] >> (4 * (col % 2)) & 15;
            bf16(&scales, col / group) * f32::from(code) + bf16(&biases, col / group)
        })
        .collect()
}

#[test]
fn faults_carry_the_dispatch() {
    let device = EmulatorDevice::default();
    let gemv = Specialisation::named("gemv", &[("K", 64)]).unwrap();
    let kernel = device.compile(&gemv, "gemv").unwrap();
    let small = device.allocate(16, "too small").unwrap().whole();
    let y = device.allocate(1024, "y").unwrap().whole();
    let mut recorder = Recorder::new();
    let size = kernel.signature().params.as_ref().map_or(0, |params| params.size);
    let params: Vec<u8> = (0..size / 4).flat_map(|_| 8_u32.to_le_bytes()).collect();
    recorder
        .dispatch(&kernel, [1, 1, 1])
        .bind("w", &small)
        .bind("scales", &small)
        .bind("biases", &small)
        .bind("x", &small)
        .bind("y", &y)
        .params(&params)
        .label("test.gemv");
    match device.run(&recorder.finish().unwrap(), Pass::default()) {
        Err(GpuError::Faults { label, faults }) => {
            assert_eq!(label, "test.gemv (gemv)");
            assert!(faults[0].contains("OutOfBounds"), "{}", faults[0]);
        }
        other => panic!("{other:?}"),
    }
}
