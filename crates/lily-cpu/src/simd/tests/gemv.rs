//! Matrix times vector.

use super::{Noise, affine, assert_close, dense, product, tiers};
use crate::{
    activations::{Layout, Product, QuantRows},
    linear::{Linear, View},
    simd::{GEMM_ROWS, Kernels},
};
use lily_checkpoint::Dtype;

/// Widths around every block of the kernels: a unit, a vector, a block of sixteen units, and beyond.
const COLS: [usize; 10] = [64, 128, 192, 320, 512, 576, 1024, 1088, 2048, 4096];

fn quantized(kernels: &Kernels, layout: Layout, x: &[f32]) -> QuantRows {
    let mut rows = QuantRows::new(layout, 1, x.len());
    rows.row_mut(0).quantize(kernels, x);
    rows
}

/// Activations that 8 bits hold exactly: whole multiples of a step, 127 of them somewhere in each 32 columns.
fn exact_in_8_bits(noise: &mut Noise, cols: usize) -> Vec<f32> {
    let mut x: Vec<f32> = (0..cols).map(|_| (noise.bits() % 255) as f32 / 64.0 - 127.0 / 64.0).collect();
    for unit in x.chunks_mut(32) {
        let at = noise.bits() as usize % unit.len();
        unit[at] = if noise.bits().is_multiple_of(2) { 127.0 } else { -127.0 } / 64.0;
    }
    x
}

/// How much larger the terms of a row's product are than the product may be.
fn spread(matrix: &[f32], x: &[f32]) -> f32 {
    let sums = matrix.chunks_exact(x.len()).map(|row| {
        let terms: f32 = row.iter().zip(x).map(|(w, x)| (w * x).abs()).sum();
        let sum: f32 = row.iter().zip(x).map(|(w, x)| w * x).sum();
        terms / (x.len() as f32).sqrt() / sum.abs().max(1e-3)
    });
    sums.fold(1.0, f32::max)
}

fn i8_product(kernels: &Kernels, linear: &Linear, x: &[f32]) -> Vec<f32> {
    let View::Affine(view) = linear.view() else { unreachable!("the matrix is quantised") };
    let layout = linear.layout(Product::Vector).expect("a quantised matrix has a layout");
    let x = quantized(kernels, layout, x);
    let mut out = vec![f32::NAN; linear.rows()];
    // In two calls, so that a row offset matters.
    let cut = linear.rows() / 2;
    let (first, second) = out.split_at_mut(cut);
    kernels.gemv_i8(&view, 0..cut, &x.row(0), first);
    kernels.gemv_i8(&view, cut..linear.rows(), &x.row(0), second);
    out
}

#[test]
fn packed_rows_times_8_bit_vectors() {
    let mut noise = Noise(1);
    for bits in [2, 3, 4, 5, 6, 8] {
        for group in [32, 64, 128] {
            for cols in COLS.into_iter().chain([32, 96, 160, 544]).filter(|cols| cols % group == 0) {
                let dtype = [Dtype::Bf16, Dtype::F16, Dtype::F32][noise.bits() as usize % 3];
                let rows = 1 + noise.bits() as usize % 5;
                let (linear, values) = affine(&mut noise, rows, cols, bits, group, dtype);
                let x = exact_in_8_bits(&mut noise, cols);
                let expected = product(&values, &x);
                for kernels in tiers() {
                    let what = format!("{} {bits} bits, group {group}, {rows} x {cols}", kernels.tier());
                    assert_close(
                        &what,
                        &i8_product(kernels, &linear, &x),
                        &expected,
                        2e-5 * spread(&values, &x),
                    );
                }
            }
        }
    }
}

