//! The places of [`Shapes`], with the alternatives that are worth measuring in each.

use super::{AttentionShape, GdnShape, RowShape, ScanShape, Shapes, TensorShape, TileShape};
use crate::Phase;
use std::{fmt, str::FromStr};

/// A place of [`Shapes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// [`Shapes::short`].
    Short,
    /// [`Shapes::wide`].
    Wide,
    /// [`Shapes::few`].
    Few,
    /// [`Shapes::long`].
    Long,
    /// [`Shapes::tensor`].
    Tensor,
    /// [`Shapes::router`].
    Router,
    /// [`Shapes::experts_in`].
    ExpertsIn,
    /// [`Shapes::experts_out`].
    ExpertsOut,
    /// [`Shapes::gdn`].
    Gdn,
    /// [`Shapes::attention`].
    Attention,
    /// [`Shapes::scan`].
    Scan,
    /// [`Shapes::tiles`].
    Tiles,
}

/// Rows in flight, simdgroups, simdgroups that share a row, waves.
type Rows = [usize; 4];

const SHORT: &[Rows] = &[[2, 4, 1, 0], [4, 4, 1, 0], [2, 8, 1, 0], [1, 8, 1, 0], [4, 2, 1, 0]];
const WIDE: &[Rows] = &[
    [4, 4, 1, 0],
    [2, 4, 1, 0],
    [4, 8, 1, 0],
    [2, 8, 1, 0],
    [8, 4, 1, 0],
    [4, 2, 1, 0],
    [4, 4, 1, 2],
    [4, 4, 1, 4],
];
const FEW: &[Rows] =
    &[[2, 16, 2, 0], [2, 8, 2, 0], [1, 16, 2, 0], [1, 8, 2, 0], [2, 8, 1, 0], [1, 8, 1, 0], [2, 4, 1, 0]];
const LONG: &[Rows] =
    &[[4, 16, 4, 0], [2, 16, 4, 0], [4, 8, 4, 0], [2, 8, 4, 0], [4, 8, 2, 0], [2, 8, 2, 0], [8, 16, 4, 0]];
const ROUTER: &[Rows] =
    &[[1, 16, 2, 0], [1, 8, 2, 0], [2, 8, 2, 0], [1, 8, 1, 0], [2, 16, 2, 0], [2, 4, 1, 0]];
const EXPERTS_IN: &[Rows] =
    &[[2, 16, 1, 0], [2, 8, 1, 0], [4, 8, 1, 0], [1, 16, 1, 0], [1, 8, 1, 0], [2, 8, 2, 0], [4, 4, 1, 0]];
const EXPERTS_OUT: &[[usize; 1]] = &[[8], [4], [2], [6]];
const TENSOR: &[[usize; 2]] = &[[2, 2], [1, 2], [2, 1], [1, 1], [2, 3], [1, 3], [2, 4]];
const GDN: &[[usize; 2]] = &[[8, 2], [4, 4], [8, 4], [4, 2], [2, 4], [16, 2], [4, 8]];
/// Blocks, query heads that share a row, positions, simdgroups.
const ATTENTION: &[[usize; 4]] = &[
    [128, 8, 4, 8],
    [128, 8, 4, 4],
    [64, 8, 4, 8],
    [64, 8, 4, 4],
    [32, 8, 4, 8],
    [128, 8, 2, 8],
    [128, 4, 8, 4],
];
const SCAN: &[[usize; 2]] = &[[8, 8], [8, 4], [16, 8], [16, 4], [4, 8], [32, 8]];
const TILES: &[[usize; 2]] = &[[16, 32], [16, 48], [24, 48], [32, 64], [0, 32], [0, 0]];

const ROW_FIELDS: &[&str] = &["rows", "simdgroups", "split", "waves"];

impl Slot {
    /// All of them, in the order in which they are tuned.
    pub const ALL: [Self; 12] = [
        Self::Wide,
        Self::Tensor,
        Self::Few,
        Self::Long,
        Self::Short,
        Self::Router,
        Self::ExpertsIn,
        Self::ExpertsOut,
        Self::Gdn,
        Self::Attention,
        Self::Scan,
        Self::Tiles,
    ];

