//! Matrices of a checkpoint to places in an arena.

use super::{
    arena::{Arena, Filled, Place},
    matrix::{Element, Format, MatrixGroup, MatrixView},
};
use crate::GpuError;
use lily_checkpoint::{Bytes, Dtype, Matrix};

/// A matrix with its place.
#[derive(Debug, Clone)]
pub(super) struct PlacedMatrix {
    rows: usize,
    cols: usize,
    format: Format,
    codes: Place,
    scales: Place,
    biases: Place,
}

/// A group with its places.
#[derive(Debug, Clone)]
pub(super) struct PlacedGroup {
    segments: Vec<(usize, PlacedMatrix)>,
    borders: Vec<usize>,
}

/// Places one matrix.
pub(super) fn place(arena: &mut Arena, name: &str, matrix: &Matrix) -> Result<PlacedMatrix, GpuError> {
    stack(arena, name, std::slice::from_ref(&matrix))
}

/// Places matrices of one width and format, such as an expert bank's, as one.
pub(super) fn stack(arena: &mut Arena, name: &str, matrices: &[&Matrix]) -> Result<PlacedMatrix, GpuError> {
    let unsupported = |what: String| GpuError::Unsupported { name: name.to_owned(), what };
    let first = matrices.first().ok_or_else(|| unsupported("there are no matrices".to_owned()))?;
    let (cols, format) = (first.cols(), format(name, first)?);
    for matrix in matrices {
        if matrix.cols() != cols || self::format(name, matrix)? != format {
            return Err(unsupported("its matrices are stored in different ways".to_owned()));
        }
    }
    // Kernels read whole words of codes.
    if !format.code_bytes(cols).is_multiple_of(4) {
        return Err(unsupported(format!("rows of {cols} columns do not end at a word")));
    }
    let rows = matrices.iter().map(|matrix| matrix.rows()).sum();
    let tensors = |part: fn(&Matrix) -> &Bytes| matrices.iter().map(move |matrix| part(matrix));
    let codes = arena.place(tensors(|matrix| match matrix {
        Matrix::Affine(matrix) => &matrix.codes.bytes,
        Matrix::Dense(matrix) => &matrix.data.bytes,
    }));
    if format.is_plain() {
        return Ok(PlacedMatrix { rows, cols, format, codes, scales: codes, biases: codes });
    }
    let scales = arena.place(tensors(|matrix| match matrix {
        Matrix::Affine(matrix) => &matrix.scales.bytes,
        Matrix::Dense(matrix) => &matrix.data.bytes,
    }));
    let biases = arena.place(tensors(|matrix| match matrix {
        Matrix::Affine(matrix) => &matrix.biases.bytes,
        Matrix::Dense(matrix) => &matrix.data.bytes,
    }));
    Ok(PlacedMatrix { rows, cols, format, codes, scales, biases })
}

/// Places matrices that share an input one behind the other: those of one format that follow each other as one.
pub(super) fn group(arena: &mut Arena, name: &str, matrices: &[&Matrix]) -> Result<PlacedGroup, GpuError> {
    let mut borders = vec![0];
    for matrix in matrices {
        borders.push(borders.last().copied().unwrap_or(0) + matrix.rows());
    }
    let mut segments = Vec::new();
    let mut start = 0;
    for end in 1..=matrices.len() {
        if end == matrices.len() || format(name, matrices[end])? != format(name, matrices[start])? {
            segments.push((borders[start], stack(arena, name, &matrices[start..end])?));
            start = end;
        }
    }
    if segments.len() > 1 {
        tracing::info!(name, launches = segments.len(), "matrices of several formats: a launch for each");
    }
    Ok(PlacedGroup { segments, borders })
}

fn format(name: &str, matrix: &Matrix) -> Result<Format, GpuError> {
    let unsupported = |what: String| GpuError::Unsupported { name: name.to_owned(), what };
    match matrix {
        Matrix::Affine(matrix) => {
            let (scales, biases) = (matrix.scales.dtype, matrix.biases.dtype);
            if scales != biases {
                return Err(unsupported(format!("{} scales with {} biases", scales.name(), biases.name())));
            }
            let quantization = matrix.quantization;
            Ok(Format {
                bits: quantization.bits.get() as u32,
                group: quantization.group_size.get() as u32,
                element: element(scales).ok_or_else(|| unsupported(format!("{} scales", scales.name())))?,
            })
        }
        Matrix::Dense(matrix) if matrix.data.dtype == Dtype::Bf16 => Ok(Format::PLAIN),
        Matrix::Dense(matrix) => Err(unsupported(format!(
            "plain {} rows are not read on a GPU\nhint: convert the checkpoint to bfloat16 or quantise it; the CPU backend \
             reads it as it is",
            matrix.data.dtype.name()
        ))),
    }
}

fn element(dtype: Dtype) -> Option<Element> {
    match dtype {
        Dtype::Bf16 => Some(Element::Bf16),
        Dtype::F16 => Some(Element::F16),
        Dtype::F32 => Some(Element::F32),
        Dtype::U32 => None,
    }
}

impl PlacedMatrix {
    /// In the arena, now that it exists.
    pub(super) fn view(&self, filled: &Filled) -> MatrixView {
        MatrixView {
            rows: self.rows,
            cols: self.cols,
            format: self.format,
            codes: filled.view(self.codes),
            scales: filled.view(self.scales),
            biases: filled.view(self.biases),
        }
    }
}

impl PlacedGroup {
    /// In the arena, now that it exists.
    pub(super) fn view(&self, filled: &Filled) -> MatrixGroup {
        let segments: Vec<(usize, MatrixView)> =
            self.segments.iter().map(|(row, matrix)| (*row, matrix.view(filled))).collect();
        MatrixGroup {
            rows: self.borders.last().copied().unwrap_or(0),
            cols: segments.first().map_or(0, |(_, matrix)| matrix.cols),
            segments,
            borders: self.borders.clone(),
        }
    }
}
