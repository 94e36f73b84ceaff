//! A checkpoint's matrix as the reference reads it.

use half::{bf16, f16};
use lily_checkpoint::{Dtype, Matrix, TensorData};
use lily_kernels::reference::{RowSource, dequantize_row};
use std::ops::Range;

/// Hands out rows of a checkpoint's matrix, dequantised or widened to f32 as they are asked for.
#[derive(Debug, Clone)]
pub struct MatrixRows(pub Matrix);

impl RowSource for MatrixRows {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn cols(&self) -> usize {
        self.0.cols()
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        match &self.0 {
            Matrix::Affine(m) => {
                let (bits, group) = (m.quantization.bits.get(), m.quantization.group_size.get());
                let (bytes, groups) = (m.cols * bits / 8, m.cols / group);
                let mut scales = vec![0.0; groups];
                let mut biases = vec![0.0; groups];
                widen(&m.scales, row * groups..(row + 1) * groups, &mut scales);
                widen(&m.biases, row * groups..(row + 1) * groups, &mut biases);
                let codes = &m.codes.bytes[row * bytes..(row + 1) * bytes];
                dequantize_row(codes, bits, group, &scales, &biases, out);
            }
            Matrix::Dense(m) => widen(&m.data, row * m.cols..(row + 1) * m.cols, out),
        }
    }
}

/// Elements `range` of a floating-point tensor, which lies at any alignment.
fn widen(tensor: &TensorData, range: Range<usize>, out: &mut [f32]) {
    let size = tensor.dtype.size();
    let elements = tensor.bytes[range.start * size..range.end * size].chunks_exact(size).zip(out);
    match tensor.dtype {
        Dtype::F32 => elements.for_each(|(b, x)| *x = f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        Dtype::F16 => elements.for_each(|(b, x)| *x = f16::from_le_bytes([b[0], b[1]]).to_f32()),
        Dtype::Bf16 => elements.for_each(|(b, x)| *x = bf16::from_le_bytes([b[0], b[1]]).to_f32()),
        Dtype::U32 => unreachable!("a checkpoint's scales, biases and dense rows are floating point"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lily_checkpoint::{AffineMatrix, Bits, Bytes, DenseMatrix, GroupSize, Quantization};

    fn tensor(dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> TensorData {
        // One byte off, so that an aligned read somewhere would be found.
        let mut shifted = vec![0xff];
        shifted.extend(bytes);
        let end = shifted.len();
        TensorData { dtype, shape: shape.to_vec(), bytes: Bytes::new(shifted).slice(1..end) }
    }

    fn bf16s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect()
    }

    #[test]
    fn affine_rows() {
        // Two rows of 64 four-bit codes, two groups of 32 each.
        let codes: Vec<u8> = (0..64).map(|i| if i < 32 { 0x21 } else { 0x43 }).collect();
        let rows = MatrixRows(Matrix::Affine(AffineMatrix {
            rows: 2,
            cols: 64,
            quantization: Quantization {
                bits: Bits::new(4).expect("a width"),
                group_size: GroupSize::new(32).expect("a group"),
            },
            codes: tensor(Dtype::U32, &[2, 8], codes),
            scales: tensor(Dtype::Bf16, &[2, 2], bf16s(&[1.0, 2.0, -1.0, 0.5])),
            biases: tensor(
                Dtype::F32,
                &[2, 2],
                [0.0_f32, 10.0, 20.0, 30.0].iter().flat_map(|v| v.to_le_bytes()).collect(),
            ),
        }));
        let mut out = [0.0; 64];
        rows.row(0, &mut out);
        assert_eq!((out[0], out[1], out[32], out[63]), (1.0, 2.0, 12.0, 14.0));
        rows.row(1, &mut out);
        assert_eq!((out[0], out[1], out[32], out[63]), (17.0, 16.0, 31.5, 32.0));
    }

    #[test]
    fn dense_rows_of_every_type() {
        let values = [1.0_f32, -2.0, 0.5, 3.0, 4.0, -0.25];
        let f16s = values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect();
        let f32s = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        for (dtype, bytes) in [(Dtype::Bf16, bf16s(&values)), (Dtype::F16, f16s), (Dtype::F32, f32s)] {
            let data = tensor(dtype, &[2, 3], bytes);
            let mut out = [0.0; 3];
            MatrixRows(Matrix::Dense(DenseMatrix { rows: 2, cols: 3, data })).row(1, &mut out);
            assert_eq!(out, values[3..], "{dtype:?}");
        }
    }
}
