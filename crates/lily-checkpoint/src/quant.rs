//! MLX affine quantisation: how codes are packed and which module has which width.

/// Bits per code of an affine-quantised matrix: 2, 3, 4, 5, 6 or 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits(u8);

impl Bits {
    /// Every width.
    pub const ALL: [Self; 6] = [Self(2), Self(3), Self(4), Self(5), Self(6), Self(8)];

    /// `None` unless `bits` is one of 2, 3, 4, 5, 6, 8.
    pub const fn new(bits: u8) -> Option<Self> {
        match bits {
            2 | 3 | 4 | 5 | 6 | 8 => Some(Self(bits)),
            _ => None,
        }
    }

    /// The width in bits.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Weights that share one scale and one bias along the input dimension: 32, 64 or 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSize(u8);

impl GroupSize {
    /// Every size.
    pub const ALL: [Self; 3] = [Self(32), Self(64), Self(128)];

    /// `None` unless `size` is one of 32, 64, 128.
    pub const fn new(size: usize) -> Option<Self> {
        match size {
            32 | 64 | 128 => Some(Self(size as u8)),
            _ => None,
        }
    }

    /// The number of weights in a group.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// How one module is quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantization {
    /// Bits per code.
    pub bits: Bits,
    /// Weights per scale and bias.
    pub group_size: GroupSize,
}