/// Blocks and vectors around every tile of the kernels; strips of columns too.
#[test]
fn packed_rows_times_many_8_bit_vectors() {
    let mut noise = Noise(6);
    for bits in [2, 3, 4, 5, 6, 8] {
        for group in [32, 64, 128] {
            for cols in
                [32, 64, 96, 128, 320, 512, 544, 576, 1152].into_iter().filter(|cols| cols % group == 0)
            {
                let dtype = [Dtype::Bf16, Dtype::F16, Dtype::F32][noise.bits() as usize % 3];
                let rows = [1, 5, 16, 17, 32][noise.bits() as usize % 5];
                let (linear, values) = affine(&mut noise, rows + 2, cols, bits, group, dtype);
                let vectors = 1 + noise.bits() as usize % 40;
                let x: Vec<Vec<f32>> = (0..vectors).map(|_| exact_in_8_bits(&mut noise, cols)).collect();
                let View::Affine(view) = linear.view() else { unreachable!("the matrix is quantised") };
                for kernels in tiers() {
                    let mut quantized = QuantRows::new(view.layout(Product::Matrix), vectors, cols);
                    x.iter().enumerate().for_each(|(i, x)| quantized.row_mut(i).quantize(kernels, x));
                    let first = vectors / 3;
                    let mut out = vec![f32::NAN; (vectors - first) * GEMM_ROWS];
                    kernels.gemm_i8(&view, 2..rows + 2, &quantized.matrix(), first..vectors, &mut out);
                    for (row, out) in (first..).zip(out.chunks_exact(GEMM_ROWS)) {
                        let what = format!(
                            "{} {bits} bits, group {group}, {rows} x {cols}, row {row}",
                            kernels.tier()
                        );
                        let expected = product(&values, &x[row]);
                        let tolerance = 2e-5 * spread(&values, &x[row]);
                        assert_close(&what, &out[..rows], &expected[2..], tolerance);
                    }
                }
            }
        }
    }
}

/// The largest codes and activations: products of pairs leave 16 bits in the widest codes.
#[test]
fn sums_do_not_saturate() {
    let mut noise = Noise(2);
    for bits in [2, 3, 4, 5, 6, 8] {
        let (linear, values) = affine(&mut noise, 3, 256, bits, 64, Dtype::F32);
        let _ = values;
        let top = ((1u32 << bits) - 1) as f32;
        let View::Affine(view) = linear.view() else { unreachable!("the matrix is quantised") };
        let codes = vec![0xffu8; view.codes.len()];
        let full = crate::linear::AffineView { codes: &codes, ..view };
        for sign in [1.0, -1.0] {
            let x = vec![sign; 256];
            for kernels in tiers() {
                let x = quantized(kernels, linear.layout(Product::Vector).expect("a layout"), &x);
                let mut out = [0.0; 3];
                kernels.gemv_i8(&full, 0..3, &x.row(0), &mut out);
                for (row, out) in out.iter().enumerate() {
                    let expected: f32 =
                        (0..4).map(|g| (view.scale(row, g) * top + view.bias(row, g)) * 64.0 * sign).sum();
                    assert!(
                        (out - expected).abs() < 1e-3,
                        "{} {bits} bits: {out} {expected}",
                        kernels.tier()
                    );
                }
            }
        }
    }
}

#[test]
fn packed_rows_times_f32_vectors() {
    let mut noise = Noise(3);
    for bits in [2, 3, 4, 5, 6, 8] {
        for group in [32, 64, 128] {
            for cols in [32, 64, 96, 128, 320, 2048].into_iter().filter(|cols| cols % group == 0) {
                let (linear, values) = affine(&mut noise, 3, cols, bits, group, Dtype::Bf16);
                let x = noise.numbers(cols);
                let expected = product(&values, &x);
                let View::Affine(view) = linear.view() else { unreachable!("the matrix is quantised") };
                for kernels in tiers() {
                    let mut out = [0.0; 3];
                    kernels.gemv_affine_f32(&view, 0..3, &x, &mut out);
                    let what = format!("{} {bits} bits, group {group}, {cols}", kernels.tier());
                    assert_close(&what, &out, &expected, 1e-5);
                    let mut row = vec![0.0; cols];
                    kernels.dequantize_row(&view, 2, &mut row);
                    assert_close(&what, &row, &values[2 * cols..], 1e-6);
                }
            }
        }
    }
}

