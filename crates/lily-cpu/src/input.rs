//! The input of linear layers: rows of activations in every form that the layers' matrices take.

use crate::{
    Precision,
    activations::{Layout, QuantRows},
    linear::{Linear, View},
    machine::Machine,
    pool::Chunks,
    simd::Kernels,
    state::zeros,
};
use lily_engine::BackendError;
use std::ops::Range;

/// Columns of a block in which 4-bit codes are split, see [`crate::activations::Order`].
const SPLIT: usize = 128;

/// Which forms of a row the matrices behind an input need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forms {
    rounded: bool,
    layouts: Vec<Layout>,
}

impl Forms {
    /// Those that `linears` need at `precision`.
    pub(crate) fn of<'a>(precision: Precision, linears: impl IntoIterator<Item = &'a Linear>) -> Self {
        let mut forms = Self { rounded: precision == Precision::Bf16, layouts: Vec::new() };
        if precision == Precision::Int8 {
            for layout in linears.into_iter().filter_map(|linear| linear.layout(SPLIT)) {
                if !forms.layouts.contains(&layout) {
                    forms.layouts.push(layout);
                }
            }
        }
        forms
    }

    /// Adds what another set needs.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.rounded |= other.rounded;
        for layout in &other.layouts {
            if !self.layouts.contains(layout) {
                self.layouts.push(*layout);
            }
        }
    }
}

/// Rows of one width.
#[derive(Debug)]
pub(crate) struct Input {
    cols: usize,
    exact: Vec<f32>,
    rounded: Option<Vec<f32>>,
    quantized: Vec<QuantRows>,
}

impl Input {
    /// `rows` rows of `cols` columns.
    pub(crate) fn new(rows: usize, cols: usize, forms: &Forms) -> Result<Self, BackendError> {
        Ok(Self {
            cols,
            exact: zeros(rows * cols)?,
            rounded: if forms.rounded { Some(zeros(rows * cols)?) } else { None },
            quantized: forms.layouts.iter().map(|&layout| QuantRows::new(layout, rows, cols)).collect(),
        })
    }

    /// Columns.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// The f32 rows from the first on, to be written before [`Input::prepare`].
    pub(crate) fn exact_mut(&mut self, rows: usize) -> &mut [f32] {
        &mut self.exact[..rows * self.cols]
    }

    /// Row `row` in f32.
    pub(crate) fn exact(&self, row: usize) -> &[f32] {
        &self.exact[row * self.cols..][..self.cols]
    }

    /// Brings the first `rows` f32 rows into the other forms.
    pub(crate) fn prepare(&mut self, machine: &mut Machine, rows: usize) {
        let (cols, kernels) = (self.cols, machine.kernels);
        if let Some(rounded) = &mut self.rounded {
            let rounded = &mut rounded[..rows * cols];
            rounded.copy_from_slice(&self.exact[..rows * cols]);
            machine.pool.for_each_part(Chunks::new(rounded, 8 * cols), |_, rows| kernels.round_bf16(rows));
        }
        for quantized in &mut self.quantized {
            let exact = &self.exact[..rows * cols];
            if rows * cols <= 8192 {
                for (row, x) in exact.chunks_exact(cols).enumerate() {
                    quantized.row_mut(row).quantize(kernels, x);
                }
                continue;
            }
            let block = 16.min(rows.div_ceil(machine.pool.threads()));
            let raw = quantized.raw_mut();
            let parts = (
                Chunks::new(&mut raw.codes[..rows * raw.code_stride], block * raw.code_stride),
                Chunks::new(&mut raw.scales[..rows * raw.unit_stride], block * raw.unit_stride),
                Chunks::new(&mut raw.sums[..rows * raw.unit_stride], block * raw.unit_stride),
            );
            let (layout, code_stride, unit_stride) = (raw.layout, raw.code_stride, raw.unit_stride);
            machine.pool.for_each_part(parts, |index, (codes, scales, sums)| {
                let rows = exact[index * block * cols..].chunks_exact(cols);
                let codes = codes.chunks_exact_mut(code_stride);
                let units = scales.chunks_exact_mut(unit_stride).zip(sums.chunks_exact_mut(unit_stride));
                for ((x, codes), (scales, sums)) in rows.zip(codes).zip(units) {
                    kernels.quantize(x, layout, codes, scales, sums);
                }
            });
        }
    }

    /// `out[i] = linear[rows.start + i] · row`, with the row rounded as the precision says.
    pub(crate) fn dot(
        &self,
        kernels: &Kernels,
        linear: &Linear,
        rows: Range<usize>,
        row: usize,
        out: &mut [f32],
    ) {
        if let Some(layout) = linear.layout(SPLIT)
            && let Some(quantized) = self.quantized.iter().find(|quantized| quantized.layout() == layout)
            && let View::Affine(view) = linear.view()
        {
            return kernels.gemv_i8(&view, rows, &quantized.row(row), out);
        }
        let x = match &self.rounded {
            Some(rounded) => &rounded[row * self.cols..][..self.cols],
            None => self.exact(row),
        };
        dot_f32(kernels, linear, rows, x, out);
    }

    /// The same with the row in f32 whatever the precision: for the router and the shared expert's gate.
    pub(crate) fn dot_exact(
        &self,
        kernels: &Kernels,
        linear: &Linear,
        rows: Range<usize>,
        row: usize,
        out: &mut [f32],
    ) {
        dot_f32(kernels, linear, rows, self.exact(row), out);
    }
}

/// `out[i] = linear[rows.start + i] · x`.
fn dot_f32(kernels: &Kernels, linear: &Linear, rows: Range<usize>, x: &[f32], out: &mut [f32]) {
    match linear.view() {
        View::Affine(view) => kernels.gemv_affine_f32(&view, rows, x, out),
        View::Dense(view) => kernels.gemv_dense(&view, rows, x, out),
    }
}