    /// Its name in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short-products",
            Self::Wide => "wide-products",
            Self::Few => "few-outputs",
            Self::Long => "long-products",
            Self::Tensor => "tensor-products",
            Self::Router => "router",
            Self::ExpertsIn => "experts-in",
            Self::ExpertsOut => "experts-out",
            Self::Gdn => "gdn-step",
            Self::Attention => "attention",
            Self::Scan => "gdn-scan",
            Self::Tiles => "tiles",
        }
    }

    /// In which phase it matters.
    pub const fn phase(self) -> Phase {
        match self {
            Self::Scan | Self::Tiles => Phase::Prefill,
            _ => Phase::Decode,
        }
    }

    /// Names of its values.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Tensor => &["tiles", "waves"],
            Self::ExpertsOut => &["rows"],
            Self::Gdn => &["simdgroups", "columns"],
            Self::Attention => &["blocks", "pack", "positions", "simdgroups"],
            Self::Scan => &["lanes", "simdgroups"],
            Self::Tiles => &["sixteen", "thirty-two"],
            _ => ROW_FIELDS,
        }
    }

    /// What may stand in it: the values that its kernels serve and that are worth measuring.
    pub fn alternatives(self) -> Vec<Vec<usize>> {
        fn all<const N: usize>(list: &[[usize; N]]) -> Vec<Vec<usize>> {
            list.iter().map(|values| values.to_vec()).collect()
        }
        match self {
            Self::Short => all(SHORT),
            Self::Wide => all(WIDE),
            Self::Few => all(FEW),
            Self::Long => all(LONG),
            Self::Tensor => all(TENSOR),
            Self::Router => all(ROUTER),
            Self::ExpertsIn => all(EXPERTS_IN),
            Self::ExpertsOut => all(EXPERTS_OUT),
            Self::Gdn => all(GDN),
            Self::Attention => all(ATTENTION),
            Self::Scan => all(SCAN),
            Self::Tiles => all(TILES),
        }
    }

    /// What stands in it, in the order of [`Slot::fields`].
    pub fn get(self, shapes: &Shapes) -> Vec<usize> {
        let row = |shape: RowShape| vec![shape.rows, shape.simdgroups, shape.split, shape.waves];
        match self {
            Self::Short => row(shapes.short),
            Self::Wide => row(shapes.wide),
            Self::Few => row(shapes.few),
            Self::Long => row(shapes.long),
            Self::Router => row(shapes.router),
            Self::ExpertsIn => row(shapes.experts_in),
            Self::ExpertsOut => vec![shapes.experts_out],
            Self::Tensor => vec![shapes.tensor.tiles, shapes.tensor.waves],
            Self::Gdn => vec![shapes.gdn.simdgroups, shapes.gdn.columns],
            Self::Attention => {
                let AttentionShape { blocks, pack, positions, simdgroups } = shapes.attention;
                vec![blocks, pack, positions, simdgroups]
            }
            Self::Scan => vec![shapes.scan.lanes, shapes.scan.simdgroups],
            Self::Tiles => vec![shapes.tiles.sixteen, shapes.tiles.thirty_two],
        }
    }

    /// Puts one of its [`Slot::alternatives`] in; false, and nothing changed, for anything else.
    #[must_use]
    pub fn set(self, shapes: &mut Shapes, values: &[usize]) -> bool {
        if !self.alternatives().iter().any(|one| one == values) {
            return false;
        }
        let at = |place: usize| values.get(place).copied().unwrap_or(0);
        let row = RowShape { rows: at(0), simdgroups: at(1), split: at(2), waves: at(3) };
        match self {
            Self::Short => shapes.short = row,
            Self::Wide => shapes.wide = row,
            Self::Few => shapes.few = row,
            Self::Long => shapes.long = row,
            Self::Router => shapes.router = row,
            Self::ExpertsIn => shapes.experts_in = row,
            Self::ExpertsOut => shapes.experts_out = at(0),
            Self::Tensor => shapes.tensor = TensorShape { tiles: at(0), waves: at(1) },
            Self::Gdn => shapes.gdn = GdnShape { simdgroups: at(0), columns: at(1) },
            Self::Attention => {
                shapes.attention =
                    AttentionShape { blocks: at(0), pack: at(1), positions: at(2), simdgroups: at(3) };
            }
            Self::Scan => shapes.scan = ScanShape { lanes: at(0), simdgroups: at(1) },
            Self::Tiles => shapes.tiles = TileShape { sixteen: at(0), thirty_two: at(1) },
        }
        true
    }

    /// Values with their names, as reports and files have them.
    pub fn describe(self, values: &[usize]) -> String {
        let pairs = self.fields().iter().zip(values).map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Slot {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|one| one.name()).collect();
            format!("there is no launch shape \"{name}\"\nhint: one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::Chip;

    #[test]
    fn what_is_put_in_comes_out() {
        for slot in Slot::ALL {
            assert_eq!(slot.name().parse(), Ok(slot));
            for values in slot.alternatives() {
                assert_eq!(values.len(), slot.fields().len(), "{slot}");
                let mut shapes = Shapes::of(Chip::Hopper);
                assert!(slot.set(&mut shapes, &values));
                assert_eq!(slot.get(&shapes), values, "{slot}");
                let others = Slot::ALL.into_iter().filter(|&other| other != slot);
                for other in others {
                    assert_eq!(other.get(&shapes), other.get(&Shapes::of(Chip::Hopper)), "{slot}, {other}");
                }
            }
            let mut shapes = Shapes::of(Chip::Hopper);
            assert!(!slot.set(&mut shapes, &[7; 5]) && shapes == Shapes::of(Chip::Hopper));
        }
        assert!("tile".parse::<Slot>().unwrap_err().contains("tiles"));
        assert_eq!(Slot::Gdn.describe(&[8, 2]), "simdgroups=8 columns=2");
    }

    #[test]
    fn blocks_fit_what_buffers_are_sized_for() {
        for values in Slot::Attention.alternatives() {
            assert!(values[0] <= AttentionShape::MOST_BLOCKS && values[1] * values[2] <= 32, "{values:?}");
        }
    }
}
