//! Residual rows to logits.

use super::{PrefillTemporaries, products::format_constants};
use crate::{GpuError, GpuModel, Recorder};
use std::ops::Range;

/// Records the final norm and the head for some of the chunk's residual rows, to `temporaries.logits`. Each row is a
/// product of its own, the last row of a prompt being the usual case.
///
/// # Errors
/// [`GpuError::Unsupported`] for more rows than there is room for; [`GpuError::Kernel`].
pub fn record_logits(
    recorder: &mut Recorder,
    model: &GpuModel,
    temporaries: &PrefillTemporaries,
    rows: Range<usize>,
) -> Result<(), GpuError> {
    if rows.is_empty() || rows.len() > temporaries.logit_rows || rows.end > temporaries.limit {
        return Err(GpuError::Unsupported {
            name: format!("logits of rows {rows:?}"),
            what: format!(
                "{} at a time, of a chunk of at most {}",
                temporaries.logit_rows, temporaries.limit
            ),
        });
    }
    let w = &model.weights.lm_head;
    // Each threadgroup has one tile: sweeps are for steps.
    let shape = model.shapes().product(w.rows, w.cols, w.format.bits);
    let mut constants = vec![
        ("K", w.cols as i64),
        ("ROWS", shape.rows as i64),
        ("SIMDGROUPS", shape.simdgroups as i64),
        ("SPLIT", shape.split as i64),
    ];
    constants.extend(format_constants(w.format));
    let kernel = model.kernel("gemv", &constants, "gemv_norm")?;
    let tile = shape.tile(w.cols);
    let (first, row_bytes) = (rows.start, 4 * model.config.vocab_size);
    for row in rows {
        let x = temporaries.residual.of(row + 1).slice(4 * w.cols * row, 4 * w.cols);
        recorder
            .dispatch(&kernel, [w.rows.div_ceil(tile) as u32, 1, 1])
            .bind("w", &w.codes)
            .bind("scales", &w.scales)
            .bind("biases", &w.biases)
            .bind("x", &x)
            .bind("gain", &model.weights.norm)
            .bind("y", &temporaries.logits.slice((row - first) * row_bytes, row_bytes))
            .param("rows", w.rows)
            .param("stride", 0_u32)
            .param("eps", model.config.rms_norm_eps)
            .label("head");
    }
    Ok(())
}
