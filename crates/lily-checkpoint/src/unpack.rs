//! Reading packed codes and single rows: what the format means, not how to compute fast.

use crate::{AffineMatrix, Bits, DenseMatrix, Dtype, Matrix, TensorData};

/// Unpacks codes that lie one after another, low bits first, in little-endian words of any width: the first code is the
/// lowest `bits` of the first byte. With 3, 5 and 6 bits codes straddle bytes and words. Writes `out.len()` codes.
///
/// # Panics
/// If `packed` is shorter than `out.len() * bits / 8` bytes, rounded up.
pub fn unpack_codes(bits: Bits, packed: &[u8], out: &mut [u8]) {
    let width = bits.get();
    assert!(
        packed.len() >= (out.len() * width).div_ceil(8),
        "{} bytes for {} codes",
        packed.len(),
        out.len()
    );
    let mask = (1_u64 << width) - 1;
    // Eight codes take exactly `width` bytes, at most eight.
    for (codes, bytes) in out.chunks_mut(8).zip(packed.chunks(width)) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let mut word = u64::from_le_bytes(word);
        for code in codes {
            *code = (word & mask) as u8;
            word >>= width;
        }
    }
}

impl TensorData {
    /// Element `index` widened to f32, read at any alignment.
    ///
    /// # Panics
    /// If the tensor holds packed codes or has no such element.
    pub fn get_f32(&self, index: usize) -> f32 {
        read_f32(self.dtype, &self.bytes, index)
    }
}

fn read_f32(dtype: Dtype, bytes: &[u8], index: usize) -> f32 {
    let element = &bytes[index * dtype.size()..][..dtype.size()];
    match (dtype, element) {
        (Dtype::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (Dtype::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f32(),
        (Dtype::Bf16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f32(),
        _ => panic!("packed codes have no f32 value of their own"),
    }
}

impl Matrix {
    /// Row `row` in f32, `out` having `cols` elements. Affine rows are `scale * code + bias`, each of the two operations
    /// rounded to f32.
    ///
    /// # Panics
    /// If there is no such row or `out` has another length.
    pub fn dequantize_row(&self, row: usize, out: &mut [f32]) {
        assert!(
            row < self.rows() && out.len() == self.cols(),
            "row {row} of {} x {}",
            self.rows(),
            self.cols()
        );
        match self {
            Self::Affine(matrix) => matrix.dequantize_row(row, out),
            Self::Dense(matrix) => matrix.widen_row(row, out),
        }
    }

    /// Bytes of one row as stored: codes, scales and biases, or plain elements.
    pub fn row_bytes(&self) -> usize {
        match self {
            Self::Affine(m) => {
                (m.codes.bytes.len() + m.scales.bytes.len() + m.biases.bytes.len()) / m.rows.max(1)
            }
            Self::Dense(m) => m.cols * m.data.dtype.size(),
        }
    }

    /// Bytes of the whole matrix as stored.
    pub fn stored_bytes(&self) -> usize {
        self.rows() * self.row_bytes()
    }
}

impl AffineMatrix {
    fn dequantize_row(&self, row: usize, out: &mut [f32]) {
        let (bits, group_size) = (self.quantization.bits, self.quantization.group_size.get());
        let group_bytes = group_size * bits.get() / 8;
        let groups = self.cols / group_size;
        let (codes, scales, biases): (&[u8], &[u8], &[u8]) =
            (&self.codes.bytes, &self.scales.bytes, &self.biases.bytes);
        let mut buffer = [0_u8; 128];
        for (index, group) in out.chunks_mut(group_size).enumerate() {
            let index = row * groups + index;
            unpack_codes(bits, &codes[index * group_bytes..][..group_bytes], &mut buffer[..group_size]);
            let scale = read_f32(self.scales.dtype, scales, index);
            let bias = read_f32(self.biases.dtype, biases, index);
            for (value, &code) in group.iter_mut().zip(&buffer) {
                *value = scale * f32::from(code) + bias;
            }
        }
    }
}

impl DenseMatrix {
    fn widen_row(&self, row: usize, out: &mut [f32]) {
        let bytes: &[u8] = &self.data.bytes;
        for (col, value) in out.iter_mut().enumerate() {
            *value = read_f32(self.data.dtype, bytes, row * self.cols + col);
        }
    }
}
