//! Tuning with scripted times: what wins, what is refused, what is kept. With the feature `emulator`, shapes that really
//! compute, and none of which may compute something else.

use lily_checkpoint::Checkpoint;
use lily_gpu::{
    Buffer, Device, GpuError, GpuModel, Kernel, Limits, Pass, Program, Recording, Switches, Ticket, View,
    device::DryDevice,
    shapes::{Shapes, Slot, Tuned},
    tune::{Clock, DeviceClock, Options, SlotReport, Verdict, fit, tune},
    weights::WeightPlan,
};
use lily_kernels::{Platform, Specialisation};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

fn nano() -> Checkpoint {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    Checkpoint::open(folder.as_ref()).expect("nano opens")
}

fn model(device: Arc<dyn Device>) -> GpuModel {
    let checkpoint = nano();
    let weights = WeightPlan::new(&checkpoint).expect("placed").load(&*device).expect("loaded");
    GpuModel::new(device, checkpoint.config.clone(), weights, Switches::default())
}

/// Times by the shapes, in microseconds.
struct Scripted<F>(F);

impl<F: FnMut(&Shapes) -> f64> Clock for Scripted<F> {
    fn time(&mut self, _: &dyn Device, _: &Recording, shapes: &Shapes) -> Result<Duration, GpuError> {
        Ok(Duration::from_secs_f64(self.0(shapes) * 1e-6))
    }
}

/// A device that computes ones; twos after a run of a kernel whose key contains `odd`; and has no kernel with `missing`.
struct Still {
    dry: DryDevice,
    odd: &'static str,
    missing: &'static str,
    was_odd: AtomicBool,
    /// Launches of each recording that was prepared.
    prepared: Mutex<Vec<usize>>,
}

impl Still {
    fn new(odd: &'static str, missing: &'static str) -> Arc<Self> {
        let dry = DryDevice::new(Platform::Cuda);
        let (was_odd, prepared) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { dry, odd, missing, was_odd, prepared })
    }
}

impl Device for Still {
    fn platform(&self) -> Platform {
        self.dry.platform()
    }
    fn describe(&self) -> String {
        "Still, version 1".to_owned()
    }
    fn limits(&self) -> Limits {
        self.dry.limits()
    }
    fn allocate(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        self.dry.allocate(bytes, label)
    }
    fn allocate_shared(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        self.dry.allocate_shared(bytes, label)
    }
    fn upload(&self, to: &View, bytes: &[u8]) -> Result<(), GpuError> {
        self.dry.upload(to, bytes)
    }
    fn download(&self, _: &View, out: &mut [u8]) -> Result<(), GpuError> {
        let value = if self.was_odd.load(Ordering::Relaxed) { 2.0_f32 } else { 1.0 };
        out.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
        Ok(())
    }
    fn peek(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        self.download(from, out)
    }
    fn copy(&self, from: &View, to: &View) -> Result<(), GpuError> {
        self.dry.copy(from, to)
    }
    fn zero(&self, view: &View) -> Result<(), GpuError> {
        self.dry.zero(view)
    }
    fn compile(&self, specialisation: &Specialisation, entry: &str) -> Result<Kernel, GpuError> {
        if specialisation.key().contains(self.missing) {
            let what = "it takes too many registers".to_owned();
            return Err(GpuError::Kernel { kernel: entry.to_owned(), what });
        }
        self.dry.compile(specialisation, entry)
    }
    fn run(&self, recording: &Recording, pass: Pass) -> Result<Ticket, GpuError> {
        let odd = recording.dispatches().iter().any(|dispatch| dispatch.kernel.key().contains(self.odd));
        self.was_odd.store(odd, Ordering::Relaxed);
        self.dry.run(recording, pass)
    }
    fn prepare(&self, recording: &Recording, pass: Pass) -> Result<Program, GpuError> {
        self.prepared.lock().expect("no panic").push(recording.dispatches().len());
        self.dry.prepare(recording, pass)
    }
    fn submit(&self, program: &Program) -> Result<Ticket, GpuError> {
        self.dry.submit(program)
    }
    fn wait(&self, ticket: Ticket) -> Result<(), GpuError> {
        self.dry.wait(ticket)
    }
    fn is_done(&self, ticket: Ticket) -> Result<bool, GpuError> {
        self.dry.is_done(ticket)
    }
}

fn options(slots: &[Slot]) -> Options {
    Options { slots: slots.to_vec(), context: 200, rows: 24, prompt: 5, rounds: 5, ..Options::default() }
}

fn tuned(model: &GpuModel, options: &Options, clock: &mut dyn Clock) -> (Tuned, Vec<SlotReport>) {
    let mut reports = Vec::new();
    let tuned = tune(model, options, clock, &mut |report| reports.push(report.clone())).expect("tuned");
    (tuned, reports)
}

fn verdict<'a>(report: &'a SlotReport, values: &[usize]) -> &'a Verdict {
    &report.tried.iter().find(|tried| tried.values == values).expect("tried").verdict
}

