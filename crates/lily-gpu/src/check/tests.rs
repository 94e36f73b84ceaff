//! One right launch sequence, and each fault planted into it.

use super::*;
use crate::{Bound, Buffer, Dispatch, Kernel, Recorder, View};
use lily_kernels::{Access as Use, Specialisation};

fn kernel(file: &str, constants: &[(&str, i64)], entry: &str) -> Kernel {
    let specialisation = Specialisation::named(file, constants).unwrap();
    Kernel::new(specialisation.key(), specialisation.signature(entry).unwrap(), ())
}

fn buffer(bytes: usize, label: &str) -> View {
    Buffer::new(bytes, label, ()).whole()
}

fn rules() -> Rules {
    Rules::apple(AppleFamily::Apple7.smallest())
}

/// Two products, one after the other: `b = W a`, `c = W b`, 64 by 64 in 4 bits.
struct Right {
    weights: [View; 3],
    rows: [View; 3],
}

impl Right {
    fn new() -> Self {
        let weights = Buffer::new(4096, "weights", ());
        Self {
            weights: [weights.view(0, 2048), weights.view(2048, 128), weights.view(2304, 128)],
            rows: ["a", "b", "c"].map(|label| buffer(256, label)),
        }
    }

    fn recording(&self) -> Recording {
        let gemv = kernel("gemv", &[("K", 64)], "gemv");
        let mut recorder = Recorder::new();
        let [w, scales, biases] = &self.weights;
        for (x, y) in [(0, 1), (1, 2)] {
            recorder
                .dispatch(&gemv, [1, 1, 1])
                .bind("w", w)
                .bind("scales", scales)
                .bind("biases", biases)
                .bind("x", &self.rows[x])
                .bind("y", &self.rows[y])
                .param("rows", 64_u32)
                .param("stride", 0_u32)
                .label("test.gemv");
        }
        recorder.finish().unwrap()
    }

    fn checker(&self) -> Checker {
        Checker::new(rules()).with_read_only([self.weights[0].buffer().id()])
    }

    /// The kinds of fault that an edit of the second launch causes.
    fn edited(&self, edit: impl Fn(&mut Dispatch)) -> Vec<FaultKind> {
        let recording = self.recording().edited(|dispatch| {
            if dispatch.place == 1 {
                edit(dispatch);
            }
        });
        kinds(&self.checker().check(&recording.commands()))
    }
}

