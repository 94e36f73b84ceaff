//! Which kernel serves which product: by platform, format and shape, never by trial.

use crate::{
    GpuError, GpuModel, Optimisation,
    shapes::TileShape,
    weights::{Element, MatrixGroup, MatrixView, MixerWeights, MoeWeights},
};
use lily_kernels::{MetalTier, OVERRIDES, Override};

/// The elements of a head of Gated DeltaNet that the kernels are written for.
const GDN_HEAD: usize = 128;
/// The taps of its convolution.
const CONV_WIDTH: usize = 4;
/// From so many rows on the recurrence takes its matrix form: faster from 64 rows on, but less exact, so short chunks keep
/// the scan row by row.
const MATRIX_FORM_ROWS: usize = 128;
/// The elements of an attention head that the Hopper kernel is written for, and that a head must be a multiple of.
const ATTENTION_HEAD: usize = 256;

/// What the device offers, and what is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routes {
    /// The instruction set has `wgmma`, and the overrides under `kernels/cuda` may be used.
    hopper: bool,
    /// Metal's matrix units: overrides under `kernels/metal` may be used.
    metal: MetalTier,
    /// Tiles by the rows per expert.
    adaptive_tiles: bool,
    /// Weights are dequantised inside the products.
    fused_dequant: bool,
    /// And there into register operands, where the instruction set has them.
    register_operands: bool,
    /// The recurrence's state stays on the chip for a whole chunk.
    register_scan: bool,
    /// Rows of the portable kernels' tiles.
    tiles: TileShape,
}

impl Routes {
    /// For a model on its device.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] for dimensions that no kernel of prefill serves.
    pub fn new(model: &GpuModel) -> Result<Self, GpuError> {
        let config = &model.config;
        let unsupported =
            |name: &str, what: String| Err(GpuError::Unsupported { name: name.to_owned(), what });
        let gdn = &config.gated_delta_net;
        if gdn.key_head_dim != GDN_HEAD || gdn.value_head_dim != GDN_HEAD || gdn.conv_width != CONV_WIDTH {
            let found = (gdn.key_head_dim, gdn.value_head_dim, gdn.conv_width);
            return unsupported(
                "Gated DeltaNet",
                format!("the kernels take heads of 128 and a convolution of 4, not {found:?}"),
            );
        }
        let attention = &config.attention;
        if !attention.head_dim.is_multiple_of(ATTENTION_HEAD) || !attention.rotary_dim.is_power_of_two() {
            let found = (attention.head_dim, attention.rotary_dim);
            return unsupported(
                "attention",
                format!(
                    "the kernels take heads of 256 n elements, a power of two of them rotary, not {found:?}"
                ),
            );
        }
        let widths = [config.hidden_size, config.moe.inner, config.moe.shared_inner];
        if widths.iter().any(|width| !width.is_multiple_of(64)) || config.moe.experts > 1024 {
            return unsupported(
                "the experts",
                format!("the kernels take widths of 64 n and up to 1024 experts, not {widths:?}"),
            );
        }
        Ok(Self {
            hopper: model.device.architecture() == "sm_90a",
            metal: model.device.metal_tier(),
            adaptive_tiles: model.switches.has(Optimisation::AdaptiveTiles),
            fused_dequant: model.switches.has(Optimisation::FusedDequant),
            register_operands: model.switches.has(Optimisation::RegisterOperands),
            register_scan: model.switches.has(Optimisation::RegisterScan),
            tiles: model.shapes().tiles,
        })
    }

    /// True if a product with this matrix takes weights as register operands of `wgmma`: its rows are then stored permuted
    /// (`kernels/rows.h`).
    pub(super) fn is_register_operand(self, matrix: &MatrixView) -> bool {
        let format = matrix.format;
        self.hopper
            && self.fused_dequant
            && self.register_operands
            && format.bits == 4
            && format.group == 64
            && format.element == Element::Bf16
            && matrix.cols.is_multiple_of(128)
    }

    /// The same for all matrices of a group: they share their input.
    pub(super) fn are_register_operands(self, group: &MatrixGroup) -> bool {
        group.segments.iter().all(|(_, matrix)| self.is_register_operand(matrix))
    }

