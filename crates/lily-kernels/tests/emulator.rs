//! The emulator itself: each check must be able to fail.
#![cfg(feature = "emulator")]

use lily_kernels::Specialisation;
use lily_kernels::emulator::{FaultKind, Faults, Module};

const BUGS: &str = include_str!("emulator/bugs.k");

/// 64 floats, aligned.
#[repr(align(16))]
struct Floats([u8; 256]);

/// Any file carries a planted text.
fn planted(text: &str) -> Specialisation {
    Specialisation::named("embedding", &[("K", 64)]).expect("complete").with_text(text)
}

fn bugs() -> Module {
    Module::compile(&planted(BUGS)).unwrap_or_else(|error| panic!("{error}"))
}

fn run(module: &Module, entry: &str, groups: u32) -> Result<(), Faults> {
    let mut memory = Floats([0; 256]);
    module.run(entry, [groups, 1, 1], &mut [&mut memory.0], &0_u32.to_le_bytes())
}

#[test]
fn each_planted_fault_is_reported() {
    let module = bugs();
    use FaultKind::{Divergence, Misaligned, OutOfBounds, Race, ThreadgroupMemory, UnwrittenRead};
    for (entry, groups, kind) in [
        ("race", 1, Race),
        ("race_in_a_simdgroup", 1, Race),
        ("race_over_device_memory", 1, Race),
        ("race_of_threadgroups", 2, Race),
        ("reuse_without_a_barrier", 1, Race),
        ("unwritten_threadgroup", 1, UnwrittenRead),
        ("unwritten_device", 1, UnwrittenRead),
        ("past_the_end", 1, OutOfBounds),
        ("before_the_start", 1, OutOfBounds),
        ("barrier_of_some", 1, Divergence),
        ("two_barriers", 1, Divergence),
        ("parted_lanes", 1, Divergence),
        ("sum_of_some", 1, Divergence),
        ("misaligned", 1, Misaligned),
        ("too_much_memory", 1, ThreadgroupMemory),
        // What a text says of itself is held against what it does.
        ("less_than_it_does", 1, OutOfBounds),
        ("no_better_aligned", 1, Misaligned),
        ("other_memory", 1, ThreadgroupMemory),
    ] {
        let faults = run(&module, entry, groups).expect_err(entry);
        assert!(faults.any(kind), "{entry}: {faults}");
        assert!(faults.first[0].message.contains(&format!("kernel {entry}")), "{faults}");
    }
}

#[test]
fn right_kernels_have_no_faults_in_any_order() {
    for seed in [0, 1, 2, 3] {
        for entry in ["right", "what_it_says"] {
            let module = bugs().with_seed(seed);
            run(&module, entry, 1).unwrap_or_else(|faults| panic!("{entry}: {faults}"));
        }
    }
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let module = bugs();
    let mut memory = Floats([0; 256]);
    let faults = module.run("right", [1, 1, 1], &mut [&mut memory.0], &[]).expect_err("no params");
    assert!(
        faults.any(FaultKind::BadCall) && faults.to_string().contains("4 bytes of parameters"),
        "{faults}"
    );
    let faults =
        module.run("right", [1, 1, 1], &mut [&mut memory.0[2..]], &[0; 4]).expect_err("an odd address");
    assert!(faults.any(FaultKind::Misaligned), "{faults}");
}

#[test]
fn text_that_does_not_compile_says_where() {
    let error = Module::compile(&planted("KERNEL(x, 32, OUT(0, float, y))\n{ y[0] = nothing; }\n")).err();
    let error = error.expect("an unknown name").to_string();
    assert!(error.contains("embedding.k:2") && error.contains("nothing"), "{error}");
}

/// A text of matrix tiles, or of tensor operations, in the place of a file that needs them.
fn metal(file: &str, text: &str) -> Module {
    let given = [("HEADS", 2), ("KV_HEADS", 1), ("HEAD", 256)];
    let given: &[(&str, i64)] = if file == "attention_rows" { &given } else { &[] };
    let one = Specialisation::named(file, given).expect("complete").with_text(text);
    Module::compile(&one).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn faults_of_metals_tiles_are_reported() {
    use FaultKind::{Divergence, Misaligned, OutOfBounds, Race, ThreadgroupMemory};
    let module = metal("attention_rows", include_str!("emulator/tile_bugs.k"));
    run(&module, "right_tiles", 1).unwrap_or_else(|faults| panic!("{faults}"));
    for (entry, kind) in [
        // 29,184 bytes of values, but 32,832 with Metal's padding.
        ("padding", ThreadgroupMemory),
        ("product_before_the_barrier", Race),
        ("columns_before_the_barrier", Race),
        ("matrix_of_some", Divergence),
        ("matrix_past_the_end", OutOfBounds),
        ("unaligned_row", Misaligned),
    ] {
        let faults = run(&module, entry, 1).expect_err(entry);
        assert!(faults.any(kind), "{entry}: {faults}");
    }
}

#[test]
fn faults_of_tensor_operations_are_reported() {
    use FaultKind::{Divergence, Race};
    let module = metal("tensor_probe", include_str!("emulator/tensor_bugs.k"));
    run(&module, "right_tensors", 1).unwrap_or_else(|faults| panic!("{faults}"));
    for (entry, kind) in [
        ("run_before_the_barrier", Race),
        ("overwritten_operand", Race),
        ("run_of_some_lanes", Divergence),
        ("other_scope", Divergence),
    ] {
        let faults = run(&module, entry, 1).expect_err(entry);
        assert!(faults.any(kind), "{entry}: {faults}");
    }
}
