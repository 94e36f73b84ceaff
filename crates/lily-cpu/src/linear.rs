//! A weight matrix as the kernels see it: packed bytes at any alignment.

use crate::{
    CpuError,
    activations::{Layout, Order, Product},
};
use lily_checkpoint::{Bytes, Dtype, Matrix};

/// Floating-point element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloatType {
    F32,
    F16,
    Bf16,
}

impl FloatType {
    fn new(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::F32),
            Dtype::F16 => Some(Self::F16),
            Dtype::Bf16 => Some(Self::Bf16),
            Dtype::U32 => None,
        }
    }

    pub(crate) const fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Element `index` of packed little-endian elements.
    #[inline(always)]
    pub(crate) fn read(self, bytes: &[u8], index: usize) -> f32 {
        match self {
            Self::F32 => {
                let at = index * 4;
                f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            }
            Self::F16 => half::f16::from_le_bytes([bytes[index * 2], bytes[index * 2 + 1]]).to_f32(),
            Self::Bf16 => {
                f32::from_bits(u32::from(u16::from_le_bytes([bytes[index * 2], bytes[index * 2 + 1]])) << 16)
            }
        }
    }
}

/// `[rows, cols]`, owned as a share of the checkpoint's bytes.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    rows: usize,
    cols: usize,
    storage: Storage,
}

#[derive(Debug, Clone)]
enum Storage {
    Affine {
        bits: usize,
        group: usize,
        codes: Bytes,
        scales: Bytes,
        biases: Bytes,
        scale_type: FloatType,
        bias_type: FloatType,
    },
    Dense {
        dtype: FloatType,
        data: Bytes,
    },
}

/// What a kernel gets.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Affine(AffineView<'a>),
    Dense(DenseView<'a>),
}

/// An affine-quantised matrix. The slices are as long as the shape says.
#[derive(Clone, Copy)]
pub(crate) struct AffineView<'a> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) bits: usize,
    pub(crate) group: usize,
    pub(crate) codes: &'a [u8],
    pub(crate) scales: &'a [u8],
    pub(crate) biases: &'a [u8],
    pub(crate) scale_type: FloatType,
    pub(crate) bias_type: FloatType,
}

/// A plain matrix. The slice is as long as the shape says.
#[derive(Clone, Copy)]
pub(crate) struct DenseView<'a> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) dtype: FloatType,
    pub(crate) data: &'a [u8],
}

impl Linear {
    /// Takes a checkpoint's matrix after checking its bytes against its shape.
    pub(crate) fn new(matrix: &Matrix, name: &str) -> Result<Self, CpuError> {
        let wrong = |what: String| CpuError::Weights { name: name.to_owned(), what };
        let bytes = |what: &str, found: usize, wanted: usize| {
            if found == wanted {
                Ok(())
            } else {
                Err(wrong(format!("{what}: {found} bytes, {wanted} expected")))
            }
        };
        let (rows, cols) = (matrix.rows(), matrix.cols());
        let float = |dtype| {
            FloatType::new(dtype).ok_or_else(|| wrong("packed codes where numbers belong".to_owned()))
        };
        let storage = match matrix {
            Matrix::Affine(m) => {
                let (bits, group) = (m.quantization.bits.get(), m.quantization.group_size.get());
                if cols == 0 || cols % group != 0 {
                    return Err(wrong(format!("{cols} columns in groups of {group}")));
                }
                let (scale_type, bias_type) = (float(m.scales.dtype)?, float(m.biases.dtype)?);
                bytes("codes", m.codes.bytes.len(), rows * cols / 8 * bits)?;
                bytes("scales", m.scales.bytes.len(), rows * (cols / group) * scale_type.size())?;
                bytes("biases", m.biases.bytes.len(), rows * (cols / group) * bias_type.size())?;
                Storage::Affine {
                    bits,
                    group,
                    codes: m.codes.bytes.clone(),
                    scales: m.scales.bytes.clone(),
                    biases: m.biases.bytes.clone(),
                    scale_type,
                    bias_type,
                }
            }
            Matrix::Dense(m) => {
                let dtype = float(m.data.dtype)?;
                bytes("data", m.data.bytes.len(), rows * cols * dtype.size())?;
                Storage::Dense { dtype, data: m.data.bytes.clone() }
            }
        };
        Ok(Self { rows, cols, storage })
    }

