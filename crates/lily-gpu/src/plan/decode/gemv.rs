//! Matrix times one row, with what stands around it folded in ("row-gemv").

use super::{Step, ahead::Ahead, format_constants, groups};
use crate::{
    GpuError, Optimisation, View,
    recorder::DispatchBuilder,
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

/// Launch shape of a product: output rows in flight per lane, simdgroups per threadgroup, simdgroups that share a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) simdgroups: usize,
    pub(super) split: usize,
    /// 0: each threadgroup takes one tile. Else so many threadgroups per core share all tiles, the next one's weights in
    /// flight while one is multiplied.
    pub(super) waves: usize,
}

/// Rows of a matrix of `cols` columns that a simdgroup of 32 lanes has side by side.
pub(super) fn side(cols: usize) -> usize {
    let chunks = cols / 32;
    let lanes = [16, 8, 4, 2, 1].into_iter().find(|&lanes| chunks > lanes).map_or(1, |lanes| 2 * lanes);
    32 / lanes
}

impl Shape {
    /// Rows that a threadgroup takes at a time.
    pub(super) fn tile(self, cols: usize) -> usize {
        self.simdgroups / self.split * self.rows * side(cols)
    }

    /// The shape for `rows` outputs of `cols` inputs of `bits` each, by what was fastest on an H200. Few rows are shared by
    /// more simdgroups, so that the device is full; wide codes take more registers.
    fn of(rows: usize, cols: usize, bits: u32) -> Self {
        let flight = if bits <= 4 { 4 } else { 2 };
        match (rows, cols) {
            (_, ..2048) => Self { rows: 2, simdgroups: 4, split: 1, waves: 0 },
            (8_000.., ..4096) => Self { rows: flight, simdgroups: 4, split: 1, waves: 0 },
            (_, ..4096) => Self { rows: 2, simdgroups: 16, split: 2, waves: 0 },
            _ => Self { rows: flight, simdgroups: 16, split: 4, waves: 0 },
        }
    }
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
        // Two tiles in flight pay where there are very many; two threadgroups per core walk them all.
        let tiles = if w.rows >= 100_000 { 2 } else { 1 };
        let rows = 16 * tiles;
        let count = w.rows.div_ceil(rows).min(2 * cores);
        let constants = vec![("K", w.cols as i64), ("TILES", tiles as i64)];
        return ("gemv_tensor", constants, groups(count, 1), count * rows);
    }
    let shape = if step.model.switches.has(Optimisation::RowGemv) {
        Shape::of(w.rows, w.cols, w.format.bits)
    } else {
        // A threadgroup for each row.
        Shape { rows: 1, simdgroups: 4, split: if w.cols >= 2048 { 4 } else { 1 }, waves: 0 }
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

#[cfg(test)]
mod tests {
    use super::{Shape, side};

    #[test]
    fn narrow_rows_lie_side_by_side() {
        let found = [32, 64, 96, 128, 256, 320, 512, 1024, 2048, 4096].map(side);
        assert_eq!(found, [32, 16, 8, 8, 4, 2, 2, 1, 1, 1]);
        assert_eq!(Shape { rows: 4, simdgroups: 4, split: 2, waves: 0 }.tile(2048), 8);
        assert_eq!(Shape { rows: 2, simdgroups: 4, split: 1, waves: 4 }.tile(320), 16);
    }
}
