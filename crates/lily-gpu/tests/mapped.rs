//! Weights that stay in the file: nano, laid out so that a device can read it there, in the emulator.
#![cfg(feature = "emulator")]

use lily_checkpoint::Checkpoint;
use lily_engine::{Backend, DecodeStep, LogitsWanted, TokenId};
use lily_gpu::{
    Device, GpuBackend, GpuOptions,
    device::{DryDevice, EmulatorDevice},
    weights::{WeightPlan, WeightRoute},
};
use lily_kernels::{Platform, emulator::Checks};
use serde_json::{Map, Value, json};
use std::{fs, path::Path, sync::Arc};

const FILE: &str = "model.safetensors";

fn nano() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano"))
}

/// Nano with its tensors in another order: those of whole 16 bytes first, from a multiple of 4096 plus `shift` on.
fn laid_out(folder: &Path, shift: usize) -> Checkpoint {
    let bytes = fs::read(nano().join(FILE)).unwrap();
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&rest[..length]).unwrap();
    let data = &rest[length..];
    let offset = |tensor: &Value, at: usize| tensor["data_offsets"][at].as_u64().unwrap() as usize;
    let mut tensors: Vec<(&String, &Value)> =
        header.iter().filter(|(name, _)| *name != "__metadata__").collect();
    tensors.sort_by_key(|(name, tensor)| {
        (!(offset(tensor, 1) - offset(tensor, 0)).is_multiple_of(16), (*name).clone())
    });
    let (mut placed, mut laid) = (Map::new(), Vec::new());
    for (name, tensor) in tensors {
        let (from, to) = (offset(tensor, 0), offset(tensor, 1));
        let offsets = json!([laid.len(), laid.len() + to - from]);
        laid.extend_from_slice(&data[from..to]);
        placed.insert(
            name.clone(),
            json!({"dtype": tensor["dtype"], "shape": tensor["shape"], "data_offsets": offsets}),
        );
    }
    let mut text = Value::Object(placed).to_string();
    let room = (text.len() + 8).next_multiple_of(4096) + shift - 8;
    text.push_str(&" ".repeat(room - text.len()));
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text.into_bytes());
    file.extend(laid);
    fs::write(folder.join(FILE), file).unwrap();
    for name in ["config.json", "generation_config.json"] {
        fs::copy(nano().join(name), folder.join(name)).unwrap();
    }
    Checkpoint::open(folder).unwrap()
}

fn backend(checkpoint: &Checkpoint, weights: WeightRoute) -> GpuBackend {
    let options =
        GpuOptions { max_context: Some(256), prefill_chunk: Some(32), weights, ..GpuOptions::default() };
    GpuBackend::new(Arc::new(EmulatorDevice::new(Checks::Bounds)), checkpoint, &options).unwrap()
}

fn logits(backend: &mut GpuBackend) -> Vec<f32> {
    let (mut state, mut found) = (backend.new_state().unwrap(), Vec::new());
    let prompt: Vec<TokenId> = (300..307).map(TokenId).collect();
    let mut each = |_: usize, row: &[f32]| found.extend_from_slice(row);
    backend.prefill(&mut state, &prompt, LogitsWanted::Each(&mut each)).unwrap();
    let mut last = Vec::new();
    backend.decode(&mut [DecodeStep { state: &mut state, token: TokenId(99), logits: &mut last }]).unwrap();
    found.extend(last);
    found
}

#[test]
fn the_same_logits_from_the_file_itself() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = laid_out(folder.path(), 0);
    let size = fs::metadata(folder.path().join(FILE)).unwrap().len();
    let (mut mapped, mut copied) =
        (backend(&checkpoint, WeightRoute::Mapped), backend(&checkpoint, WeightRoute::Arena));
    let (plan, other) = (mapped.memory_plan(), copied.memory_plan());
    assert_eq!((plan.route, plan.mapped), ("mapped", size));
    assert_eq!((other.route, other.mapped), ("copied into arenas", 0));
    // Only what is joined from several tensors, and vectors.
    assert!(plan.weights * 4 < other.weights, "{plan}\n{other}");
    assert_eq!(logits(&mut mapped), logits(&mut copied));
}

/// Where a device cannot read the files, or the files do not lie as it reads, weights are copied.
#[test]
fn copied_where_they_cannot_stay() {
    let folder = tempfile::tempdir().unwrap();
    let emulator: &dyn Device = &EmulatorDevice::default();
    let route = |checkpoint: &Checkpoint, device: &dyn Device, wanted| {
        let plan = WeightPlan::routed(checkpoint, device, wanted).unwrap();
        (plan.route(), plan.mapped_bytes() > 0, plan.bytes() > 4_000_000)
    };
    let aligned = laid_out(folder.path(), 0);
    let (arena, mapped) = ((WeightRoute::Arena, false, true), (WeightRoute::Mapped, true, false));
    assert_eq!(route(&aligned, emulator, WeightRoute::Mapped), mapped);
    assert_eq!(route(&aligned, emulator, WeightRoute::Arena), arena);
    assert_eq!(route(&aligned, &DryDevice::new(Platform::Cuda), WeightRoute::Mapped), arena);
    // As it is published, its first tensor begins at an odd place.
    assert_eq!(route(&Checkpoint::open(nano()).unwrap(), emulator, WeightRoute::Mapped), arena);
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(route(&laid_out(elsewhere.path(), 8), emulator, WeightRoute::Mapped), arena);
    assert_eq!(route(&laid_out(elsewhere.path(), 16), emulator, WeightRoute::Mapped), mapped);
}
