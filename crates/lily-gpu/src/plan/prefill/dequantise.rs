//! Without `fused-dequant`: whole matrices to bf16 in memory before they are multiplied.

use super::{ChunkPass, products::format_constants};
use crate::{
    GpuError, View,
    weights::{Format, MatrixView},
};
use std::sync::PoisonError;

impl ChunkPass<'_> {
    /// The matrix as a product reads it: itself, or bf16 rows in one of two places that its launch leaves them in.
    pub(super) fn multiplied(&mut self, matrix: &MatrixView, place: usize) -> Result<MatrixView, GpuError> {
        if self.routes.fuses_dequantisation() || matrix.format.is_plain() {
            return Ok(matrix.clone());
        }
        let elements = matrix.rows * matrix.cols;
        let rows = self.dequantised_place(place)?.slice(0, 2 * elements);
        let mut constants = vec![("K", matrix.cols as i64)];
        constants.extend(format_constants(matrix.format));
        let kernel = self.model.kernel("dequantise", &constants, "dequantise")?;
        self.recorder
            .dispatch(&kernel, [(elements / 32).div_ceil(256) as u32, 1, 1])
            .bind("w", &matrix.codes)
            .bind("scales", &matrix.scales)
            .bind("biases", &matrix.biases)
            .bind("y", &rows)
            .param("rows", matrix.rows)
            .label("dequantise");
        Ok(MatrixView {
            format: Format::PLAIN,
            codes: rows.clone(),
            scales: rows.clone(),
            biases: rows,
            ..*matrix
        })
    }

    /// Room for the largest matrix of the model's layers. It belongs to a comparison: the memory plan does not count it.
    fn dequantised_place(&self, place: usize) -> Result<View, GpuError> {
        let mut places = self.temporaries.dequantised.lock().unwrap_or_else(PoisonError::into_inner);
        if places.is_none() {
            let (config, hidden) = (&self.model.config, self.model.config.hidden_size);
            let (attention, gdn) = (&config.attention, &config.gated_delta_net);
            let values = gdn.value_heads * gdn.value_head_dim;
            let rows = [
                config.moe.experts * config.moe.inner,
                2 * config.moe.shared_inner,
                2 * gdn.key_heads * gdn.key_head_dim + 2 * values + 2 * gdn.value_heads,
                2 * (attention.heads + attention.kv_heads) * attention.head_dim,
            ];
            let bytes = 2 * hidden * rows.into_iter().max().unwrap_or(1);
            let device = &*self.model.device;
            let make = || Ok::<View, GpuError>(device.allocate(bytes, "dequantised matrices")?.whole());
            *places = Some([make()?, make()?]);
        }
        let [first, second] = places.as_ref().ok_or_else(|| GpuError::Unsupported {
            name: "dequantised matrices".to_owned(),
            what: "there is no place for them".to_owned(),
        })?;
        Ok(if place == 0 { first.clone() } else { second.clone() })
    }
}
