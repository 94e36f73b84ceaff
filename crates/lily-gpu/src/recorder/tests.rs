//! Levels, errors and reports, with kernels of the catalog and buffers of no device.

use super::*;
use crate::{Buffer, Kernel, View};
use lily_kernels::Specialisation;

fn kernel(file: &str, constants: &[(&str, i64)], entry: &str) -> Kernel {
    let specialisation = Specialisation::named(file, constants).unwrap();
    Kernel::new(specialisation.key(), specialisation.signature(entry).unwrap(), ())
}

fn buffer(bytes: usize) -> View {
    Buffer::new(bytes, "test", ()).whole()
}

/// `y = W x`, all weights in one buffer each.
struct Gemv {
    kernel: Kernel,
    weights: [View; 3],
}

impl Gemv {
    fn new() -> Self {
        Self {
            kernel: kernel("gemv", &[("K", 64), ("SIMDGROUPS", 2)], "gemv"),
            weights: [buffer(4096), buffer(512), buffer(512)],
        }
    }

    fn record(&self, recorder: &mut Recorder, x: &View, y: &View) {
        let params = self.kernel.signature().params.as_ref().map_or(0, |params| params.size);
        let [w, scales, biases] = &self.weights;
        recorder
            .dispatch(&self.kernel, [1, 1, 1])
            .bind("w", w)
            .bind("scales", scales)
            .bind("biases", biases)
            .bind("x", x)
            .bind("y", y)
            .params(&vec![0; params])
            .label("test.gemv");
    }
}

fn levels(recording: &Recording) -> Vec<u32> {
    recording.dispatches().iter().map(|dispatch| dispatch.level).collect()
}

#[test]
fn a_chain_has_a_level_each_and_independent_launches_share_one() {
    let (gemv, [a, b, c, d]) = (Gemv::new(), [0; 4].map(|_| buffer(256)));
    let mut recorder = Recorder::new();
    gemv.record(&mut recorder, &a, &b);
    gemv.record(&mut recorder, &b, &c);
    gemv.record(&mut recorder, &a, &d);
    let recording = recorder.finish().unwrap();
    // The third, recorded last, overlaps the first.
    assert_eq!(levels(&recording), [0, 0, 1]);
    assert_eq!(recording.dispatches()[2].after, [0]);
    assert_eq!(recording.levels(), 2);
}

#[test]
fn write_after_read_and_write_after_write_are_dependencies() {
    let (gemv, [a, b, c]) = (Gemv::new(), [0; 3].map(|_| buffer(256)));
    let mut recorder = Recorder::new();
    gemv.record(&mut recorder, &a, &b);
    gemv.record(&mut recorder, &c, &a); // overwrites what the first reads
    gemv.record(&mut recorder, &c, &a); // and again
    let recording = recorder.finish().unwrap();
    assert_eq!(levels(&recording), [0, 1, 2]);
    assert_eq!(recording.dispatches()[2].after, [1], "the first is implied");
}

#[test]
fn other_ranges_of_a_buffer_do_not_meet() {
    let (gemv, a) = (Gemv::new(), buffer(256));
    let whole = buffer(512);
    let (left, right) = (whole.slice(0, 256), whole.slice(256, 256));
    let mut recorder = Recorder::new();
    gemv.record(&mut recorder, &a, &left);
    gemv.record(&mut recorder, &a, &right);
    gemv.record(&mut recorder, &whole.slice(128, 256), &buffer(256)); // meets both
    let recording = recorder.finish().unwrap();
    assert_eq!(levels(&recording), [0, 0, 1]);
    assert_eq!(recording.dispatches()[2].after, [0, 1]);
}

#[test]
fn a_partial_overwrite_hides_nothing() {
    let (gemv, a) = (Gemv::new(), buffer(256));
    let whole = buffer(512);
    let mut recorder = Recorder::new();
    gemv.record(&mut recorder, &a, &whole);
    gemv.record(&mut recorder, &a, &whole.slice(0, 256));
    gemv.record(&mut recorder, &whole.slice(256, 256), &buffer(256)); // depends on the first alone
    let recording = recorder.finish().unwrap();
    assert_eq!(levels(&recording), [0, 1, 1]);
    assert_eq!(recording.dispatches()[2].after, [0]);
}

#[test]
fn what_is_wrong_is_said() {
    let gemv = Gemv::new();
    let (a, b) = (buffer(256), buffer(256));
    let error = |record: &dyn Fn(&mut Recorder)| {
        let mut recorder = Recorder::new();
        record(&mut recorder);
        recorder.finish().unwrap_err().to_string()
    };
    let [w, ..] = &gemv.weights;
    let unknown = error(&|r| drop(r.dispatch(&gemv.kernel, [1, 1, 1]).bind("z", &a).label("l")));
    assert_eq!(unknown, "l, kernel gemv: it has no buffer argument z");
    let unset = error(&|r| drop(r.dispatch(&gemv.kernel, [1, 1, 1]).bind("w", w)));
    assert!(unset.ends_with("is not set"), "{unset}");
    let twice = error(&|r| drop(r.dispatch(&gemv.kernel, [1, 1, 1]).bind("w", w).bind("w", w)));
    assert!(twice.ends_with("w is bound twice"), "{twice}");
    let grid = error(&|r| drop(r.dispatch(&gemv.kernel, [1, 0, 1])));
    assert!(grid.ends_with("a grid of [1, 0, 1] threadgroups"), "{grid}");
    let small = error(&|r| drop(r.dispatch(&gemv.kernel, [1, 1, 1]).params(&[0; 3])));
    assert!(small.contains("bytes, 3 given"), "{small}");
    let field = error(&|r| drop(r.dispatch(&gemv.kernel, [1, 1, 1]).param("rows", 1.5_f32)));
    assert!(field.contains("parameter rows is Uint"), "{field}");
    let shared = error(&|r| gemv.record(r, &a, &a.slice(16, 64)));
    assert!(shared.ends_with("x and y share bytes and one is written"), "{shared}");
    let mut recorder = Recorder::new();
    gemv.record(&mut recorder, &a, &b);
    assert!(recorder.finish().is_ok());
}

#[test]
fn a_report_sums_by_label_and_takes_what_is_really_moved() {
    let (gemv, [a, b]) = (Gemv::new(), [0; 2].map(|_| buffer(256)));
    let mut recorder = Recorder::new();
    gemv.record(&mut recorder, &a, &b);
    gemv.record(&mut recorder, &b, &a);
    let report = recorder.finish().unwrap().report();
    assert_eq!((report.launches, report.levels), (2, 2));
    assert_eq!((report.read, report.written), (2 * (4096 + 512 + 512 + 256), 2 * 256));
    assert_eq!(report.lines.len(), 1);
    assert_eq!((report.lines[0].label.as_str(), report.lines[0].launches), ("test.gemv", 2));
    assert!(report.to_string().contains("in 2 dependency levels"));
}
