//! Reading matrices: whether and how a module is quantised is decided by its tensors, and the config must agree.

use crate::{
    AffineMatrix, Bits, CheckpointError, DenseMatrix, Dtype, ExpertBank, GroupSize, Hint, Matrix,
    Quantization, TensorData,
    quant_config::{QuantizationConfig, Scheme},
    table::{TableTensor, TensorTable},
};

pub(crate) const FLOATS: [Dtype; 3] = [Dtype::Bf16, Dtype::F16, Dtype::F32];

/// A role's shape: a stack of `[rows, cols]` matrices, or one without a leading dimension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dims {
    pub(crate) stack: Option<usize>,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl Dims {
    fn shape(self, last: usize) -> Vec<usize> {
        self.stack.into_iter().chain([self.rows, last]).collect()
    }
}

/// Takes tensors out of the table and turns them into weights. A missing one is noted, so that all can be listed.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) table: TensorTable,
    pub(crate) quantization: QuantizationConfig,
    pub(crate) missing: Vec<String>,
    /// Modules found quantised so far.
    pub(crate) quantised: usize,
}

impl Reader {
    /// Takes a tensor out, or notes that it is missing.
    pub(crate) fn take(&mut self, name: String) -> Option<TableTensor> {
        let tensor = self.table.take(&name);
        if tensor.is_none() {
            self.missing.push(name);
        }
        tensor
    }

    /// A small tensor of exactly this shape, widened. Empty when missing.
    pub(crate) fn vector(&mut self, name: String, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let Some(tensor) = self.take(name) else { return Ok(Vec::new()) };
        tensor.expect_shape(shape)?;
        Ok(tensor.data(tensor.dtype(&FLOATS, "")?).to_f32())
    }

    /// A module's matrix. Without elements when missing.
    pub(crate) fn matrix(
        &mut self,
        module: &str,
        rows: usize,
        cols: usize,
    ) -> Result<Matrix, CheckpointError> {
        let mut matrices = self.matrices(module, Dims { stack: None, rows, cols })?;
        Ok(matrices.pop().unwrap_or_else(Matrix::missing))
    }

    /// A module with one matrix per expert, stacked.
    pub(crate) fn bank(
        &mut self,
        module: &str,
        experts: usize,
        rows: usize,
        cols: usize,
    ) -> Result<ExpertBank, CheckpointError> {
        Ok(ExpertBank { experts: self.matrices(module, Dims { stack: Some(experts), rows, cols })? })
    }

    fn matrices(&mut self, module: &str, dims: Dims) -> Result<Vec<Matrix>, CheckpointError> {
        let quantised = ["scales", "biases"].map(|part| self.table.contains(&format!("{module}.{part}")));
        let scheme = self.quantization.scheme_of(module);
        let weight = self.take(format!("{module}.weight"));
        if quantised == [false; 2] {
            return weight.map_or(Ok(Vec::new()), |weight| dense(module, &weight, &scheme, dims));
        }
        self.quantised += 1;
        let scales = self.take(format!("{module}.scales"));
        let biases = self.take(format!("{module}.biases"));
        match (weight, scales, biases) {
            (Some(weight), Some(scales), Some(biases)) => {
                Affine { weight, scales, biases }.matrices(module, &scheme, dims)
            }
            _ => Ok(Vec::new()),
        }
    }
}

impl Matrix {
    /// Stands in for a missing matrix until all missing ones are known; never part of a model.
    pub(crate) fn missing() -> Self {
        let data = TensorData { dtype: Dtype::F32, shape: vec![0, 0], bytes: crate::Bytes::new([]) };
        Self::Dense(DenseMatrix { rows: 0, cols: 0, data })
    }
}

fn dense(
    module: &str,
    weight: &TableTensor,
    scheme: &Scheme,
    dims: Dims,
) -> Result<Vec<Matrix>, CheckpointError> {
    if let Scheme::Affine { explicit: true, quantization, source } = scheme {
        return Err(disagree(
            module,
            format!(
                "config.json ({source}) says {} bits, but {} has no `{module}.scales`",
                quantization.bits.get(),
                weight.file.label
            ),
        ));
    }
    let dtype = weight.dtype(
        &FLOATS,
        "packed codes (U32) need their `.scales` and `.biases`; the download may be incomplete",
    )?;
    weight.expect_shape(&dims.shape(dims.cols))?;
    Ok(dense_stack(&weight.data(dtype), dims))
}

