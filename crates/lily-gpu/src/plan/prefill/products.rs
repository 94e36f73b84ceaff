//! Products of the chunk's rows with dense matrices.

use super::ChunkPass;
use crate::{
    GpuError, View,
    weights::{Element, Format, MatrixGroup, MatrixView},
};
use std::ops::Range;

/// What a product leaves behind; `f32` and sums go onto what is there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Into<'a> {
    /// bf16 rows.
    Bf16,
    /// f32 rows.
    F32,
    /// Added to f32 rows.
    Residual,
    /// Added to f32 rows, each times the sigmoid of its element of `gate`, whose rows are `ld` floats apart.
    Gated {
        /// From the first row's element on.
        gate: &'a View,
        /// Floats between rows.
        ld: usize,
    },
}

/// Rows that a product reads or writes: elements between them, and where they begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strided<'a> {
    /// From the first element of the first row on.
    pub(super) view: &'a View,
    /// Elements between rows.
    pub(super) ld: usize,
}

/// The constants that kernels read quantised weights by.
pub(super) fn format_constants(format: Format) -> [(&'static str, i64); 3] {
    let element = match format.element {
        Element::Bf16 => 0,
        Element::F16 => 1,
        Element::F32 => 2,
    };
    // Plain rows have no groups; the constant must be something that a width is a multiple of.
    let group = if format.is_plain() { 64 } else { format.group };
    [("BITS", i64::from(format.bits)), ("GROUP", i64::from(group)), ("SCALE", element)]
}

/// Outputs `range` of a group, as one matrix for each format, with the first of its outputs counted from the range's.
pub(super) fn parts(group: &MatrixGroup, range: Range<usize>) -> Vec<(usize, MatrixView)> {
    let mut parts = Vec::new();
    for (first, matrix) in &group.segments {
        let (from, to) = (range.start.max(*first), range.end.min(first + matrix.rows));
        if from < to {
            parts.push((from - range.start, matrix.rows(from - first..to - first)));
        }
    }
    parts
}

impl ChunkPass<'_> {
    /// `x [rows, matrix.cols]` times a matrix. `permuted`: how x is stored, and with that which kernel multiplies.
    pub(super) fn product(
        &mut self,
        (x, permuted): (Strided<'_>, bool),
        matrix: &MatrixView,
        y: Strided<'_>,
        into: Into<'_>,
        label: &'static str,
    ) -> Result<(), GpuError> {
        let rows = self.chunk.rows;
        let matrix = &self.multiplied(matrix, 0)?;
        let entry = match into {
            Into::Bf16 => "gemm",
            Into::F32 => "gemm_f32",
            Into::Residual => "gemm_residual",
            Into::Gated { .. } => "gemm_shared",
        };
        let (kernel, tile, outputs) = if permuted {
            // Narrow results of few rows: rather more threadgroups than large ones.
            let large =
                rows.div_ceil(128) * matrix.rows.div_ceil(128) >= self.model.device.limits().cores as usize;
            let tile = if large { 128 } else { 64 };
            let constants = [("K", matrix.cols as i64), ("TILE", tile as i64)];
            (self.model.kernel("gemm_wgmma", &constants, entry)?, tile, 128)
        } else {
            let tile = self.routes.portable_tile(rows);
            let mut constants = vec![("K", matrix.cols as i64), ("BM", tile as i64)];
            constants.extend(format_constants(matrix.format));
            (self.model.kernel(self.routes.file("gemm"), &constants, entry)?, tile, 64)
        };
        let groups = [matrix.rows.div_ceil(outputs) as u32, rows.div_ceil(tile) as u32, 1];
        let mut dispatch = self
            .recorder
            .dispatch(&kernel, groups)
            .bind("x", x.view)
            .bind("w", &matrix.codes)
            .bind("scales", &matrix.scales)
            .bind("biases", &matrix.biases)
            .bind("y", y.view)
            .param("rows", rows)
            .param("n", matrix.rows)
            .param("ldx", x.ld)
            .param("ldy", y.ld)
            .operations(2 * (rows * matrix.rows * matrix.cols) as u64)
            .label(label);
        let mut ldg = 0;
        if let Into::Gated { gate, ld } = into {
            dispatch = dispatch.bind("gate", gate);
            ldg = ld;
        }
        drop(dispatch.param("ldg", ldg));
        Ok(())
    }
}
