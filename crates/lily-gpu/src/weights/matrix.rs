//! Matrices on the device.

use crate::View;
use std::ops::Range;

/// Element type of scales, biases and plain rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// bfloat16.
    Bf16,
    /// IEEE half.
    F16,
    /// Single precision.
    F32,
}

impl Element {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// How the rows of a matrix are stored: what kernels are specialised by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    /// Bits per code; 16: plain rows, no scales and no biases.
    pub bits: u32,
    /// Columns per scale and bias; 0 for plain rows.
    pub group: u32,
    /// Of scales and biases, or of plain rows.
    pub element: Element,
}

impl Format {
    /// Plain bf16 rows.
    pub const PLAIN: Self = Self { bits: 16, group: 0, element: Element::Bf16 };

    /// True for rows without scales.
    pub fn is_plain(self) -> bool {
        self.bits == 16
    }

    /// Bytes of the codes (or elements) of a row.
    pub fn code_bytes(self, cols: usize) -> usize {
        cols * self.bits as usize / 8
    }

    /// Bytes of the scales of a row, and as many of its biases.
    pub fn scale_bytes(self, cols: usize) -> usize {
        if self.is_plain() { 0 } else { cols / self.group as usize * self.element.bytes() }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_plain() {
            write!(f, "plain {:?}", self.element)
        } else {
            write!(f, "{}-bit in groups of {}, {:?} scales", self.bits, self.group, self.element)
        }
    }
}

/// `[rows, cols]`, rows contiguous.
#[derive(Debug, Clone)]
pub struct MatrixView {
    /// Output dimension.
    pub rows: usize,
    /// Input dimension.
    pub cols: usize,
    /// How it is stored.
    pub format: Format,
    /// `u32 [rows, cols * bits / 32]`, or plain elements.
    pub codes: View,
    /// `[rows, cols / group]`. Of a plain matrix the codes again, so that there is something to bind.
    pub scales: View,
    /// As the scales.
    pub biases: View,
}

impl MatrixView {
    /// Some of the rows.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let part = |view: &View, row_bytes: usize| view.slice(rows.start * row_bytes, rows.len() * row_bytes);
        let codes = part(&self.codes, self.format.code_bytes(self.cols));
        let scale_bytes = self.format.scale_bytes(self.cols);
        let (scales, biases) = if self.format.is_plain() {
            (codes.clone(), codes.clone())
        } else {
            (part(&self.scales, scale_bytes), part(&self.biases, scale_bytes))
        };
        Self { rows: rows.len(), codes, scales, biases, ..*self }
    }

    /// Bytes of one row, scales and biases included.
    pub fn row_bytes(&self) -> usize {
        self.format.code_bytes(self.cols) + 2 * self.format.scale_bytes(self.cols)
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.rows * self.row_bytes()
    }
}

/// Matrices that one launch reads together: their outputs follow each other.
#[derive(Debug, Clone)]
pub struct MatrixGroup {
    /// Outputs of all.
    pub rows: usize,
    /// Input dimension.
    pub cols: usize,
    /// Runs of matrices of one format, as one matrix each, with the first of their rows. One run is the usual case and
    /// one launch; more is another route, one launch each, that is logged at load.
    pub segments: Vec<(usize, MatrixView)>,
    /// First row of each matrix in the order of the group, and the end.
    pub borders: Vec<usize>,
}

impl MatrixGroup {
    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|(_, matrix)| matrix.bytes()).sum()
    }

    /// The group as one matrix, if it is of one format.
    pub fn single(&self) -> Option<&MatrixView> {
        match self.segments.as_slice() {
            [(_, matrix)] => Some(matrix),
            _ => None,
        }
    }
}
