//! Every kernel that a checkpoint's plans ask for on Metal, one specialisation a line, for `cargo xtask msl`: on each GPU family,
//! decode at all contexts' buckets, chunks of every tile policy, every route of a choice, with and without each optimisation, and
//! with every launch shape that `lily tune` tries.
//!
//! `cargo run -p lily-gpu --example metal_kernels -- FOLDER`

#![expect(clippy::print_stdout, reason = "what it lists is its output")]

mod choices;

use lily_checkpoint::Checkpoint;
use lily_engine::{Backend, SamplingParams, TokenId, TokenMask};
use lily_gpu::{
    Device, GpuBackend, GpuModel, GpuOptions, Optimisation, Phase, Recorder, StateBuffers, Switches,
    check::AppleFamily,
    device::DryDevice,
    plan::{
        choice::{self, Choice, ChoiceRequest},
        decode::DecodeTemporaries,
    },
    shapes::Slot,
    weights::WeightPlan,
};
use lily_kernels::{Platform, Specialisation};
use std::{collections::BTreeSet, error::Error, sync::Arc};

/// Rows of a chunk: on both sides of every border of a tile policy, for few and for many experts.
const ROWS: [usize; 9] = [1, 16, 17, 33, 64, 200, 512, 1024, 4096];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: metal_kernels FOLDER")?;
    let checkpoint = Checkpoint::open(folder.as_ref())?;
    let mut keys = BTreeSet::from([Specialisation::named("tensor_probe", &[])?.key()]);
    let families = AppleFamily::ALL.map(|family| DryDevice::apple(family.smallest()));
    for device in [DryDevice::new(Platform::Metal)].into_iter().chain(families) {
        let device = Arc::new(device);
        layers(&device, &checkpoint)?;
        choices(&device, &checkpoint)?;
        keys.extend(device.kernels().iter().map(|(one, _)| one.key()));
    }
    keys.iter().for_each(|key| println!("{key}"));
    Ok(())
}

/// Decode steps and chunks.
fn layers(device: &Arc<DryDevice>, checkpoint: &Checkpoint) -> Result<(), Box<dyn Error>> {
    let mut backend = GpuBackend::new(device.clone(), checkpoint, &GpuOptions::default())?;
    let longest = checkpoint.config.max_position_embeddings - 1;
    // It follows the GPU's cores.
    let chunk = backend.prefill_chunk().min(longest);
    let each = Optimisation::ALL.into_iter().map(|one| Switches::without(&[one]));
    for switches in [Switches::default(), Switches::all()].into_iter().chain(each) {
        backend.set_switches(switches);
        // One context of each bucket.
        let mut context = 0;
        while context < longest {
            backend.explain_decode(context)?;
            context = (context + 1).next_power_of_two().max(256) / 4 + context;
        }
        backend.explain_decode(longest)?;
        for rows in ROWS.into_iter().filter(|&rows| rows < chunk).chain([chunk]) {
            backend.explain_prefill(rows, 0)?;
        }
        backend.explain_prefill(64.min(longest), longest - 64.min(longest))?;
    }
    backend.set_switches(Switches::default());
    tuned(&backend, longest, chunk)
}

/// Decode steps and chunks with each alternative of each launch shape.
fn tuned(backend: &GpuBackend, longest: usize, chunk: usize) -> Result<(), Box<dyn Error>> {
    let table = backend.model().shapes();
    for slot in Slot::ALL {
        for values in slot.alternatives() {
            let mut shapes = table;
            if !slot.set(&mut shapes, &values) {
                return Err(format!("{slot} does not take {values:?}").into());
            }
            backend.model().set_shapes(shapes);
            match slot.phase() {
                Phase::Decode => {
                    backend.explain_decode(longest.min(1000))?;
                    backend.explain_decode(longest)?;
                }
                Phase::Prefill => {
                    for rows in [64, 512, 1024, chunk].map(|rows| rows.min(chunk)) {
                        backend.explain_prefill(rows, 0)?;
                    }
                }
            }
        }
    }
    backend.model().set_shapes(table);
    Ok(())
}

/// The choice of a token, by every route.
fn choices(device: &Arc<DryDevice>, checkpoint: &Checkpoint) -> Result<(), Box<dyn Error>> {
    let config = &checkpoint.config;
    let weights = WeightPlan::new(checkpoint)?.load(&**device)?;
    let model = GpuModel::new(device.clone(), config.clone(), weights, Switches::default());
    let state = StateBuffers::new(&**device, config, 64)?;
    let temporaries = DecodeTemporaries::new(&**device, config, 64)?;
    let mut chosen = Choice::new(&**device, config)?;
    let tokens = Arc::new(TokenMask::all(config.vocab_size));
    for params in choices::requests() {
        for (adjusted, logprobs) in [(false, 0), (true, 0), (false, 20), (true, 20)] {
            let bias = if adjusted { vec![(TokenId(1), 1.0)] } else { Vec::new() };
            let params = SamplingParams { logit_bias: bias, ..params.clone() };
            let request = ChoiceRequest {
                params: &params,
                seed: 1,
                prompt: &[],
                answer: &[],
                tokens: &tokens,
                logprobs,
            };
            chosen.set(&**device as &dyn Device, &request)?;
            let mut recorder = Recorder::new();
            choice::record(&mut recorder, &model, &state, &temporaries, &chosen)?;
            recorder.finish()?;
        }
    }
    Ok(())
}
