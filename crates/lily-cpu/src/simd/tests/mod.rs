//! Every kernel of every tier against the plain reference.

mod attention;
mod elementwise;
mod gdn;
mod gemv;

use super::{Kernels, Tier};
use crate::linear::Linear;
use half::{bf16, f16};
use lily_checkpoint::{
    AffineMatrix, Bits, Bytes, DenseMatrix, Dtype, GroupSize, Matrix, Quantization, TensorData,
};

/// The tables of all tiers that this machine has.
fn tiers() -> impl Iterator<Item = &'static Kernels> {
    Tier::available().into_iter().filter_map(Kernels::for_tier)
}

/// `LILY_EXPECT_TIERS` names the tiers that this machine should have, so that a run meant to cover one cannot miss it.
#[test]
fn the_expected_tiers_are_there() {
    let found: Vec<&str> = tiers().map(|kernels| kernels.tier().name()).collect();
    eprintln!("tiers tested: {}", found.join(" "));
    let Ok(expected) = std::env::var("LILY_EXPECT_TIERS") else { return };
    for tier in expected.split_whitespace() {
        assert!(found.contains(&tier), "{tier} is not among {found:?}");
    }
}

/// A small generator of repeatable noise.
struct Noise(u64);

impl Noise {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// Uniform in -1..1.
    fn number(&mut self) -> f32 {
        self.bits() as f32 / (1u32 << 30) as f32 - 1.0
    }

    fn numbers(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.number()).collect()
    }
}

/// Bytes at an odd address: an aligned load somewhere would be found.
fn shifted(bytes: Vec<u8>) -> Bytes {
    let mut all = vec![0xee];
    all.extend(bytes);
    let end = all.len();
    Bytes::new(all).slice(1..end)
}

/// A float tensor and the values it holds after rounding.
fn floats(dtype: Dtype, shape: &[usize], values: &[f32]) -> (TensorData, Vec<f32>) {
    let bytes: Vec<u8> = match dtype {
        Dtype::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
    };
    let tensor = TensorData { dtype, shape: shape.to_vec(), bytes: shifted(bytes) };
    let values = tensor.to_f32();
    (tensor, values)
}

/// A random quantised matrix, as the kernels and as the reference have it (row-major f32).
fn affine(
    noise: &mut Noise,
    rows: usize,
    cols: usize,
    bits: usize,
    group: usize,
    dtype: Dtype,
) -> (Linear, Vec<f32>) {
    let codes: Vec<u8> = (0..rows * cols / 8 * bits).map(|_| (noise.bits() >> 7) as u8).collect();
    let groups = cols / group;
    let unit = 1.0 / (1 << bits) as f32;
    let scales: Vec<f32> = noise.numbers(rows * groups).iter().map(|s| s * unit).collect();
    let biases = noise.numbers(rows * groups);
    let (scales, scale_values) = floats(dtype, &[rows, groups], &scales);
    let (biases, bias_values) = floats(dtype, &[rows, groups], &biases);
    let mut values = vec![0.0; rows * cols];
    for (row, out) in values.chunks_exact_mut(cols).enumerate() {
        lily_kernels::reference::dequantize_row(
            &codes[row * cols / 8 * bits..],
            bits,
            group,
            &scale_values[row * groups..],
            &bias_values[row * groups..],
            out,
        );
    }
    let matrix = Matrix::Affine(AffineMatrix {
        rows,
        cols,
        quantization: Quantization {
            bits: Bits::new(bits as u8).expect("a width"),
            group_size: GroupSize::new(group).expect("a group size"),
        },
        codes: TensorData { dtype: Dtype::U32, shape: vec![rows, cols * bits / 32], bytes: shifted(codes) },
        scales,
        biases,
    });
    (Linear::new(&matrix, "test").expect("shapes fit"), values)
}

/// A random plain matrix, both ways.
fn dense(noise: &mut Noise, rows: usize, cols: usize, dtype: Dtype) -> (Linear, Vec<f32>) {
    let (data, values) = floats(dtype, &[rows, cols], &noise.numbers(rows * cols));
    let matrix = Matrix::Dense(DenseMatrix { rows, cols, data });
    (Linear::new(&matrix, "test").expect("shapes fit"), values)
}

/// `matrix [rows, x.len()] * x` by the reference.
fn product(matrix: &[f32], x: &[f32]) -> Vec<f32> {
    let rows = lily_kernels::reference::Rows::new(matrix.len() / x.len(), x.len(), matrix.to_vec());
    lily_kernels::reference::linear(&rows, x)
}

/// Fails unless all values agree to `tolerance` of the largest magnitude.
fn assert_close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1e-3f32, |top, value| top.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / largest;
        assert!(error <= tolerance, "{what}: element {index} is {found}, the reference says {expected}");
    }
}