#[test]
fn the_fastest_wins_by_more_than_the_margin() {
    let model = model(Still::new("nothing", "nothing"));
    let start = Shapes::of(model.chip());
    assert_eq!((start.gdn.simdgroups, start.gdn.columns), (8, 4));
    let time = |shapes: &Shapes| match (shapes.gdn.simdgroups, shapes.gdn.columns) {
        (4, 4) => 99.5, // within the margin
        (8, 2) => 90.0,
        (4, 2) => 85.0,
        _ => 100.0,
    };
    let (tuned, reports) = tuned(&model, &options(&[Slot::Gdn, Slot::ExpertsOut]), &mut Scripted(time));
    assert_eq!(tuned.winners, [(Slot::Gdn, vec![4, 2])]);
    assert_eq!(model.shapes().gdn, tuned.shapes(model.chip()).gdn, "it stays in the model");
    let [gdn, out] = reports.as_slice() else { panic!("two slots") };
    assert_eq!((gdn.winner.as_slice(), gdn.has_changed()), (&[4, 2][..], true));
    assert_eq!(gdn.tried[0].verdict, Verdict::Start);
    assert_eq!(verdict(gdn, &[4, 4]), &Verdict::NotFaster);
    assert_eq!(verdict(gdn, &[8, 2]), &Verdict::Faster);
    assert_eq!(gdn.tried.len(), Slot::Gdn.alternatives().len());
    assert!(!out.has_changed());
}

#[test]
fn what_scatters_does_not_win() {
    let model = model(Still::new("nothing", "nothing"));
    let mut calls = 0;
    let noisy = |shapes: &Shapes| {
        calls += 1;
        let scatter = f64::from(calls % 4) * 12.0;
        if shapes.gdn.columns == 4 { 100.0 } else { 85.0 + scatter }
    };
    let (tuned, _) = tuned(&model, &options(&[Slot::Gdn]), &mut Scripted(noisy));
    assert_eq!(tuned.winners, []);
}

#[test]
fn what_computes_something_else_or_fails_is_refused() {
    let model = model(Still::new("SIMDGROUPS=8,COLUMNS=2", "SIMDGROUPS=4,COLUMNS=2"));
    let time =
        |shapes: &Shapes| if shapes.gdn.columns == 4 && shapes.gdn.simdgroups == 8 { 100.0 } else { 50.0 };
    let (tuned, reports) = tuned(&model, &options(&[Slot::Gdn]), &mut Scripted(time));
    assert_eq!(verdict(&reports[0], &[8, 2]), &Verdict::Differs(1.0));
    assert!(matches!(verdict(&reports[0], &[4, 2]), Verdict::Failed(what) if what.contains("registers")));
    assert_eq!(tuned.winners, [(Slot::Gdn, vec![4, 4])], "the next one wins");
}

/// A device whose pipelines allow fewer threads than a kernel wants gets another shape, before anything runs.
#[test]
fn shapes_that_a_device_refuses_are_replaced() {
    let fitted = |missing| {
        let device = Still::new("nothing", missing);
        let shapes = model(device.clone()).shapes();
        fit(&*device, &nano(), Switches::default(), shapes, 32).map(|found| (shapes, found))
    };
    let (shapes, same) = fitted("nothing").expect("all are taken");
    assert_eq!(same, shapes);
    let (shapes, found) = fitted("SIMDGROUPS=8,COLUMNS").expect("there are others");
    assert_eq!((shapes.gdn.simdgroups, found.gdn.simdgroups, found.gdn.columns), (8, 4, 4));
    assert_eq!(Shapes { gdn: shapes.gdn, ..found }, shapes, "nothing else is changed");
    let refusal = fitted("rms_norm_rows").expect_err("it has no shapes");
    assert!(refusal.to_string().contains("too many registers"), "{refusal}");
}

#[test]
fn what_changes_nothing_is_not_timed_and_time_ends() {
    let model = model(Still::new("nothing", "nothing"));
    // Nano has no product of 4096 inputs.
    let (found, reports) =
        tuned(&model, &options(&[Slot::Long]), &mut Scripted(|_: &Shapes| panic!("timed")));
    assert_eq!(found.winners, []);
    assert!(reports[0].tried[1..].iter().all(|tried| tried.verdict == Verdict::Same), "{reports:?}");
    let none = Options { time: Duration::ZERO, ..options(&[Slot::Gdn]) };
    let (found, reports) = tuned(&model, &none, &mut Scripted(|_: &Shapes| panic!("timed")));
    assert_eq!(found.winners, []);
    assert!(reports[0].tried[1..].iter().all(|tried| tried.verdict == Verdict::NotTried), "{reports:?}");
}

