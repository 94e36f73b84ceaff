//! Matrix times one row, with what stands around it folded in ("row-gemv").

use super::{Step, ahead::Ahead, format_constants, groups};
use crate::{
    GpuError, Optimisation, View,
    recorder::DispatchBuilder,
    shapes::RowShape,
    weights::{Element, Format, MatrixGroup, MatrixView},
};
use lily_kernels::Platform;

/// What is folded into a product.
pub(super) enum Around<'a> {
    /// `y = W rms_norm(x)`.
    Norm { gain: &'a View, eps: f32 },
    /// `y = W x`.
    Nothing,
    /// `y += W x`; brings weights near.
    Add { ahead: &'a Ahead },
    /// `y += W (rms_norm_heads(x) * silu(z))`, heads of `head` elements; brings weights near.
    Gated { z: &'a View, gain: &'a View, head: usize, eps: f32, ahead: &'a Ahead },
}

/// True if `gemv_tensor`, which multiplies on tensor cores, serves such a matrix on the model's device.
fn has_tensor_route(step: &Step<'_>, w: &MatrixView) -> bool {
    let format = Format { bits: 4, group: 64, element: Element::Bf16 };
    // Few rows do not fill the device a tile of 16 at a time.
    let served = w.format == format
        && w.cols.is_multiple_of(512)
        && (2048..=16_384).contains(&w.cols)
        && w.rows >= 8_000;
    let has = |one| step.model.switches.has(one);
    served
        && step.model.device.platform() == Platform::Cuda
        && has(Optimisation::TensorRows)
        && has(Optimisation::RowGemv)
}

/// Constants of a kernel.
type Constants = Vec<(&'static str, i64)>;

/// Kernel file, constants, threadgroups and stride of a product: on tensor cores where those serve the matrix, else the
/// portable kernel.
fn route(step: &Step<'_>, w: &MatrixView) -> (&'static str, Constants, u32, usize) {
    let device = step.model.device.limits();
    let cores = device.cores as usize;
    if has_tensor_route(step, w) {
        // More tiles in flight pay only where there are very many; a few threadgroups per core walk them all.
        let shape = step.shapes.tensor;
        let tiles = if w.rows >= 100_000 { shape.tiles } else { 1 };
        let rows = 16 * tiles;
        let count = w.rows.div_ceil(rows).min(shape.waves * cores);
        let constants = vec![("K", w.cols as i64), ("TILES", tiles as i64)];
        return ("gemv_tensor", constants, groups(count, 1), count * rows);
    }
    let shape = if step.model.switches.has(Optimisation::RowGemv) {
        step.shapes.product(w.rows, w.cols, w.format.bits)
    } else {
        // A threadgroup for each row.
        RowShape { rows: 1, simdgroups: 4, split: 4, waves: 0 }.for_width(w.cols)
    };
    let tile = shape.tile(w.cols);
    let most = cores * shape.waves;
    // Where the waves hold all tiles, each threadgroup has one.
    let swept = most > 0 && w.rows.div_ceil(tile) > most;
    let mut constants = vec![
        ("K", w.cols as i64),
        ("ROWS", shape.rows as i64),
        ("SIMDGROUPS", shape.simdgroups as i64),
        ("SPLIT", shape.split as i64),
        ("SWEEPS", i64::from(swept)),
    ];
    constants.extend(format_constants(w.format));
    let (count, stride) = if swept { (most, most * tile) } else { (w.rows.div_ceil(tile), 0) };
    ("gemv", constants, groups(count, 1), stride)
}

/// Records `y = W x` with what is around it.
pub(super) fn gemv(
    step: &mut Step<'_>,
    w: &MatrixView,
    x: &View,
    y: &View,
    around: &Around<'_>,
    label: &'static str,
) -> Result<(), GpuError> {
    let (file, mut constants, groups, stride) = route(step, w);
    let entry = match around {
        Around::Norm { .. } => "gemv_norm",
        Around::Nothing => "gemv",
        Around::Add { .. } => "gemv_add",
        Around::Gated { head, .. } => {
            constants.push(("HEAD", *head as i64));
            "gemv_gated"
        }
    };
    let kernel = step.model.kernel(file, &constants, entry)?;
    let dispatch = step
        .recorder
        .dispatch(&kernel, [groups, 1, 1])
        .label(label)
        .bind("w", &w.codes)
        .bind("scales", &w.scales)
        .bind("biases", &w.biases)
        .bind("x", &x.slice(0, w.cols * 4))
        .bind("y", &y.slice(0, w.rows * 4))
        .param("rows", w.rows)
        .param("stride", stride);
    // Its few, large threadgroups hold what the launch ahead still needs: measured, 5 % of a step on an H200.
    let stands_in_the_way = file == "gemv_tensor" && w.rows < 100_000;
    let dispatch = if stands_in_the_way { dispatch.late() } else { dispatch };
    match around {
        Around::Norm { gain, eps } => drop(dispatch.bind("gain", gain).param("eps", *eps)),
        Around::Nothing => drop(dispatch),
        Around::Add { ahead } => drop(bring(dispatch, ahead, groups)),
        Around::Gated { z, gain, eps, ahead, .. } => {
            drop(bring(dispatch, ahead, groups).bind("z", z).bind("gain", gain).param("eps", *eps));
        }
    }
    Ok(())
}

fn bring<'a>(dispatch: DispatchBuilder<'a>, ahead: &Ahead, groups: u32) -> DispatchBuilder<'a> {
    dispatch
        .bind("next", &ahead.view)
        .param("ahead", ahead.words)
        .param("groups", groups)
        .traffic("next", 0, 0)
}

/// A product for each run of matrices of one format.
pub(super) fn gemv_group(
    step: &mut Step<'_>,
    group: &MatrixGroup,
    x: &View,
    y: &View,
    around: &Around<'_>,
    label: &'static str,
) -> Result<(), GpuError> {
    for (first, matrix) in &group.segments {
        gemv(step, matrix, x, &y.slice(first * 4, matrix.rows * 4), around, label)?;
    }
    Ok(())
}
