//! What kernel tests share, wherever the kernels run: numbers, quantised matrices, buffers, arguments of a launch.

use lily_kernels::reference::{Rows, dequantize_row};
use lily_kernels::{Launch, ScalarType, Signature};

/// The same numbers every time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2) | 1)
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// In [-1, 1).
    pub(crate) fn float(&mut self) -> f32 {
        (self.word() >> 8) as f32 / (1_u32 << 23) as f32 - 1.0
    }

    pub(crate) fn vec(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| scale * self.float()).collect()
    }

    /// Gains of a norm: around 1.
    pub(crate) fn gain(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| 1.0 + 0.3 * self.float()).collect()
    }
}

/// Rounds to bf16, to nearest even.
pub(crate) fn bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

pub(crate) fn from_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// Memory for a kernel. The allocator aligns it to 16 bytes; the emulator would refuse anything else.
#[derive(Clone)]
pub(crate) struct Buffer(pub(super) Vec<u8>);

impl Buffer {
    pub(crate) fn zeros(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    /// For outputs: NaN everywhere, so that what is not written shows.
    pub(crate) fn floats(len: usize) -> Self {
        Self::f32(&vec![f32::NAN; len])
    }

    pub(crate) fn f32(values: &[f32]) -> Self {
        Self(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    pub(crate) fn u32(values: &[u32]) -> Self {
        Self(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    pub(crate) fn u16(values: &[u16]) -> Self {
        Self(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Rounded to bf16.
    pub(crate) fn bf16(values: &[f32]) -> Self {
        Self::u16(&values.iter().map(|&value| bf16(value)).collect::<Vec<u16>>())
    }

    pub(crate) fn to_f32(&self) -> Vec<f32> {
        self.to_u32().into_iter().map(f32::from_bits).collect()
    }

    pub(crate) fn to_u32(&self) -> Vec<u32> {
        let word = |chunk: &[u8]| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        self.0.chunks_exact(4).map(word).collect()
    }

    pub(crate) fn to_u16(&self) -> Vec<u16> {
        self.0.chunks_exact(2).map(|chunk| u16::from_le_bytes([chunk[0], chunk[1]])).collect()
    }
}

/// A parameter of a launch.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    U(usize),
    F(f32),
}

/// Buffers in the order of a kernel's bindings, given by their names.
pub(super) fn in_order<'a>(
    signature: &Signature,
    buffers: &'a mut [(&str, &mut Buffer)],
) -> Vec<&'a mut [u8]> {
    let (entry, bindings) = (&signature.entry, &signature.bindings);
    let mut ordered: Vec<Option<&mut [u8]>> = bindings.iter().map(|_| None).collect();
    assert_eq!(buffers.len(), ordered.len(), "{entry} takes {bindings:?}");
    for (name, buffer) in buffers.iter_mut() {
        let at = bindings.iter().position(|binding| binding.name == *name);
        ordered[at.unwrap_or_else(|| panic!("{entry} has no `{name}`"))] = Some(buffer.0.as_mut_slice());
    }
    ordered.into_iter().map(|buffer| buffer.expect("bound once each")).collect()
}

/// The grid is the one that the kernel's text says: what a test runs, a plan may launch.
pub(super) fn check_grid(signature: &Signature, groups: [u32; 3], params: &[u8], buffers: &[&mut [u8]]) {
    let Some(grid) = &signature.grid else { return };
    let elements: Vec<u64> = buffers
        .iter()
        .zip(&signature.bindings)
        .map(|(bytes, binding)| bytes.len() as u64 / u64::from(binding.element_bytes))
        .collect();
    let launch = Launch { groups, params, elements: &elements, context: None };
    let wanted = grid.groups(&launch).unwrap_or_else(|error| panic!("{}: {error}", signature.entry));
    for (wanted, found) in wanted.into_iter().zip(groups) {
        assert!(
            wanted.is_none_or(|wanted| wanted == u64::from(found)),
            "{} over {groups:?} threadgroups: its `// grid` line says {wanted:?}",
            signature.entry
        );
    }
}

/// The bytes of a parameter block, its fields given by their names.
pub(super) fn param_bytes(signature: &Signature, params: &[(&str, Value)]) -> Vec<u8> {
    let fields = signature.params.as_ref().map(|params| params.fields.as_slice()).unwrap_or_default();
    assert_eq!(fields.len(), params.len(), "{} takes {fields:?}", signature.entry);
    let mut bytes = Vec::new();
    for (field, scalar) in fields {
        let (_, value) =
            params.iter().find(|(name, _)| name == field).unwrap_or_else(|| panic!("no `{field}`"));
        match (scalar, value) {
            (ScalarType::Float, Value::F(value)) => bytes.extend(value.to_le_bytes()),
            (ScalarType::Uint | ScalarType::Int, Value::U(value)) => {
                bytes.extend((*value as u32).to_le_bytes());
            }
            _ => panic!("`{field}` has another type"),
        }
    }
    bytes
}

/// A random quantised matrix (bits 16: bf16) in the three buffers of a kernel, and its values.
pub(crate) struct Quantised {
    pub(crate) codes: Buffer,
    pub(crate) scales: Buffer,
    pub(crate) biases: Buffer,
    pub(crate) values: Vec<f32>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl Quantised {
    pub(crate) fn new(random: &mut Random, rows: usize, cols: usize, bits: usize, group: usize) -> Self {
        let size = (3.0 / cols as f32).sqrt();
        if bits == 16 {
            let words: Vec<u16> = (0..rows * cols).map(|_| bf16(size * random.float())).collect();
            let values = words.iter().map(|&word| from_bf16(word)).collect();
            let none = Buffer::u16(&[0]);
            return Self {
                codes: Buffer::u16(&words),
                scales: none.clone(),
                biases: none,
                values,
                rows,
                cols,
            };
        }
        let codes: Vec<u32> = (0..rows * cols * bits / 32).map(|_| random.word()).collect();
        let levels = (1_usize << bits) as f32 - 1.0;
        let groups = rows * cols / group;
        let scales: Vec<u16> =
            (0..groups).map(|_| bf16(2.0 * size / levels * (0.75 + 0.25 * random.float()))).collect();
        let biases: Vec<u16> = (0..groups).map(|_| bf16(size * (-1.0 + 0.2 * random.float()))).collect();
        let bytes: Vec<u8> = codes.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut values = vec![0.0; rows * cols];
        let widened = |words: &[u16]| words.iter().map(|&word| from_bf16(word)).collect::<Vec<f32>>();
        let (row_bytes, row_groups) = (cols * bits / 8, cols / group);
        for (row, values) in values.chunks_exact_mut(cols).enumerate() {
            let groups = row * row_groups..(row + 1) * row_groups;
            let row_codes = &bytes[row * row_bytes..(row + 1) * row_bytes];
            dequantize_row(
                row_codes,
                bits,
                group,
                &widened(&scales[groups.clone()]),
                &widened(&biases[groups]),
                values,
            );
        }
        Self {
            codes: Buffer::u32(&codes),
            scales: Buffer::u16(&scales),
            biases: Buffer::u16(&biases),
            values,
            rows,
            cols,
        }
    }

    /// The matrix as the reference takes it.
    pub(crate) fn dense(&self) -> Rows {
        Rows::new(self.rows, self.cols, self.values.clone())
    }

    /// Rows `from` to `to`, as the reference takes them.
    pub(crate) fn slice(&self, from: usize, to: usize) -> Rows {
        Rows::new(to - from, self.cols, self.values[from * self.cols..to * self.cols].to_vec())
    }
}

/// Root of the squared error over the squared size of what is wanted; NaN if anything is.
pub(crate) fn distance(found: &[f32], wanted: &[f32]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let (mut error, mut size) = (0.0, 0.0);
    for (&found, &wanted) in found.iter().zip(wanted) {
        error += (f64::from(found) - f64::from(wanted)).powi(2);
        size += f64::from(wanted).powi(2);
    }
    (error / size.max(1e-30)).sqrt()
}

#[track_caller]
pub(crate) fn assert_close(found: &[f32], wanted: &[f32], bound: f64, what: &str) {
    let distance = distance(found, wanted);
    assert!(distance <= bound, "{what}: distance {distance:.2e}, at most {bound:.0e} wanted");
}