    /// Output dimension.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the whole matrix.
    pub(crate) fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Affine { codes, scales, biases, .. } => codes.len() + scales.len() + biases.len(),
            Storage::Dense { data, .. } => data.len(),
        }
    }

    /// The runs of bytes that it consists of.
    pub(crate) fn parts_mut(&mut self) -> impl Iterator<Item = &mut Bytes> {
        let parts = match &mut self.storage {
            Storage::Affine { codes, scales, biases, .. } => [Some(codes), Some(scales), Some(biases)],
            Storage::Dense { data, .. } => [Some(data), None, None],
        };
        parts.into_iter().flatten()
    }

    /// How 8-bit activations must be laid out for this matrix; `None` for plain rows, which take f32.
    pub(crate) fn layout(&self, product: Product) -> Option<Layout> {
        match self.view() {
            View::Affine(view) => Some(view.layout(product)),
            View::Dense(_) => None,
        }
    }

    /// The bytes, borrowed.
    pub(crate) fn view(&self) -> View<'_> {
        match &self.storage {
            Storage::Affine { bits, group, codes, scales, biases, scale_type, bias_type } => {
                View::Affine(AffineView {
                    rows: self.rows,
                    cols: self.cols,
                    bits: *bits,
                    group: *group,
                    codes,
                    scales,
                    biases,
                    scale_type: *scale_type,
                    bias_type: *bias_type,
                })
            }
            Storage::Dense { dtype, data } => {
                View::Dense(DenseView { rows: self.rows, cols: self.cols, dtype: *dtype, data })
            }
        }
    }
}

impl View<'_> {
    /// Output dimension.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Affine(w) => w.rows,
            Self::Dense(w) => w.rows,
        }
    }

    /// Input dimension.
    #[inline(always)]
    pub(crate) fn cols(&self) -> usize {
        match self {
            Self::Affine(w) => w.cols,
            Self::Dense(w) => w.cols,
        }
    }
}

impl AffineView<'_> {
    /// How 8-bit activations must be laid out.
    #[inline(always)]
    pub(crate) fn layout(&self, product: Product) -> Layout {
        let unit = self.group.min(64);
        let order = match (self.bits, product) {
            (4, Product::Vector) => Order::Split(128),
            (4, Product::Matrix) => Order::Split(unit),
            _ => Order::Natural,
        };
        Layout { order, unit }
    }

    /// Bytes of codes per row.
    #[inline(always)]
    pub(crate) fn row_bytes(&self) -> usize {
        self.cols / 8 * self.bits
    }

    /// Where the codes of `row` from `column` (a multiple of 8) on begin.
    #[inline(always)]
    pub(crate) fn code_ptr(&self, row: usize, column: usize) -> *const u8 {
        self.codes[row * self.row_bytes() + column / 8 * self.bits..].as_ptr()
    }

    /// The scale of a group.
    #[inline(always)]
    pub(crate) fn scale(&self, row: usize, group: usize) -> f32 {
        self.scale_type.read(self.scales, row * (self.cols / self.group) + group)
    }

    /// The bias of a group.
    #[inline(always)]
    pub(crate) fn bias(&self, row: usize, group: usize) -> f32 {
        self.bias_type.read(self.biases, row * (self.cols / self.group) + group)
    }
}

impl DenseView<'_> {
    /// Where `row` begins.
    #[inline(always)]
    pub(crate) fn row_ptr(&self, row: usize) -> *const u8 {
        self.data[row * self.cols * self.dtype.size()..][..self.cols * self.dtype.size()].as_ptr()
    }

    /// One element.
    #[inline(always)]
    pub(crate) fn element(&self, row: usize, column: usize) -> f32 {
        self.dtype.read(self.data, row * self.cols + column)
    }
}