#[test]
fn later_models_take_what_was_kept() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), Still::new("nothing", "nothing"));
    let first = model(device.clone());
    let time = |shapes: &Shapes| if shapes.scan.lanes == 16 { 50.0 } else { 100.0 };
    let (found, _) = tuned(&first, &options(&[Slot::Scan]), &mut Scripted(time));
    let path = found.store(folder.path(), &*device, &first.config).expect("kept");
    let later = model(device.clone());
    assert_eq!(later.shapes(), Shapes::of(later.chip()));
    later.read_tuned(folder.path());
    assert_eq!(later.shapes().scan.lanes, 16);

    // A damaged file is told and left alone.
    std::fs::write(path, "lily").expect("written");
    let last = model(device);
    last.read_tuned(folder.path());
    assert_eq!(last.shapes(), Shapes::of(last.chip()));
}

/// What is measured anew takes the place of what was kept, of its own slots alone; nothing to keep is nothing kept.
#[test]
fn what_was_kept_stays_until_it_is_measured_anew() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), Still::new("nothing", "nothing"));
    let model = model(device.clone());
    let load = || Tuned::load(folder.path(), &*device, &model.config).expect("readable");
    let of = |winners: &[(Slot, usize)]| {
        let values = |&(slot, which): &(Slot, usize)| (slot, slot.alternatives()[which].clone());
        Tuned { winners: winners.iter().map(values).collect() }
    };
    of(&[(Slot::Gdn, 1), (Slot::Scan, 1)]).store(folder.path(), &*device, &model.config).expect("kept");
    let merged = of(&[(Slot::Gdn, 2)]).over(&load().expect("kept"), &[Slot::Gdn, Slot::Attention]);
    assert_eq!(merged, of(&[(Slot::Gdn, 2), (Slot::Scan, 1)]));
    merged.store(folder.path(), &*device, &model.config).expect("kept");
    let disproved = of(&[]).over(&load().expect("kept"), &Slot::ALL);
    assert_eq!(disproved, of(&[]));
    for _ in 0..2 {
        disproved.store(folder.path(), &*device, &model.config).expect("forgotten");
        assert_eq!(load(), None);
    }
}

/// The real clock prepares what it times, of either phase, and replays it.
#[test]
fn the_clock_of_a_device() {
    let device = Still::new("nothing", "nothing");
    let model = model(device.clone());
    let mut clock = DeviceClock::new(Pass::Concurrent);
    let (_, reports) = tuned(&model, &options(&[Slot::Gdn, Slot::Scan]), &mut clock);
    for report in &reports {
        assert!(report.tried.iter().all(|tried| !tried.median.is_zero()), "{report:?}");
    }
    let prepared = device.prepared.lock().expect("no panic").clone();
    // A step and a chunk of nano have different numbers of launches: none stands in for the other.
    let [steps, chunks] =
        [prepared.first(), prepared.last()].map(|one| *one.expect("something was prepared"));
    assert_ne!(steps, chunks);
    let wanted = |slot: Slot, launches| {
        let found = prepared.iter().filter(|&&one| one == launches).count();
        assert!(found >= slot.alternatives().len(), "{slot}: {found} prepared of {prepared:?}");
    };
    wanted(Slot::Gdn, steps);
    wanted(Slot::Scan, chunks);
}

#[cfg(feature = "emulator")]
mod emulated {
    use super::*;
    use lily_gpu::{check::AppleFamily, device::EmulatorDevice, shapes::Chip};
    use lily_kernels::emulator::Checks;

    /// Every alternative computes the same on nano, whatever it would take. Those of the products with one row have their
    /// tests where the kernels are.
    #[test]
    fn alternatives_compute_the_same() {
        let model = model(Arc::new(EmulatorDevice::new(Checks::Bounds)));
        let slots = [Slot::Gdn, Slot::Attention, Slot::Scan];
        let alike = |_: &Shapes| 1.0;
        let options = Options { distance: 1e-3, time: Duration::from_secs(3600), ..options(&slots) };
        let (found, reports) = tuned(&model, &options, &mut Scripted(alike));
        assert_eq!(found.winners, []);
        for report in reports {
            for tried in &report.tried {
                let fine = matches!(tried.verdict, Verdict::Start | Verdict::NotFaster | Verdict::Same);
                assert!(fine, "{}: {tried:?}", report.slot);
            }
        }
    }

    /// So do the shapes that Apple's GPUs start with.
    #[test]
    fn shapes_for_apple_compute_the_same() {
        let device: Arc<dyn Device> = Arc::new(EmulatorDevice::new(Checks::Bounds));
        let model = model(device);
        let wanted = lily_gpu::tune::logits(&model, &options(&[])).expect("runs");
        for (family, cores) in [(AppleFamily::Apple7, 8), (AppleFamily::Apple10, 80)] {
            model.set_shapes(Shapes::of(Chip::Apple { family, cores }));
            let found = lily_gpu::tune::logits(&model, &options(&[])).expect("runs");
            let (mut off, mut size) = (0.0, 0.0);
            for (found, wanted) in found.iter().zip(&wanted) {
                off += f64::from(found - wanted).powi(2);
                size += f64::from(*wanted).powi(2);
            }
            let distance = (off / size).sqrt();
            assert!(distance <= 1e-2, "{family}: {distance:.2e}");
        }
    }
}
