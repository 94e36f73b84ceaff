//! Rows of activations, as f32 and quantised to 8 bits.

use crate::simd::Kernels;

/// The order of a quantised row's codes: that in which a kernel meets the weights' codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// As the columns are.
    Natural,
    /// Per block of so many columns (the last may be short) the even ones, then the odd ones: two 4-bit codes share a
    /// byte, and masking or shifting a run of bytes gives just these.
    Split(usize),
}

/// How a matrix is multiplied: what the order of codes depends on besides their width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// With single vectors.
    Vector,
    /// With many at a time.
    Matrix,
}

/// How a row is quantised for a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    /// Order of the codes.
    pub order: Order,
    /// Columns that share a scale: 32 or 64, a divisor of the matrix's group.
    pub unit: usize,
}

/// Bytes after the codes of a row, so that kernels may load whole vectors.
const PADDING: usize = 64;

/// Rows quantised in one layout.
#[derive(Debug)]
pub(crate) struct QuantRows {
    layout: Layout,
    cols: usize,
    code_stride: usize,
    unit_stride: usize,
    codes: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<f32>,
}

/// One quantised row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantRow<'a> {
    /// Its layout.
    pub layout: Layout,
    /// Columns.
    pub cols: usize,
    /// Codes in the layout's order, then padding of zeros.
    pub codes: &'a [i8],
    /// Per unit; padded with zeros to a multiple of 16.
    pub scales: &'a [f32],
    /// Per unit the sum of the quantised values; padded likewise.
    pub sums: &'a [f32],
}

/// All rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantMatrix<'a> {
    /// Layout of all rows.
    pub layout: Layout,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// All codes.
    pub codes: &'a [i8],
    /// Codes from row to row.
    pub code_stride: usize,
    /// Per unit.
    pub scales: &'a [f32],
    /// Per unit.
    pub sums: &'a [f32],
    /// Scales and sums from row to row.
    pub unit_stride: usize,
}

/// One quantised row to be written.
pub(crate) struct QuantRowMut<'a> {
    layout: Layout,
    codes: &'a mut [i8],
    scales: &'a mut [f32],
    sums: &'a mut [f32],
}

impl QuantRows {
    /// `rows` rows of `cols` columns (a multiple of `layout.unit`).
    pub(crate) fn new(layout: Layout, rows: usize, cols: usize) -> Self {
        assert!(cols.is_multiple_of(layout.unit), "{cols} columns in units of {}", layout.unit);
        let code_stride = cols.next_multiple_of(64) + PADDING;
        let unit_stride = (cols / layout.unit).next_multiple_of(16);
        Self {
            layout,
            cols,
            code_stride,
            unit_stride,
            codes: vec![0; rows * code_stride],
            scales: vec![0.0; rows * unit_stride],
            sums: vec![0.0; rows * unit_stride],
        }
    }

    /// Empty rows of the same layout and width.
    pub(crate) fn like(&self, rows: usize) -> Self {
        Self::new(self.layout, rows, self.cols)
    }

    /// Makes these the given rows of `from`, one after the other.
    pub(crate) fn copy_rows(&mut self, from: &Self, rows: &[u32]) {
        let shape = |rows: &Self| (rows.layout, rows.cols);
        if shape(self) != shape(from) || self.scales.len() < rows.len() * self.unit_stride {
            *self = from.like(rows.len());
        }
        let (codes, units) = (self.code_stride, self.unit_stride);
        for (at, &row) in rows.iter().enumerate() {
            let row = row as usize;
            self.codes[at * codes..][..codes].copy_from_slice(&from.codes[row * codes..][..codes]);
            self.scales[at * units..][..units].copy_from_slice(&from.scales[row * units..][..units]);
            self.sums[at * units..][..units].copy_from_slice(&from.sums[row * units..][..units]);
        }
    }

    /// The layout of all rows.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// All rows.
    pub(crate) fn matrix(&self) -> QuantMatrix<'_> {
        QuantMatrix {
            layout: self.layout,
            rows: self.scales.len() / self.unit_stride,
            cols: self.cols,
            codes: &self.codes,
            code_stride: self.code_stride,
            scales: &self.scales,
            sums: &self.sums,
            unit_stride: self.unit_stride,
        }
    }

    /// Row `row`.
    pub(crate) fn row(&self, row: usize) -> QuantRow<'_> {
        QuantRow {
            layout: self.layout,
            cols: self.cols,
            codes: &self.codes[row * self.code_stride..][..self.code_stride],
            scales: &self.scales[row * self.unit_stride..][..self.unit_stride],
            sums: &self.sums[row * self.unit_stride..][..self.unit_stride],
        }
    }

    /// Row `row`, to be written.
    pub(crate) fn row_mut(&mut self, row: usize) -> QuantRowMut<'_> {
        QuantRowMut {
            layout: self.layout,
            codes: &mut self.codes[row * self.code_stride..][..self.code_stride],
            scales: &mut self.scales[row * self.unit_stride..][..self.unit_stride],
            sums: &mut self.sums[row * self.unit_stride..][..self.unit_stride],
        }
    }

    /// All rows' codes, scales and sums with their strides, for a region in which each task writes rows of its own.
    pub(crate) fn raw_mut(&mut self) -> RawRows<'_> {
        RawRows {
            layout: self.layout,
            code_stride: self.code_stride,
            unit_stride: self.unit_stride,
            codes: &mut self.codes,
            scales: &mut self.scales,
            sums: &mut self.sums,
        }
    }
}

/// The parts of [`QuantRows`].
pub(crate) struct RawRows<'a> {
    /// Layout of all rows.
    pub layout: Layout,
    /// Codes from row to row.
    pub code_stride: usize,
    /// Scales and sums from row to row.
    pub unit_stride: usize,
    /// All codes.
    pub codes: &'a mut [i8],
    /// All scales.
    pub scales: &'a mut [f32],
    /// All sums.
    pub sums: &'a mut [f32],
}

impl QuantRowMut<'_> {
    /// Fills the row.
    pub(crate) fn quantize(&mut self, kernels: &Kernels, x: &[f32]) {
        kernels.quantize(x, self.layout, self.codes, self.scales, self.sums);
    }
}
