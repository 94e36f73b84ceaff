//! MLX affine dequantisation.

/// Writes one row: `out[i] = scales[i / group] * code[i] + biases[i / group]`, product and sum rounded apart.
///
/// `codes` holds `out.len()` codes of `bits` bits (1 to 8) as one stream of bits, low bits first: code `i` is bits
/// `i * bits ..(i + 1) * bits`, and little-endian u32 words give the same stream as their bytes.
///
/// # Panics
/// If a slice is too short for `out`.
pub fn dequantize_row(
    codes: &[u8],
    bits: usize,
    group: usize,
    scales: &[f32],
    biases: &[f32],
    out: &mut [f32],
) {
    assert!((1..=8).contains(&bits), "codes of {bits} bits");
    assert!(
        codes.len() * 8 >= out.len() * bits,
        "{} bytes for {} codes of {bits} bits",
        codes.len(),
        out.len()
    );
    for (g, out) in out.chunks_mut(group).enumerate() {
        let (scale, bias, first) = (scales[g], biases[g], g * group);
        match bits {
            4 if group.is_multiple_of(2) => {
                for (pair, byte) in out.chunks_mut(2).zip(&codes[first / 2..]) {
                    pair[0] = scale * f32::from(byte & 15) + bias;
                    if let Some(high) = pair.get_mut(1) {
                        *high = scale * f32::from(byte >> 4) + bias;
                    }
                }
            }
            _ => {
                for (i, w) in out.iter_mut().enumerate() {
                    *w = scale * f32::from(code(codes, bits, first + i)) + bias;
                }
            }
        }
    }
}

/// Code `index` of the stream.
fn code(codes: &[u8], bits: usize, index: usize) -> u8 {
    let first = index * bits;
    let (low, high) = (codes[first / 8], codes.get(first / 8 + 1).copied().unwrap_or(0));
    let window = u16::from_le_bytes([low, high]) >> (first % 8);
    (window & ((1 << bits) - 1)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs codes the way the definition says: bit `b` of code `i` is bit `i * bits + b` of the stream.
    fn pack(codes: &[u8], bits: usize) -> Vec<u8> {
        let mut stream = vec![0_u8; (codes.len() * bits).div_ceil(32) * 4];
        for (i, code) in codes.iter().enumerate() {
            for b in 0..bits {
                let at = i * bits + b;
                stream[at / 8] |= (code >> b & 1) << (at % 8);
            }
        }
        stream
    }

    #[test]
    fn every_width_and_group() {
        for bits in [2, 3, 4, 5, 6, 8] {
            for group in [32, 64, 128] {
                let cols = 2 * group;
                let codes: Vec<u8> = (0..cols).map(|i| ((i * 37 + i / 5) % (1 << bits)) as u8).collect();
                let (scales, biases) = ([0.5, -0.25], [-3.0, 1.0]);
                let mut out = vec![f32::NAN; cols];
                dequantize_row(&pack(&codes, bits), bits, group, &scales, &biases, &mut out);
                for i in 0..cols {
                    let want = scales[i / group] * f32::from(codes[i]) + biases[i / group];
                    assert_eq!(out[i], want, "{bits} bits, group {group}, element {i}");
                }
            }
        }
    }

    #[test]
    fn a_word_is_read_low_bits_first() {
        let mut out = [0.0; 8];
        dequantize_row(&0x7654_3210_u32.to_le_bytes(), 4, 32, &[1.0], &[0.0], &mut out);
        assert_eq!(out, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    }
}
