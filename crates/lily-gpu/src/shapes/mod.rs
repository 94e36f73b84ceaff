//! Launch shapes: how the work of a kernel is cut into threadgroups, where that depends on the chip.
//!
//! [`Shapes`] has a place ([`Slot`]) for each. What a chip starts with is in one table ([`Shapes::of`]); `lily tune`
//! measures the alternatives of each slot ([`Slot::alternatives`]) on the machine at hand, and what it finds is kept in a
//! file ([`Tuned`]) that later runs read. Every shape computes the same, up to the order of f32 sums.

mod chip;
mod slot;
mod table;
mod tuned;

pub use chip::Chip;
pub use slot::Slot;
pub use tuned::{Tuned, TunedError};

/// Launch shape of a product with one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowShape {
    /// Output rows that a lane has in flight.
    pub rows: usize,
    /// Simdgroups of a threadgroup.
    pub simdgroups: usize,
    /// Simdgroups that share a row.
    pub split: usize,
    /// 0: each threadgroup takes one tile. Else so many threadgroups per core share all tiles, the next one's weights in
    /// flight while one is multiplied.
    pub waves: usize,
}

/// Of a product with one row on CUDA's tensor cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorShape {
    /// Tiles of 16 rows that a simdgroup has in flight, where rows are very many: 1 or 2.
    pub tiles: usize,
    /// Threadgroups per core.
    pub waves: usize,
}

/// Of a Gated DeltaNet step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GdnShape {
    /// Simdgroups of a threadgroup.
    pub simdgroups: usize,
    /// Value columns of a simdgroup.
    pub columns: usize,
}

/// Of a token's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Blocks that a context is cut into, about; [`AttentionShape::MOST_BLOCKS`] at most.
    pub blocks: usize,
    /// Query heads that share a row of the cache, at most.
    pub pack: usize,
    /// Positions of a simdgroup's step.
    pub positions: usize,
    /// Simdgroups of a threadgroup.
    pub simdgroups: usize,
}

impl AttentionShape {
    /// What buffers are sized for.
    pub const MOST_BLOCKS: usize = 128;
}

/// Of prefill's recurrence in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanShape {
    /// Lanes per value column.
    pub lanes: usize,
    /// Simdgroups of a threadgroup.
    pub simdgroups: usize,
}

/// Of prefill's products: up to so many rows (on average, of an expert) a tile has 16 rows, or 32; else 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileShape {
    /// For tiles of 16.
    pub sixteen: usize,
    /// For tiles of 32.
    pub thirty_two: usize,
}

/// Every launch shape that depends on the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shapes {
    /// Products of less than 2048 inputs.
    pub short: RowShape,
    /// Of 2048 to 4095 inputs and at least 8000 outputs: projections in, the head.
    pub wide: RowShape,
    /// Of as many inputs and fewer outputs.
    pub few: RowShape,
    /// Of 4096 inputs and more: projections out.
    pub long: RowShape,
    /// On CUDA's tensor cores, in the place of `wide`.
    pub tensor: TensorShape,
    /// Router and shared expert.
    pub router: RowShape,
    /// The experts' way in.
    pub experts_in: RowShape,
    /// The experts' way out: rows that a lane has in flight.
    pub experts_out: usize,
    /// The step of Gated DeltaNet.
    pub gdn: GdnShape,
    /// Attention over the cache.
    pub attention: AttentionShape,
    /// The recurrence over a chunk.
    pub scan: ScanShape,
    /// Products of a chunk.
    pub tiles: TileShape,
}

/// Rows of a matrix of `cols` columns that a simdgroup of 32 lanes has side by side (`Span` in gemv.h).
pub(crate) fn side(cols: usize) -> usize {
    let chunks = cols / 32;
    let lanes = [16, 8, 4, 2, 1].into_iter().find(|&lanes| chunks > lanes).map_or(1, |lanes| 2 * lanes);
    32 / lanes
}

impl RowShape {
    /// Rows that a threadgroup takes at a time.
    pub(crate) fn tile(self, cols: usize) -> usize {
        self.simdgroups / self.split * self.rows * side(cols)
    }

    /// The same without simdgroups that share a row, where rows are too short to be shared.
    pub(crate) fn for_width(self, cols: usize) -> Self {
        Self { split: if cols >= 2048 { self.split } else { 1 }, ..self }
    }
}

impl Shapes {
    /// The shape of a product of `rows` outputs and `cols` inputs of `bits` each; wide codes take more registers.
    pub(crate) fn product(&self, rows: usize, cols: usize, bits: u32) -> RowShape {
        let shape = match (rows, cols) {
            (_, ..2048) => self.short,
            (8_000.., ..4096) => self.wide,
            (_, ..4096) => self.few,
            _ => self.long,
        };
        if bits > 4 && shape.rows > 2 { RowShape { rows: shape.rows / 2, ..shape } } else { shape }
    }
}

#[cfg(test)]
mod tests {
    use super::{RowShape, side};

    #[test]
    fn narrow_rows_lie_side_by_side() {
        let found = [32, 64, 96, 128, 256, 320, 512, 1024, 2048, 4096].map(side);
        assert_eq!(found, [32, 16, 8, 8, 4, 2, 2, 1, 1, 1]);
        assert_eq!(RowShape { rows: 4, simdgroups: 4, split: 2, waves: 0 }.tile(2048), 8);
        assert_eq!(RowShape { rows: 2, simdgroups: 4, split: 1, waves: 4 }.tile(320), 16);
    }
}
