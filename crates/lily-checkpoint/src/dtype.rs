//! Element types: those that weights may have, and all that a safetensors file may name.

/// The element types that a checkpoint's tensors may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dtype {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 half precision.
    F16,
    /// bfloat16: the upper half of an f32.
    Bf16,
    /// Packed codes of an affine-quantised matrix, little-endian words.
    U32,
}

impl Dtype {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The name in a safetensors header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::U32 => "U32",
        }
    }
}

/// An element type that a safetensors header may name, most of them only met in tensors that are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredDtype {
    name: &'static str,
    bits: u8,
}

impl StoredDtype {
    /// All names of the format (safetensors 0.8).
    const ALL: [Self; 22] = {
        const fn of(name: &'static str, bits: u8) -> StoredDtype {
            StoredDtype { name, bits }
        }
        [
            of("BOOL", 8),
            of("F4", 4),
            of("F6_E2M3", 6),
            of("F6_E3M2", 6),
            of("U8", 8),
            of("I8", 8),
            of("F8_E5M2", 8),
            of("F8_E4M3", 8),
            of("F8_E8M0", 8),
            of("F8_E4M3FNUZ", 8),
            of("F8_E5M2FNUZ", 8),
            of("I16", 16),
            of("U16", 16),
            of("F16", 16),
            of("BF16", 16),
            of("I32", 32),
            of("U32", 32),
            of("F32", 32),
            of("C64", 64),
            of("F64", 64),
            of("I64", 64),
            of("U64", 64),
        ]
    };

    /// The type with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name == name)
    }

    /// The name in the header.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Bits per element; a few types pack several elements into a byte.
    pub const fn bits(self) -> u64 {
        self.bits as u64
    }

    /// The type as one that weights may have.
    pub fn as_dtype(self) -> Option<Dtype> {
        [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::U32].into_iter().find(|dtype| dtype.name() == self.name)
    }
}
