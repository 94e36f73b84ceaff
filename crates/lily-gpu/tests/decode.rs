//! The decode plan on nano in the emulator, with every optimisation and without each, against the oracle.
#![cfg(feature = "emulator")]

use lily_checkpoint::Checkpoint;
use lily_cpu::ReferenceBackend;
use lily_engine::{Backend, DecodeStep, TokenId};
use lily_gpu::{
    Device, GpuBackend, GpuOptions, Optimisation, Phase, Switches,
    device::{DryDevice, EmulatorDevice},
};
use lily_kernels::Platform;
use std::sync::Arc;

const TOKENS: [u32; 3] = [5057, 84, 331];

fn nano() -> Checkpoint {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    Checkpoint::open(folder.as_ref()).expect("nano opens")
}

fn all_logits<B: Backend>(backend: &mut B) -> Vec<Vec<f32>> {
    let mut state = backend.new_state().expect("a state");
    TOKENS
        .map(|token| {
            let (token, mut logits) = (TokenId(token), Vec::new());
            let step = DecodeStep { state: &mut state, token, logits: &mut logits };
            backend.decode(&mut [step]).expect("runs");
            logits
        })
        .to_vec()
}

fn best(logits: &[f32]) -> usize {
    (0..logits.len()).fold(0, |best, id| if logits[id] > logits[best] { id } else { best })
}

#[test]
fn the_same_logits_with_and_without_each_optimisation() {
    let checkpoint = nano();
    let wanted = all_logits(&mut ReferenceBackend::new(&checkpoint));
    let device: Arc<dyn Device> = Arc::new(EmulatorDevice::default());
    let options = GpuOptions { max_context: Some(256), prefill_chunk: Some(32), ..GpuOptions::default() };
    let mut backend = GpuBackend::new(device, &checkpoint, &options).expect("a backend");
    let decode = Optimisation::ALL.into_iter().filter(|one| one.phase() == Phase::Decode);
    let both = [Switches::default(), Switches::all()];
    let cases = both.into_iter().chain(decode.map(|one| Switches::without(&[one])));
    for switches in cases {
        backend.set_switches(switches);
        let off: Vec<&str> = switches.off().map(Optimisation::name).collect();
        let found = all_logits(&mut backend);
        for (token, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let (mut error, mut size) = (0.0, 0.0);
            for (found, wanted) in found.iter().zip(wanted) {
                error += f64::from(found - wanted).powi(2);
                size += f64::from(*wanted).powi(2);
            }
            let distance = (error / size).sqrt();
            // The cache is bf16 on the device and f32 in the oracle.
            assert!(distance <= 5e-3, "without {off:?}, token {token}: distance {distance:.2e}");
            assert_eq!(best(found), best(wanted), "without {off:?}, token {token}");
        }
    }
}

/// Six levels for a Gated DeltaNet layer, seven for an attention layer, one launch each; the embedding and the head.
#[test]
fn a_step_has_a_launch_per_level() {
    let checkpoint = nano();
    let options = GpuOptions { max_context: Some(65_536), prefill_chunk: Some(32), ..GpuOptions::default() };
    for platform in [Platform::Cuda, Platform::Metal] {
        let backend =
            GpuBackend::new(Arc::new(DryDevice::new(platform)), &checkpoint, &options).expect("a backend");
        for context in [1, 4096, 40_000] {
            let report = backend.explain_decode(context).expect("recorded");
            let wanted = 6 * 6 + 2 * 7 + 2;
            assert_eq!(
                (report.launches, report.levels),
                (wanted, wanted),
                "{platform:?}, {context}\n{report}"
            );
        }
    }
}

/// A switch that changes nothing on a device is known to.
#[test]
fn idle_switches() {
    let checkpoint = nano();
    let options = GpuOptions { max_context: Some(65_536), prefill_chunk: Some(512), ..GpuOptions::default() };
    let backend = |platform| {
        GpuBackend::new(Arc::new(DryDevice::new(platform)), &checkpoint, &options).expect("a backend")
    };
    let (mut cuda, mut metal) = (backend(Platform::Cuda), backend(Platform::Metal));
    let decode = |backend: &mut GpuBackend, context| backend.idle_in_decode(context).expect("recorded");
    use Optimisation::{
        ChunkedPrefill, FixedBlocks, FusedDequant, PrefetchWeights, RegisterOperands, RegisterScan,
        TensorRows,
    };
    // Attention on tensor cores has equal blocks at every length, and no other loop.
    assert_eq!(decode(&mut cuda, 40_000), [FixedBlocks]);
    assert_eq!(decode(&mut metal, 40_000), [TensorRows, PrefetchWeights]);
    assert_eq!(decode(&mut metal, 4096), [FixedBlocks, TensorRows, PrefetchWeights]);
    // Nano's weights are in groups of 32: no operands of wgmma.
    let prefill =
        |backend: &mut GpuBackend, position| backend.idle_in_prefill(512, position).expect("recorded");
    let (chunk, first) = (prefill(&mut cuda, 512), prefill(&mut cuda, 0));
    assert!(!chunk.contains(&ChunkedPrefill) && first.contains(&ChunkedPrefill));
    assert!(!chunk.contains(&FusedDequant) && !chunk.contains(&RegisterScan));
    assert!(prefill(&mut metal, 0).contains(&RegisterOperands));
}