/// Packed and plain rows, around every tile.
#[test]
fn rows_times_many_f32_vectors() {
    let mut noise = Noise(7);
    for (cols, vectors, rows) in
        [(64, 1, 1), (64, 4, 4), (320, 5, 7), (512, 3, 8), (576, 9, 9), (1088, 2, 32)]
    {
        for bits in [0, 3, 4, 8] {
            let (linear, values) = match bits {
                0 => dense(&mut noise, rows + 1, cols, Dtype::Bf16),
                _ => affine(&mut noise, rows + 1, cols, bits, 64, Dtype::F16),
            };
            let x = noise.numbers(vectors * cols);
            for kernels in tiers() {
                let mut out = vec![f32::NAN; vectors * GEMM_ROWS];
                kernels.gemm_f32(&linear.view(), 1..rows + 1, &x, &mut out);
                for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact(GEMM_ROWS)) {
                    let what = format!("{} {bits} bits, {rows} x {cols}, {vectors} vectors", kernels.tier());
                    let tolerance = 1e-5 * spread(&values, x);
                    assert_close(&what, &out[..rows], &product(&values, x)[1..], tolerance);
                }
            }
        }
    }
    for cols in [1, 7, 17, 515] {
        let (linear, values) = dense(&mut noise, 6, cols, Dtype::F32);
        let x = noise.numbers(3 * cols);
        for kernels in tiers() {
            let mut out = vec![f32::NAN; 3 * GEMM_ROWS];
            kernels.gemm_f32(&linear.view(), 0..6, &x, &mut out);
            for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact(GEMM_ROWS)) {
                let tolerance = 1e-5 * spread(&values, x);
                assert_close(
                    &format!("{} {cols}", kernels.tier()),
                    &out[..6],
                    &product(&values, x),
                    tolerance,
                );
            }
        }
    }
}

#[test]
fn plain_rows_times_f32_vectors() {
    let mut noise = Noise(4);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for cols in [1, 3, 15, 16, 17, 63, 64, 65, 320, 2047] {
            let (linear, values) = dense(&mut noise, 3, cols, dtype);
            let x = noise.numbers(cols);
            let expected = product(&values, &x);
            let View::Dense(view) = linear.view() else { unreachable!("the matrix is plain") };
            for kernels in tiers() {
                let mut out = [0.0; 2];
                kernels.gemv_dense(&view, 1..3, &x, &mut out);
                let what = format!("{} {dtype:?} {cols}", kernels.tier());
                assert_close(&what, &out, &expected[1..], 1e-5);
            }
        }
    }
}

/// What is quantised comes back within half a step; NaN and infinities are not lost.
#[test]
fn quantisation_rounds_to_the_nearest_step() {
    let mut noise = Noise(5);
    let x = noise.numbers(192);
    for kernels in tiers() {
        for (bits, group) in [(4, 64), (4, 32), (8, 64), (8, 128)] {
            let (linear, _) = affine(&mut noise, 1, 384, bits, group, Dtype::F32);
            let layout = linear.layout(Product::Vector).expect("a layout");
            let rows = quantized(kernels, layout, &x);
            let row = rows.row(0);
            for (unit, x) in x.chunks_exact(layout.unit).enumerate() {
                let step = row.scales[unit];
                let top = x.iter().fold(0.0f32, |top, x| top.max(x.abs()));
                assert!((step - top / 127.0).abs() < 1e-7);
                let exact: f32 = x.iter().sum();
                assert!((row.sums[unit] - exact).abs() <= step * layout.unit as f32 / 2.0);
            }
            for bad in [f32::NAN, f32::INFINITY] {
                let mut x = x.clone();
                x[70] = bad;
                let rows = quantized(kernels, layout, &x);
                assert!(rows.row(0).scales[70 / layout.unit].is_nan());
                assert!(rows.row(0).scales[0].is_finite());
            }
            assert_eq!(quantized(kernels, layout, &[0.0; 64]).row(0).scales[0], 0.0);
        }
    }
}
