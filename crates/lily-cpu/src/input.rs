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

    /// The kind of product that it is prepared for.
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

    /// `out[i * GEMM_ROWS + r] = linear[block.start + r] · x[rows.start + i]` for a block of at most [`GEMM_ROWS`] rows,
    /// with activations rounded as the precision says. Weights are read from memory once for all rows.
    pub(crate) fn products(
        &self,
        kernels: &Kernels,
        linear: &Linear,
        block: Range<usize>,
        rows: Range<usize>,
        out: &mut [f32],
    ) {
        match self.quantized(linear) {
            Some(quantized) => products_i8(kernels, linear, block, (quantized, self.product), rows, out),
            None => products_f32(kernels, linear, block, self.rounded(rows), self.product, out),
        }
    }

    /// The 8-bit rows that `linear` takes, unless it takes others.
    pub(crate) fn quantized(&self, linear: &Linear) -> Option<&QuantRows> {
        let layout = linear.layout(self.product)?;
        self.quantized.iter().find(|quantized| quantized.layout() == layout)
    }

    /// Rows as matrices that take no 8-bit rows have them.
    fn rounded(&self, rows: Range<usize>) -> &[f32] {
        &self.rounded.as_ref().unwrap_or(&self.exact)[rows.start * self.cols..rows.end * self.cols]
    }

    /// As [`Input::products`] with rows in f32 whatever the precision: for the router and the shared expert's gate.
    pub(crate) fn products_exact(
        &self,
        kernels: &Kernels,
        linear: &Linear,
        block: Range<usize>,
        rows: Range<usize>,
        out: &mut [f32],
    ) {
        let exact = &self.exact[rows.start * self.cols..rows.end * self.cols];
        products_f32(kernels, linear, block, exact, self.product, out);
    }
}

/// As [`Input::products`], with rows of any origin.
pub(crate) fn products_i8(
    kernels: &Kernels,
    linear: &Linear,
    block: Range<usize>,
    (x, product): (&QuantRows, Product),
    rows: Range<usize>,
    out: &mut [f32],
) {
    let View::Affine(view) = linear.view() else { unreachable!("only quantised matrices take 8-bit rows") };
    if product == Product::Matrix {
        return kernels.gemm_i8(&view, block, &x.matrix(), rows, out);
    }
    for (row, out) in rows.zip(out.chunks_mut(GEMM_ROWS)) {
        kernels.gemv_i8(&view, block.clone(), &x.row(row), &mut out[..block.len()]);
    }
}

/// As [`Input::products`], with f32 rows.
fn products_f32(
    kernels: &Kernels,
    linear: &Linear,
    block: Range<usize>,
    x: &[f32],
    product: Product,
    out: &mut [f32],
) {
    let view = linear.view();
    if product == Product::Matrix {
        return kernels.gemm_f32(&view, block, x, out);
    }
    for (x, out) in x.chunks_exact(view.cols()).zip(out.chunks_mut(GEMM_ROWS)) {
        let out = &mut out[..block.len()];
        match &view {
            View::Affine(view) => kernels.gemv_affine_f32(view, block.clone(), x, out),
            View::Dense(view) => kernels.gemv_dense(view, block.clone(), x, out),
        }
    }
}
