//! The input of linear layers: rows of activations in every form that the layers' matrices take.

use crate::{
    Precision,
    activations::{Layout, Product, QuantRows},
    linear::{Linear, View},
    machine::Machine,
    pool::Chunks,
    simd::{GEMM_ROWS, Kernels},
    state::zeros,
};
use lily_engine::BackendError;
use std::ops::Range;

/// Which forms of a row the matrices behind an input need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forms {
    rounded: bool,
    /// For products with single vectors and with many.
    layouts: [Vec<Layout>; 2],
}

impl Forms {
    /// Those that `linears` need at `precision`.
    pub(crate) fn of<'a>(precision: Precision, linears: impl IntoIterator<Item = &'a Linear>) -> Self {
        let mut forms = Self { rounded: precision == Precision::Bf16, ..Self::default() };
        if precision == Precision::Int8 {
            for linear in linears {
                for product in [Product::Vector, Product::Matrix] {
                    forms.add(product, linear.layout(product));
                }
            }
        }
        forms
    }

    /// Adds what another set needs.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.rounded |= other.rounded;
        for product in [Product::Vector, Product::Matrix] {
            for layout in &other.layouts[product as usize] {
                self.add(product, Some(*layout));
            }
        }
    }

    fn add(&mut self, product: Product, layout: Option<Layout>) {
        let layouts = &mut self.layouts[product as usize];
        if let Some(layout) = layout
            && !layouts.contains(&layout)
        {
            layouts.push(layout);
        }
    }
}

/// Rows of one width.
#[derive(Debug)]
pub(crate) struct Input {
    cols: usize,
    product: Product,
    exact: Vec<f32>,
    rounded: Option<Vec<f32>>,
    quantized: Vec<QuantRows>,
}

impl Input {
    /// `rows` rows of `cols` columns.
    pub(crate) fn new(
        rows: usize,
        cols: usize,
        forms: &Forms,
        product: Product,
    ) -> Result<Self, BackendError> {
        let layouts = &forms.layouts[product as usize];
        Ok(Self {
            cols,
            product,
            exact: zeros(rows * cols)?,
            rounded: if forms.rounded { Some(zeros(rows * cols)?) } else { None },
            quantized: layouts.iter().map(|&layout| QuantRows::new(layout, rows, cols)).collect(),
        })
    }

    /// The kind of product that the rows are prepared for.
    pub(crate) fn product(&self) -> Product {
        self.product
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

    /// `out[i * stride + r] = linear[block.start + r] · x[rows[i]]` for a block of at most [`GEMM_ROWS`] rows, with
    /// activations rounded as the precision says. Weights are read from memory once for all rows.
    pub(crate) fn products(
        &self,
        kernels: &Kernels,
        linear: &Linear,
        block: Range<usize>,
        rows: &[u32],
        (stride, out): (usize, &mut [f32]),
    ) {
        if let View::Affine(view) = linear.view()
            && let Some(quantized) = self.quantized(&view.layout(self.product))
        {
            if self.product == Product::Matrix {
                debug_assert_eq!(stride, GEMM_ROWS);
                return kernels.gemm_i8(&view, block, &quantized.matrix(), rows, out);
            }
            for (&row, out) in rows.iter().zip(out.chunks_mut(stride)) {
                let out = &mut out[..block.len()];
                kernels.gemv_i8(&view, block.clone(), &quantized.row(row as usize), out);
            }
            return;
        }
        for (&row, out) in rows.iter().zip(out.chunks_mut(stride)) {
            let x = match &self.rounded {
                Some(rounded) => &rounded[row as usize * self.cols..][..self.cols],
                None => self.exact(row as usize),
            };
            dot_f32(kernels, linear, block.clone(), x, &mut out[..block.len()]);
        }
    }

    /// `out[i] = linear[block.start + i] · x[row]` with the row in f32 whatever the precision: for the router and the
    /// shared expert's gate.
    pub(crate) fn product_exact(
        &self,
        kernels: &Kernels,
        linear: &Linear,
        block: Range<usize>,
        row: usize,
        out: &mut [f32],
    ) {
        dot_f32(kernels, linear, block, self.exact(row), out);
    }

    fn quantized(&self, layout: &Layout) -> Option<&QuantRows> {
        self.quantized.iter().find(|quantized| quantized.layout() == *layout)
    }
}

/// `out[i] = linear[block.start + i] · x`.
fn dot_f32(kernels: &Kernels, linear: &Linear, block: Range<usize>, x: &[f32], out: &mut [f32]) {
    match linear.view() {
        View::Affine(view) => kernels.gemv_affine_f32(&view, block, x, out),
        View::Dense(view) => kernels.gemv_dense(&view, block, x, out),
    }
}
