//! The test of tensor operations that a Mac runs at start: it passes where they are right, and not where they are not.

use crate::support::{Buffer, Kernel};
use lily_kernels::{
    Specialisation,
    emulator::Module,
    metal_tier::{PROBE_RESULTS, TensorProbe, probe_operands, probe_verdict},
};

fn words(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|word| u16::from_le_bytes([word[0], word[1]])).collect()
}

#[test]
fn the_probe_passes() {
    let (a, b) = probe_operands();
    let mut y = Buffer::floats(PROBE_RESULTS);
    Kernel::new("tensor_probe", &[]).run(
        "tensor_probe",
        [1, 1, 1],
        &mut [("a", &mut Buffer::u16(&words(&a))), ("b", &mut Buffer::u16(&words(&b))), ("y", &mut y)],
        &[],
    );
    assert_eq!(probe_verdict(&y.to_f32()), TensorProbe::Passed);
}

/// An operand taken the other way round, a result at the wrong place, a product too few.
#[test]
fn wrong_numbers_do_not_pass() {
    let probe = Specialisation::named("tensor_probe", &[]).expect("complete");
    for (right, wrong) in [
        ("TENSOR_OP(turned, 32, 64, 1, 4)", "TENSOR_OP(turned, 32, 64, 0, 4)"),
        ("TENSOR_OP(straight, 32, 64, 0, 4)", "TENSOR_OP(straight, 32, 64, 1, 4)"),
        ("y[r * 64 + c]", "y[r * 64 + (c ^ 1)]"),
        ("i < 2", "i < 1"),
    ] {
        let text = probe.file().text;
        assert!(text.contains(right), "{right}");
        let module = Module::compile(&probe.with_text(&text.replace(right, wrong)))
            .unwrap_or_else(|error| panic!("{error}"));
        let (mut a, mut b) = probe_operands();
        let mut y = vec![0; 4 * PROBE_RESULTS];
        module
            .run("tensor_probe", [1, 1, 1], &mut [&mut a, &mut b, &mut y], &[])
            .unwrap_or_else(|faults| panic!("{wrong}: {faults}"));
        let y: Vec<f32> = y.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert!(matches!(probe_verdict(&y), TensorProbe::Failed(_)), "{wrong}");
    }
}