fn kinds(faults: &[Fault]) -> Vec<FaultKind> {
    let mut kinds: Vec<FaultKind> = faults.iter().map(|fault| fault.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn the_right_one_has_no_faults() {
    let right = Right::new();
    assert_eq!(right.checker().check_recording(&right.recording()), []);
}

#[test]
fn a_missing_barrier() {
    let right = Right::new();
    let recording = right.recording();
    let commands: Vec<Command<'_>> =
        recording.commands().into_iter().filter(|command| !matches!(command, Command::Barrier)).collect();
    let faults = right.checker().check(&commands);
    assert_eq!(kinds(&faults), [FaultKind::MissingBarrier]);
    assert!(faults[0].what.contains("test.gemv (launch 0) and test.gemv (launch 1)"), "{}", faults[0]);
    // The write after a read too: the second launch writes what the first reads.
    let back = recording.edited(|dispatch| {
        if dispatch.place == 1 {
            dispatch.bindings[3].view = buffer(256, "other");
            dispatch.bindings[4].view = right.rows[0].clone();
            dispatch.level = 0;
        }
    });
    assert_eq!(kinds(&right.checker().check(&back.commands())), [FaultKind::MissingBarrier]);
}

#[test]
fn a_redundant_barrier() {
    let right = Right::new();
    let recording = right.recording();
    for (at, what) in [(0, "first"), (2, "twice"), (3, "last")] {
        let mut commands = recording.commands();
        commands.insert(at, Command::Barrier);
        let faults = right.checker().check(&commands);
        assert_eq!(kinds(&faults), [FaultKind::RedundantBarrier], "{what}");
    }
    // Launches that have nothing in common need none.
    let apart = recording.edited(|dispatch| {
        if dispatch.place == 1 {
            dispatch.bindings[3].view = buffer(256, "other");
        }
    });
    assert_eq!(kinds(&right.checker().check(&apart.commands())), [FaultKind::RedundantBarrier]);
}

#[test]
fn another_order_and_a_missing_edge() {
    let right = Right::new();
    let recording = right.recording();
    let mut commands = recording.commands();
    commands.reverse();
    assert_eq!(kinds(&right.checker().check(&commands)), [FaultKind::Order]);
    let without = recording.edited(|dispatch| dispatch.after.clear());
    assert_eq!(kinds(&right.checker().check_recording(&without)), [FaultKind::MissingEdge]);
}

#[test]
fn wrong_arguments() {
    let right = Right::new();
    let swapped = right.edited(|dispatch| {
        (dispatch.bindings[1].index, dispatch.bindings[2].index) = (2, 1);
    });
    assert_eq!(swapped, [FaultKind::Index]);
    let written = right.edited(|dispatch| dispatch.bindings[4].access = Use::Read);
    assert!(written.contains(&FaultKind::Index), "{written:?}");
    assert_eq!(right.edited(|dispatch| drop(dispatch.bindings.pop())), [FaultKind::Index]);

    let short = right.edited(|dispatch| dispatch.bindings[0].view = right.weights[0].slice(0, 2044));
    assert_eq!(short, [FaultKind::Undersized]);
    // Half as many rows in the parameters would have been enough for that.
    let rows = right.edited(|dispatch| {
        dispatch.bindings[0].view = right.weights[0].slice(0, 1024);
        dispatch.params[..4].copy_from_slice(&32_u32.to_le_bytes());
    });
    assert_eq!(rows, []);

    let larger = Buffer::new(4096, "larger", ());
    let odd = right.edited(|dispatch| dispatch.bindings[0].view = larger.view(8, 2048));
    assert_eq!(odd, [FaultKind::Misaligned], "codes are read four words at a time");
    let odd = right.edited(|dispatch| dispatch.bindings[1].view = larger.view(2, 128));
    assert_eq!(odd, [], "scales one at a time");
}

#[test]
fn writes_of_weights_and_of_what_is_read() {
    let right = Right::new();
    let spare = buffer(4096, "spare");
    let weights = right.edited(|dispatch| {
        // Where nothing reads, so that this is the only fault.
        dispatch.bindings[4].view = right.weights[0].buffer().view(3072, 256);
    });
    assert_eq!(weights, [FaultKind::WritesWeights]);
    let alias = right.edited(|dispatch| {
        dispatch.bindings[1].view = spare.slice(0, 256);
        dispatch.bindings[4].view = spare.slice(64, 256);
    });
    assert_eq!(alias, [FaultKind::Alias]);
    // What is bound beyond what is touched is not shared.
    let apart = right.edited(|dispatch| {
        dispatch.bindings[1].view = spare.slice(0, 256);
        dispatch.bindings[4].view = spare.slice(128, 256);
    });
    assert_eq!(apart, []);
}

#[test]
fn another_grid() {
    let right = Right::new();
    for groups in [[2, 1, 1], [1, 2, 1], [1, 1, 3]] {
        assert_eq!(right.edited(|dispatch| dispatch.groups = groups), [FaultKind::Grid], "{groups:?}");
    }
    // A stride belongs to kernels that sweep.
    let stride = right.edited(|dispatch| dispatch.params[4..8].copy_from_slice(&256_u32.to_le_bytes()));
    assert_eq!(stride, [FaultKind::Condition]);
}

/// Attention of a step over a cache of 1024 positions: its blocks reach the context that the plan is for, and the joining
/// launch takes all of them.
#[test]
fn a_context_that_is_not_reached() {
    let heads = [("HEADS", 16), ("KV_HEADS", 2)];
    let blocks = kernel("attention_step", &heads, "attention_step");
    let combine = kernel("attention_combine", &heads[..1], "attention_combine");
    let launch = |context, groups: [u32; 3], capacity: u32| {
        let mut dispatch = alone(&blocks, groups);
        for bound in &mut dispatch.bindings[7..9] {
            bound.view = bound.view.slice(0, 2 * 1024 * 256 * 2);
        }
        dispatch.params[..4].copy_from_slice(&capacity.to_le_bytes());
        let mut faults = Vec::new();
        grid::check(&dispatch, context, &mut faults);
        kinds(&faults)
    };
    assert_eq!(launch(Some(700), [3, 2, 1], 1024), []);
    assert_eq!(launch(Some(768), [3, 2, 1], 1024), []);
    assert_eq!(launch(Some(769), [3, 2, 1], 1024), [FaultKind::Grid], "a block too few");
    assert_eq!(launch(Some(512), [3, 2, 1], 1024), [FaultKind::Grid], "a block too many");
    assert_eq!(launch(None, [3, 2, 1], 1024), [], "for any context");
    assert_eq!(launch(None, [3, 3, 1], 1024), [FaultKind::Grid], "a head too many");
    assert_eq!(launch(None, [3, 2, 1], 768), [FaultKind::Condition], "the context for the capacity");
    let launch = |groups, count: u32| {
        let mut dispatch = alone(&combine, groups);
        dispatch.params[4..8].copy_from_slice(&count.to_le_bytes());
        let mut faults = Vec::new();
        grid::check(&dispatch, Some(768), &mut faults);
        kinds(&faults)
    };
    assert_eq!(launch([16, 4, 1], 3), []);
    assert_eq!(launch([16, 3, 1], 3), [FaultKind::Grid]);
    assert_eq!(launch([16, 5, 1], 3), [FaultKind::Grid]);
    assert_eq!(launch([16, 4, 1], 2), [FaultKind::Condition]);
}

/// A chunk's attention: its last block of rows, and how far apart the heads of the cache lie.
#[test]
fn rows_of_a_chunk() {
    let heads = [("HEADS", 16), ("KV_HEADS", 2), ("HEAD", 256)];
    let attention = kernel("attention_rows", &heads, "attention_rows");
    let launch = |groups, kv_head: u32| {
        let mut dispatch = alone(&attention, groups);
        for bound in &mut dispatch.bindings[1..3] {
            bound.view = bound.view.slice(0, 2 * 1024 * 256 * 2);
        }
        dispatch.params = [70, 9216, 30, kv_head, 256, 0].map(u32::to_le_bytes).concat();
        let mut faults = Vec::new();
        grid::check(&dispatch, None, &mut faults);
        kinds(&faults)
    };
    assert_eq!(launch([3, 16, 1], 1024 * 256), []);
    assert_eq!(launch([2, 16, 1], 1024 * 256), [FaultKind::Grid]);
    assert_eq!(launch([3, 16, 1], 100 * 256), [FaultKind::Condition]);
}

/// A launch of a kernel that is bound to buffers as long as wanted.
fn alone(kernel: &Kernel, groups: [u32; 3]) -> Dispatch {
    let signature = kernel.signature();
    let bindings = signature.bindings.iter().map(|binding| Bound {
        index: binding.index,
        view: buffer(1 << 24, &binding.name),
        access: binding.access,
    });
    Dispatch {
        kernel: kernel.clone(),
        groups,
        bindings: bindings.collect(),
        params: vec![0; signature.params.as_ref().map_or(0, |params| params.size)],
        label: "alone".into(),
        read: 0,
        written: 0,
        operations: 0,
        level: 0,
        early: true,
        after: Vec::new(),
        place: 0,
    }
}

/// One tile of a product.
fn product(file: &str, constants: &[(&str, i64)]) -> Dispatch {
    let mut dispatch = alone(&kernel(file, constants, "gemv"), [1, 1, 1]);
    let stride = if file == "gemv_tensor" { 16 } else { 0 };
    dispatch.params = [1, stride].map(u32::to_le_bytes).concat();
    dispatch
}

fn faults_of(dispatch: &Dispatch, rules: Rules) -> Vec<FaultKind> {
    kinds(&Checker::new(rules).check(&[Command::Dispatch(dispatch)]))
}

#[test]
fn what_the_family_does_not_have() {
    let right = product("gemv", &[("K", 2048), ("SIMDGROUPS", 16), ("SPLIT", 2)]);
    assert_eq!(faults_of(&right, rules()), []);
    let fewer = Rules { limits: crate::Limits { threads: 448, ..rules().limits }, ..rules() };
    assert_eq!(faults_of(&right, fewer), [FaultKind::Threads]);
    let none = Dispatch { groups: [1, 0, 1], ..right.clone() };
    assert_eq!(faults_of(&none, rules()), [FaultKind::Grid, FaultKind::Threads]);

    // 16 simdgroups that share rows of 8192 four by four: 36,864 bytes of the row alone.
    let large = product("gemv", &[("K", 8192), ("SIMDGROUPS", 16), ("SPLIT", 4)]);
    assert_eq!(faults_of(&large, rules()), [FaultKind::ThreadgroupMemory]);

    let mut long = right.clone();
    long.params.resize(4100, 0);
    assert_eq!(faults_of(&long, rules()), [FaultKind::Parameters]);

    let mut endless = right.clone();
    endless.operations = rules().operations.unwrap();
    assert_eq!(faults_of(&endless, rules()), []);
    endless.operations += 1;
    assert_eq!(faults_of(&endless, rules()), [FaultKind::Operations]);

    let few = Rules { arguments: 5, ..rules() };
    assert_eq!(faults_of(&right, few), [FaultKind::Arguments]);
    let short = Rules { limits: crate::Limits { buffer: 1 << 20, ..rules().limits }, ..rules() };
    assert_eq!(faults_of(&right, short), [FaultKind::BufferLength]);

    let foreign = product("gemv_tensor", &[("K", 2048)]);
    let found = faults_of(&foreign, rules());
    assert_eq!(found, [FaultKind::ThreadgroupMemory, FaultKind::Foreign]);
    let cuda = Rules { platform: lily_kernels::Platform::Cuda, ..rules() };
    assert_eq!(faults_of(&foreign, cuda), []);
    let foreign = kernel("gemm_tensor", &[("K", 2048)], "gemm");
    let mut one_row = alone(&foreign, [1, 1, 1]);
    one_row.params = [1_u32, 64, 2048, 64, 0].map(u32::to_le_bytes).concat();
    assert_eq!(faults_of(&one_row, rules()), []);
    assert_eq!(faults_of(&one_row, cuda), [FaultKind::Foreign]);
}

#[test]
fn a_text_that_does_not_say() {
    let gemv = Specialisation::named("gemv", &[("K", 64)]).unwrap();
    let (_, text) = gemv.parts().pop().unwrap();
    let found = |line: &str| {
        let silent = gemv.with_text(&text.replace(line, "//"));
        let silent = Kernel::new(silent.key(), silent.signature("gemv").unwrap(), ());
        faults_of(&Dispatch { kernel: silent, ..product("gemv", &[("K", 64)]) }, rules())
    };
    assert_eq!(found("// touches"), [FaultKind::ThreadgroupMemory, FaultKind::Undeclared]);
    assert_eq!(found("// grid"), [FaultKind::Undeclared]);
}
