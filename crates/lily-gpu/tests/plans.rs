//! Whole plans without a GPU: every binding, hazard and limit of the full-size model and of nano on every family of Apple's
//! GPUs and on Hopper; launches, levels and bytes beside the marks; the page that tells them.

mod support;

use lily_checkpoint::Checkpoint;
use lily_gpu::{
    Device, Optimisation, Pass, Recorder, StateBuffers, Switches,
    check::{AppleFamily, Checker, Plans, Rules},
    device::DryDevice,
    plan::prefill::{Chunk, PrefillTemporaries, run_chunk},
};
use std::sync::Arc;
use support::{FullSize, cuda, metal, page};

fn nano() -> Checkpoint {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    Checkpoint::open(folder.as_ref()).expect("nano opens")
}

#[track_caller]
fn check(what: &str, plans: &Plans, checker: &Checker) {
    let (mut launches, all) = (0, plans.all().expect("recorded"));
    for plan in &all {
        let faults = checker.check_plan(plan);
        let first: Vec<String> = faults.iter().take(5).map(ToString::to_string).collect();
        assert!(faults.is_empty(), "{what}, {}: {} faults\n{}", plan.name, faults.len(), first.join("\n"));
        launches += plan.recording.dispatches().len();
    }
    eprintln!("{what}: {} plans, {launches} launches, no faults", all.len());
}

#[test]
fn the_full_size_on_every_apple_family() {
    let full = FullSize::new();
    for family in AppleFamily::ALL {
        let (plans, checker) = metal(&full.checkpoint, family);
        check(&format!("full size, {family}"), &plans, &checker);
    }
}

#[test]
fn the_full_size_on_hopper() {
    let full = FullSize::new();
    let (plans, checker) = cuda(&full.checkpoint);
    check("full size, sm_90a", &plans, &checker);
}

#[test]
fn nano_with_and_without_each_optimisation() {
    let checkpoint = nano();
    let (mut metal, metal_checker) = metal(&checkpoint, AppleFamily::Apple7);
    let (mut cuda, cuda_checker) = cuda(&checkpoint);
    let without = Optimisation::ALL.into_iter().map(|one| Switches::without(&[one]));
    for switches in [Switches::default(), Switches::all()].into_iter().chain(without) {
        let off: Vec<&str> = switches.off().map(Optimisation::name).collect();
        metal.set_switches(switches);
        check(&format!("nano, apple7, without {off:?}"), &metal, &metal_checker);
        cuda.set_switches(switches);
        check(&format!("nano, sm_90a, without {off:?}"), &cuda, &cuda_checker);
    }
}

/// A chunk as it is really run, layer by layer, on a device that checks what it is given.
#[test]
fn a_checking_device_takes_chunks_and_refuses_faults() {
    let (checkpoint, gpu) = (nano(), AppleFamily::Apple8.smallest());
    let device = Arc::new(DryDevice::apple(gpu).with_checker(Checker::new(Rules::apple(gpu))));
    let plans = Plans::new(device.clone(), &checkpoint, Switches::default(), 64).expect("plans");
    let (model, config) = (plans.model(), &checkpoint.config);
    let state = StateBuffers::new(&*device, config, 256).expect("a state");
    let temporaries = PrefillTemporaries::new(&*device, config, 64, 1).expect("temporaries");
    let chunk = Chunk { rows: 50, position: 7 };
    run_chunk(model, &state, &temporaries, chunk, Pass::Concurrent).expect("no faults");

    let kernel = model.kernel("rms_norm_row", &[("K", 512)], "rms_norm_row").expect("a kernel");
    let view = |bytes| device.allocate(bytes, "row").expect("a buffer").whole();
    let mut recorder = Recorder::new();
    recorder
        .dispatch(&kernel, [1, 1, 1])
        .bind("x", &view(2048))
        .bind("gain", &view(1024))
        .bind("y", &view(2048))
        .param("eps", 1e-6);
    let error =
        device.run(&recorder.finish().expect("complete"), Pass::Concurrent).expect_err("a short gain");
    assert!(error.to_string().contains("Undersized: rms_norm_row"), "{error}");
}

#[test]
fn a_token_keeps_the_marks() {
    let full = FullSize::new();
    let (most_launches, most_levels) = page::MOST;
    for family in AppleFamily::ALL {
        let (plans, _) = metal(&full.checkpoint, family);
        for context in [4096, 131_072] {
            let plan = plans.step(context).expect("recorded");
            let report = plan.recording.report();
            let what = format!("{family}, {}\n{report}", plan.name);
            assert!(report.launches <= most_launches && report.levels <= most_levels, "{what}");
            // Six levels for a Gated DeltaNet layer, seven for an attention layer, embedding, head, and two for the choice.
            assert_eq!((report.launches, report.levels), (254, 254), "{what}");
            let over = (report.read + report.written) as f64 / page::floor(&full, context) as f64 - 1.0;
            assert!((0.0..=0.03).contains(&over), "{:+.2} % over the floor, {what}", 100.0 * over);
        }
    }
}

/// The figures of docs/model.md, from which the marks come.
#[test]
fn the_floor_is_the_documented_one() {
    let full = FullSize::new();
    for (context, wanted) in [(4096, 1878.0), (131_072, 1878.0 - 84.0 + 2684.0)] {
        let found = page::floor(&full, context) as f64 / 1e6;
        assert!((found / wanted - 1.0).abs() < 2e-3, "{context}: {found} MB, {wanted} documented");
    }
}

#[test]
fn the_page_is_true() {
    let text = std::fs::read_to_string(page::path()).expect("docs/plans.md");
    let wanted =
        page::replaced(&text, &page::generate(&FullSize::new())).expect("docs/plans.md has both markers");
    assert!(
        text == wanted,
        "docs/plans.md is out of date\nhint: cargo run -p lily-gpu --example plans -- --write"
    );
}
