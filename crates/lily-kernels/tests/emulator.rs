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
        ("race_of_lanes_over_device_memory", 1, Race),
        ("shuffle_past_the_lanes", 1, Divergence),
        ("exchange_past_the_lanes", 1, Divergence),
        ("race_of_threadgroups", 2, Race),
        ("reuse_without_a_barrier", 1, Race),
        ("unwritten_threadgroup", 1, UnwrittenRead),
        ("unwritten_device", 1, UnwrittenRead),
        ("past_the_end", 1, OutOfBounds),
        ("before_the_start", 1, OutOfBounds),
        ("past_a_threads_array", 1, OutOfBounds),
        ("before_a_threads_array", 1, OutOfBounds),
        ("barrier_of_some", 1, Divergence),
        ("two_barriers", 1, Divergence),
        ("parted_lanes", 1, Divergence),
        ("sum_of_some", 1, Divergence),
        ("misaligned", 1, Misaligned),
        ("misaligned_pair", 1, Misaligned),
        ("too_much_memory", 1, ThreadgroupMemory),
        // What a text says of itself is held against what it does.
        ("less_than_it_does", 1, OutOfBounds),
        ("no_better_aligned", 1, Misaligned),
        ("pair_no_better_aligned", 1, Misaligned),
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

/// Every vector type, loaded and stored at every float of 16 bytes.
#[test]
fn vectors_are_aligned_to_their_size() {
    let module = bugs();
    for (entry, floats) in [
        ("load_uint2", 2),
        ("load_float2", 2),
        ("load_uint4", 4),
        ("load_float4", 4),
        ("store_uint2", 2),
        ("store_float4", 4),
    ] {
        for at in 0..4_u32 {
            let mut memory = Floats([0; 256]);
            let ran = module.run(entry, [1, 1, 1], &mut [&mut memory.0], &at.to_le_bytes());
            match ran {
                Ok(()) => assert_eq!(at % floats, 0, "{entry} at {at}"),
                Err(faults) => {
                    assert!(
                        at % floats != 0 && faults.any(FaultKind::Misaligned),
                        "{entry} at {at}: {faults}"
                    );
                }
            }
        }
    }
}

#[test]
fn arguments_that_metal_has_no_room_for_are_refused() {
    let run = |arguments: u32, fields: usize| {
        let fields: String = (0..fields).map(|at| format!("uint f{at}; ")).collect();
        let inputs: String = (0..arguments - 2).map(|at| format!("IN({at}, float, x{at}), ")).collect();
        let text = format!(
            "struct ManyParams {{ {fields}}};\nKERNEL(many, 32, {inputs}OUT({}, float, y), PARAMS({}, ManyParams, p)) \
             {{ if (TID == 0) y[0] = 1.0f; }}\n",
            arguments - 2,
            arguments - 1,
        );
        let one = planted(&text);
        let params = vec![0; one.signature("many").expect("read").params.expect("there").size];
        let mut buffers: Vec<Vec<u8>> = (1..arguments).map(|_| vec![0; 16]).collect();
        let mut buffers: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        let module = Module::compile(&one).unwrap_or_else(|error| panic!("{error}"));
        module.run("many", [1, 1, 1], &mut buffers, &params)
    };
    run(31, 1024).unwrap_or_else(|faults| panic!("{faults}"));
    for (arguments, fields, said) in [(32, 1, "an argument at 31"), (3, 1025, "4100 bytes of parameters")] {
        let faults = run(arguments, fields).expect_err(said);
        assert!(faults.any(FaultKind::Arguments) && faults.to_string().contains(said), "{faults}");
    }
}

/// Operands and results; the processor's own way is back afterwards.
#[test]
fn denormals_are_flushed_where_it_is_asked_for() {
    let least = f32::MIN_POSITIVE;
    let times = |module: &Module, value: f32, factor: f32| {
        let mut memory = Floats([0; 256]);
        memory.0[..4].copy_from_slice(&value.to_le_bytes());
        let factor = factor.to_bits().to_le_bytes();
        module
            .run("times", [1, 1, 1], &mut [&mut memory.0], &factor)
            .unwrap_or_else(|faults| panic!("{faults}"));
        f32::from_le_bytes([memory.0[0], memory.0[1], memory.0[2], memory.0[3]])
    };
    let (kept, flushed) = (bugs(), bugs().with_denormals_flushed());
    for (value, factor, wanted) in [(least, 0.5, least / 2.0), (least / 2.0, 4.0, least * 2.0)] {
        assert_eq!(times(&flushed, value, factor), 0.0);
        assert_eq!(times(&kept, value, factor), wanted);
    }
    assert_eq!(times(&flushed, least, 2.0), 2.0 * least);
    assert_ne!(std::hint::black_box(least) * std::hint::black_box(0.5), 0.0);
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

/// A kernel that converts a matrix element by element gets another matrix, as nothing says that it would not.
#[test]
fn matrices_of_two_types_lie_differently_in_the_lanes() {
    let module = metal("attention_rows", include_str!("emulator/tile_bugs.k"));
    let mut memory = Floats([0; 256]);
    module
        .run("matrix_of_another_type", [1, 1, 1], &mut [&mut memory.0], &0_u32.to_le_bytes())
        .unwrap_or_else(|faults| panic!("{faults}"));
    let found: Vec<f32> = memory
        .0
        .chunks_exact(4)
        .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    assert_ne!(found, (0..64).map(|at| at as f32).collect::<Vec<f32>>());
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
        ("run_of_some_simdgroups", Divergence),
        ("parted_simdgroups", Divergence),
        ("run_against_a_barrier", Divergence),
        ("run_in_a_loop_of_its_own", Divergence),
        ("other_scope", Divergence),
    ] {
        let faults = run(&module, entry, 1).expect_err(entry);
        assert!(faults.any(kind), "{entry}: {faults}");
    }
}
