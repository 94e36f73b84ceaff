//! The launch shapes that a chip starts with.
//!
//! | chip | from where |
//! |---|---|
//! | Hopper | measured on an H200, by the time of a whole step and of a chunk |
//! | other CUDA | Hopper's: not measured |
//! | emulator | Hopper's, so that tests see what a GPU was measured with |
//! | Apple | reasoned, not measured: no Mac was at hand |
//!
//! What the shapes for Apple's GPUs come from: pipelines with many registers report fewer threads than 1024 (448 were seen
//! on an M2 for matrix kernels), so no threadgroup has more than 9 simdgroups (and each kernel states
//! its number as the most, for which the compiler must leave registers); a core has about 60 KB of threadgroup
//! memory, and a product with one row stages that row in it, so few large threadgroups waste what many small ones share; a
//! barrier between launches empties the machine, so a launch should have at least four threadgroups for each core, which
//! decides by the number of cores how many rows a lane has in flight where outputs are few. `lily tune` replaces all of it
//! by what is true.

use super::{AttentionShape, Chip, GdnShape, RowShape, ScanShape, Shapes, TensorShape, TileShape};
use crate::check::AppleFamily;

/// Threadgroups that a launch should have for each core.
const GROUPS_PER_CORE: usize = 4;

const fn row(rows: usize, simdgroups: usize, split: usize) -> RowShape {
    RowShape { rows, simdgroups, split, waves: 0 }
}

/// Measured on an H200.
const HOPPER: Shapes = Shapes {
    short: row(2, 4, 1),
    wide: row(4, 4, 1),
    few: row(2, 16, 2),
    long: row(4, 16, 4),
    tensor: TensorShape { tiles: 2, waves: 3 },
    router: row(1, 16, 2),
    experts_in: row(2, 16, 1),
    experts_out: 8,
    gdn: GdnShape { simdgroups: 8, columns: 4 },
    attention: AttentionShape { blocks: 128, pack: 8, positions: 4, simdgroups: 8 },
    scan: ScanShape { lanes: 8, simdgroups: 8 },
    tiles: TileShape { sixteen: 16, thirty_two: 32 },
};

impl Shapes {
    /// The table.
    pub fn of(chip: Chip) -> Self {
        match chip {
            Chip::Hopper | Chip::Cuda | Chip::Emulator => HOPPER,
            Chip::Apple { family, cores } => apple(family, cores as usize),
        }
    }
}

fn apple(family: AppleFamily, cores: usize) -> Shapes {
    // A projection out has 2048 rows: tiles of 8 are 256 threadgroups.
    let crowded = 2048 / 8 >= GROUPS_PER_CORE * cores;
    let rows = if crowded { 2 } else { 1 };
    let shapes = Shapes {
        few: row(rows, 8, 2),
        long: row(2 * rows, 8, 4),
        router: row(1, 8, 2),
        experts_in: row(2, 8, 1),
        experts_out: 4,
        gdn: GdnShape { simdgroups: 4, columns: 4 },
        attention: AttentionShape { simdgroups: 4, ..HOPPER.attention },
        scan: ScanShape { lanes: 8, simdgroups: 4 },
        ..HOPPER
    };
    match family {
        // bfloat is software before family 9: rather few rows in a tile than rows that are not there.
        AppleFamily::Apple7 | AppleFamily::Apple8 => {
            Shapes { tiles: TileShape { sixteen: 16, thirty_two: 48 }, ..shapes }
        }
        AppleFamily::Apple9 | AppleFamily::Apple10 => shapes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::Slot;

    fn chips() -> Vec<Chip> {
        let apple = AppleFamily::ALL
            .into_iter()
            .flat_map(|family| [8, 10, 40, 80].map(|cores| Chip::Apple { family, cores }));
        [Chip::Hopper, Chip::Cuda, Chip::Emulator].into_iter().chain(apple).collect()
    }

    #[test]
    fn what_a_chip_starts_with_is_among_the_alternatives() {
        for chip in chips() {
            let shapes = Shapes::of(chip);
            for slot in Slot::ALL {
                let own = slot.get(&shapes);
                assert!(slot.alternatives().contains(&own), "{chip}, {slot}: {own:?}");
            }
        }
    }

    #[test]
    fn apple_threadgroups_have_at_most_256_threads() {
        for chip in chips().into_iter().filter(|chip| matches!(chip, Chip::Apple { .. })) {
            let shapes = Shapes::of(chip);
            for shape in
                [shapes.short, shapes.wide, shapes.few, shapes.long, shapes.router, shapes.experts_in]
            {
                assert!(shape.simdgroups <= 8, "{chip}: {shape:?}");
            }
        }
    }

    #[test]
    fn more_cores_take_smaller_tiles() {
        let few = |cores| Shapes::of(Chip::Apple { family: AppleFamily::Apple9, cores }).few.rows;
        assert_eq!((few(10), few(64), few(80)), (2, 2, 1));
    }
}