    /// The same for all experts of a layer: products in and out, routed and shared, go one way.
    pub(super) fn moe_has_register_operands(self, moe: &MoeWeights) -> bool {
        [&moe.experts.gate, &moe.experts.up, &moe.experts.down, &moe.shared_down]
            .into_iter()
            .all(|matrix| self.is_register_operand(matrix))
            && self.are_register_operands(&moe.shared_in)
    }

    /// A portable kernel file, or what stands for it on the device's matrix units: the same tiles, entries and bindings.
    pub(super) fn file(self, portable: &'static str) -> &'static str {
        let own = |one: &&Override| one.portable == portable && one.architecture == self.metal.name();
        OVERRIDES.iter().find(own).map_or(portable, |one| one.file)
    }

    /// The same for attention, whose overrides are written for one size of head.
    pub(super) fn attention_file(self, head_dim: usize) -> &'static str {
        if head_dim == ATTENTION_HEAD { self.file("attention_rows") } else { "attention_rows" }
    }

    /// Attention on `wgmma`.
    pub(super) fn has_attention_override(self, head_dim: usize) -> bool {
        self.hopper && head_dim == ATTENTION_HEAD
    }

    /// The recurrence in matrix form, for a chunk of so many rows; row by row otherwise.
    pub(super) fn has_matrix_form(self, rows: usize) -> bool {
        self.hopper && self.register_scan && rows >= MATRIX_FORM_ROWS
    }

    /// The recurrence's state stays on the chip for a whole chunk.
    pub(super) fn keeps_state(self) -> bool {
        self.register_scan
    }

    /// Tiles chosen from the rows per expert.
    pub(super) fn adapts_tiles(self) -> bool {
        self.adaptive_tiles
    }

    /// Weights are dequantised inside the products, not into memory before them.
    pub(super) fn fuses_dequantisation(self) -> bool {
        self.fused_dequant
    }

    /// Rows of a tile of the portable kernels, for `rows` rows of a matrix (on average).
    pub(super) fn portable_tile(self, rows: usize) -> usize {
        match rows {
            _ if !self.adaptive_tiles => 64,
            _ if rows <= self.tiles.sixteen => 16,
            _ if rows <= self.tiles.thirty_two => 32,
            _ => 64,
        }
    }
}

/// The routes of a model's prefill, one line each, for reports.
///
/// # Errors
/// As [`Routes::new`].
pub fn describe_routes(model: &GpuModel) -> Result<Vec<String>, GpuError> {
    let routes = Routes::new(model)?;
    let portable = match routes.metal {
        MetalTier::Simdgroup => "portable tiles",
        MetalTier::Tensor => "tensor operations",
    };
    let way = |fast: bool| if fast { "wgmma, weights dequantised in registers" } else { portable };
    let mut lines = Vec::new();
    let mut push = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for layer in &model.weights.layers {
        match &layer.mixer {
            MixerWeights::Gdn(gdn) => {
                push(format!("gdn.in_proj: {}", way(routes.are_register_operands(&gdn.in_proj))));
                let form = if routes.has_matrix_form(MATRIX_FORM_ROWS) {
                    format!("matrix form from {MATRIX_FORM_ROWS} rows on, else row by row in registers")
                } else if routes.keeps_state() {
                    "row by row in registers".to_owned()
                } else {
                    "row by row in memory".to_owned()
                };
                push(format!("gdn.scan: {form}"));
                push(format!("gdn.out_proj: {}", way(routes.is_register_operand(&gdn.out_proj))));
            }
            MixerWeights::Attention(attention) => {
                push(format!("attention.in_proj: {}", way(routes.are_register_operands(&attention.in_proj))));
                push(format!("attention.out_proj: {}", way(routes.is_register_operand(&attention.out_proj))));
                let fast = routes.has_attention_override(model.config.attention.head_dim);
                push(format!("attention: {}", if fast { "wgmma" } else { portable }));
            }
        }
        push(format!("experts: {}", way(routes.moe_has_register_operands(&layer.moe))));
    }
    Ok(lines)
}