/// Cuts `[stack, rows, cols]` elements into matrices that share the bytes.
pub(crate) fn dense_stack(data: &TensorData, dims: Dims) -> Vec<Matrix> {
    let Dims { rows, cols, .. } = dims;
    (0..dims.stack.unwrap_or(1))
        .map(|index| Matrix::Dense(DenseMatrix { rows, cols, data: part(data, index, &[rows, cols]) }))
        .collect()
}

/// Part `index` of a stack of tensors of one shape.
pub(crate) fn part(data: &TensorData, index: usize, shape: &[usize]) -> TensorData {
    let size = shape.iter().product::<usize>() * data.dtype.size();
    TensorData {
        dtype: data.dtype,
        shape: shape.to_vec(),
        bytes: data.bytes.slice(index * size..(index + 1) * size),
    }
}

/// The three tensors of a quantised module.
struct Affine {
    weight: TableTensor,
    scales: TableTensor,
    biases: TableTensor,
}

impl Affine {
    fn matrices(&self, module: &str, scheme: &Scheme, dims: Dims) -> Result<Vec<Matrix>, CheckpointError> {
        let there = || format!("{} has `{}`", self.scales.file.label, self.scales.stored.name);
        let (quantization, source) = match scheme {
            Scheme::Affine { quantization, source, .. } => (*quantization, source),
            Scheme::Plain { source } => {
                return Err(disagree(
                    module,
                    format!("config.json ({source}) says not quantised, but {}", there()),
                ));
            }
            Scheme::Unsaid => {
                return Err(disagree(module, format!("config.json has no `quantization`, but {}", there())));
            }
        };
        let codes_dtype = self.weight.dtype(&[Dtype::U32], "a module with `.scales` holds packed codes")?;
        let scales_dtype = self.scales.dtype(&FLOATS, "")?;
        let biases_dtype = self.biases.dtype(&FLOATS, "")?;

        let Dims { rows, cols, .. } = dims;
        let Quantization { bits, group_size } = quantization;
        let packed = |bits: Bits| dims.shape(cols * bits.get() / 32);
        let grouped = |size: GroupSize| dims.shape(cols / size.get());
        if !cols.is_multiple_of(group_size.get()) {
            let problem = format!(
                "config.json ({source}) says groups of {}, which do not divide the {cols} inputs of `{}`",
                group_size.get(),
                self.weight.stored.name
            );
            return Err(disagree(module, problem));
        }
        let found = &self.weight.stored.shape;
        if *found != packed(bits) {
            let fitting =
                [2, 3, 4, 5, 6, 8].into_iter().filter_map(Bits::new).find(|&bits| *found == packed(bits));
            let hint = fitting.map_or(Hint::NONE, |bits| {
                format!(
                    "its packed columns fit {} bits; config.json ({source}) says {}",
                    bits.get(),
                    quantization.bits.get()
                )
                .into()
            });
            return Err(self.weight.shape_error(
                format!(
                    "{:?} (packed codes of {rows} x {cols} weights at {} bits)",
                    packed(bits),
                    bits.get()
                ),
                hint,
            ));
        }
        for tensor in [&self.scales, &self.biases] {
            if tensor.stored.shape != grouped(group_size) {
                let fitting = [32, 64, 128].into_iter().filter_map(GroupSize::new);
                let fitting = fitting
                    .filter(|size| cols.is_multiple_of(size.get()))
                    .find(|&size| tensor.stored.shape == grouped(size));
                let hint = fitting.map_or(Hint::NONE, |size| {
                    format!(
                        "its columns fit groups of {}; config.json ({source}) says {}",
                        size.get(),
                        group_size.get()
                    )
                    .into()
                });
                return Err(tensor.shape_error(
                    format!(
                        "{:?} ({rows} x {cols} weights in groups of {})",
                        grouped(group_size),
                        group_size.get()
                    ),
                    hint,
                ));
            }
        }

        let codes = self.weight.data(codes_dtype);
        let (scales, biases) = (self.scales.data(scales_dtype), self.biases.data(biases_dtype));
        let packed = [rows, cols * bits.get() / 32];
        let groups = [rows, cols / group_size.get()];
        let matrix = |index| {
            Matrix::Affine(AffineMatrix {
                rows,
                cols,
                quantization,
                codes: part(&codes, index, &packed),
                scales: part(&scales, index, &groups),
                biases: part(&biases, index, &groups),
            })
        };
        Ok((0..dims.stack.unwrap_or(1)).map(matrix).collect())
    }
}

fn disagree(module: &str, problem: String) -> CheckpointError {
    CheckpointError::Quantization {
        file: "config.json".to_owned(),
        module: format!("module `{module}`"),
        problem,
        hint: "the config and the weights belong to different conversions; download both again".into(),
    }
}
