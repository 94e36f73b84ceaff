//! Dense products over rows: portable, on wgmma and on Metal's tensor operations.

use crate::rows::{bf16_results, bf16_rows, permute, values};
use crate::support::{Buffer, Kernel, Quantised, Random, Value, assert_close};
use lily_kernels::reference::{linear, sigmoid};

struct Case {
    rows: usize,
    outputs: usize,
    width: usize,
    bits: usize,
    group: usize,
    tile: usize,
}

fn portable(case: &Case) -> Kernel {
    kernel("gemm", case)
}

fn kernel(file: &str, case: &Case) -> Kernel {
    let constants = [
        ("K", case.width as i64),
        ("BITS", case.bits as i64),
        ("GROUP", case.group as i64),
        ("BM", case.tile as i64),
    ];
    Kernel::new(file, &constants)
}

/// All four entries of a kernel against the reference. `permuted`: x is stored for register operands.
fn check(kernel: &Kernel, case: &Case, tiles: [usize; 2], permuted: bool) {
    let &Case { rows, outputs, width, bits, .. } = case;
    let what = format!("{rows} rows x {outputs} outputs x {width}, {bits} bits");
    let mut r = Random::new((rows * outputs + width) as u64);
    let mut w = Quantised::new(&mut r, outputs, width, bits, case.group);
    let (x, plain) = bf16_rows(&mut r, rows * width, 1.0);
    let mut x = if permuted { Buffer::bf16(&permute(&plain, width)) } else { x };
    let wanted = linear(&w.dense(), &plain);
    let groups = [outputs.div_ceil(tiles[1]), rows.div_ceil(tiles[0]), 1];
    // A wider row of y than outputs: the rest must stay as it was.
    let ldy = outputs.next_multiple_of(8) + 8;
    let params = [
        ("rows", Value::U(rows)),
        ("n", Value::U(outputs)),
        ("ldx", Value::U(width)),
        ("ldy", Value::U(ldy)),
        ("ldg", Value::U(3)),
    ];
    let kept = |found: &[f32]| -> Vec<f32> {
        found.chunks_exact(ldy).flat_map(|row| row[..outputs].to_vec()).collect()
    };

    let mut y = bf16_results(rows * ldy);
    let mut run = |entry: &str, y: &mut Buffer, gate: Option<&mut Buffer>| {
        let mut buffers = vec![
            ("x", &mut x),
            ("w", &mut w.codes),
            ("scales", &mut w.scales),
            ("biases", &mut w.biases),
            ("y", y),
        ];
        buffers.extend(gate.map(|gate| ("gate", gate)));
        kernel.run(entry, groups, &mut buffers, &params);
    };
    run("gemm", &mut y, None);
    let found = values(&y);
    assert_close(&kept(&found), &wanted, 4e-3, &format!("{what}, bf16"));
    assert!(
        found.chunks_exact(ldy).all(|row| row[outputs..].iter().all(|y| y.is_nan())),
        "{what}: wrote past a row"
    );

    let mut y = Buffer::floats(rows * ldy);
    run("gemm_f32", &mut y, None);
    assert_close(&kept(&y.to_f32()), &wanted, 3e-3, &format!("{what}, f32"));

    let before = r.vec(rows * ldy, 1.0);
    let mut y = Buffer::f32(&before);
    run("gemm_residual", &mut y, None);
    let sum: Vec<f32> = kept(&before).iter().zip(&wanted).map(|(a, b)| a + b).collect();
    assert_close(&kept(&y.to_f32()), &sum, 3e-3, &format!("{what}, residual"));

    let gates = r.vec(rows * 3, 2.0);
    let mut y = Buffer::f32(&before);
    run("gemm_shared", &mut y, Some(&mut Buffer::f32(&gates)));
    let share = |row: usize| sigmoid(gates[row * 3]);
    let sum: Vec<f32> =
        kept(&before).iter().zip(&wanted).enumerate().map(|(i, (a, b))| a + share(i / outputs) * b).collect();
    assert_close(&kept(&y.to_f32()), &sum, 3e-3, &format!("{what}, gated"));
}

#[test]
fn tile_edges() {
    for (rows, outputs, tile) in
        [(1, 64, 16), (16, 65, 16), (17, 8, 16), (33, 63, 32), (63, 64, 64), (65, 129, 64)]
    {
        let case = Case { rows, outputs, width: 64, bits: 4, group: 64, tile };
        check(&portable(&case), &case, [tile, 64], false);
    }
}

#[test]
fn every_width_of_codes() {
    for (bits, group) in [(2, 64), (3, 64), (4, 32), (5, 32), (6, 64), (8, 64), (8, 128), (16, 64)] {
        let case = Case { rows: 5, outputs: 24, width: 128, bits, group, tile: 16 };
        check(&portable(&case), &case, [16, 64], false);
    }
}

#[test]
fn every_input_width() {
    for width in [64, 320, 512, 2048, 4096] {
        let case = Case { rows: 3, outputs: 16, width, bits: 4, group: 64, tile: 16 };
        check(&portable(&case), &case, [16, 64], false);
    }
}

#[test]
fn tensor_operations() {
    let cases = [
        (1, 24, 64, 4, 64, 16),
        (17, 70, 320, 4, 64, 16),
        (33, 64, 128, 8, 128, 32),
        (65, 130, 128, 3, 32, 64),
        (5, 8, 512, 16, 64, 16),
        (3, 16, 2048, 4, 64, 32),
    ];
    for (rows, outputs, width, bits, group, tile) in cases {
        let case = Case { rows, outputs, width, bits, group, tile };
        check(&kernel("gemm_tensor", &case), &case, [tile, 64], false);
    }
}

#[test]
fn wgmma() {
    let cases =
        [(1, 128, 128, 128), (33, 136, 512, 64), (128, 64, 256, 128), (129, 24, 640, 128), (65, 16, 128, 64)];
    for (rows, outputs, width, tile) in cases {
        let case = Case { rows, outputs, width, bits: 4, group: 64, tile };
        let kernel = Kernel::new("gemm_wgmma", &[("K", width as i64), ("TILE", tile as i64)]);
        check(&kernel, &case, [tile, 128], true);
    }
}

#[test]
fn whole_matrices_are_dequantised() {
    for (bits, group, rows, width) in [(4, 64, 7, 320), (6, 32, 3, 64), (8, 128, 9, 2048)] {
        let mut w = Quantised::new(&mut Random::new(bits as u64), rows, width, bits, group);
        let mut y = bf16_results(rows * width);
        let constants = [("K", width as i64), ("BITS", bits as i64), ("GROUP", group as i64)];
        Kernel::new("dequantise", &constants).run(
            "dequantise",
            [(rows * width / 32).div_ceil(256), 1, 1],
            &mut [("w", &mut w.codes), ("scales", &mut w.scales), ("biases", &mut w.biases), ("y", &mut y)],
            &[("rows", Value::U(rows))],
        );
        assert_close(&values(&y), &w.values, 3e-3, &format!("{bits} bits"));
    }
}
