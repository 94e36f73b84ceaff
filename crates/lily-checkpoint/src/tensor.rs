//! A tensor as it lies in a file: bytes at any alignment, a type and a shape.

use crate::Dtype;
use std::{io, ops::Range, sync::Arc};

/// What holds bytes.
pub(crate) trait Owner: Send + Sync {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// Copies those of `range` to `out`, which is as long.
    fn copy(&self, range: Range<usize>, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.bytes()[range]);
        Ok(())
    }
}

/// Bytes in memory.
struct Held<T>(T);

impl<T: AsRef<[u8]> + Send + Sync> Owner for Held<T> {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// A shared, immutable run of bytes: a memory map, an embedded file or a buffer. Cheap to clone and to slice.
/// No alignment is promised.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn Owner>,
    range: Range<usize>,
}

impl Bytes {
    /// Wraps a whole owner of bytes.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::of(Held(owner))
    }

    /// All bytes of an owner.
    pub(crate) fn of(owner: impl Owner + 'static) -> Self {
        let range = 0..owner.bytes().len();
        Self { owner: Arc::new(owner), range }
    }

    /// Copies the bytes to `out`. Those of a mapped file are read from the file, so that its pages do not become this
    /// process's memory as well.
    ///
    /// # Errors
    /// When the file cannot be read.
    ///
    /// # Panics
    /// If `out` has another length.
    pub fn copy_to(&self, out: &mut [u8]) -> io::Result<()> {
        assert_eq!(out.len(), self.range.len(), "bytes and the place for them");
        self.owner.copy(self.range.clone(), out)
    }

    /// The sub-run `range`, relative to this one.
    ///
    /// # Panics
    /// If `range` does not lie inside this run.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.range.len(),
            "slice {range:?} of {} bytes",
            self.range.len()
        );
        Self {
            owner: self.owner.clone(),
            range: self.range.start + range.start..self.range.start + range.end,
        }
    }

    /// All bytes of what holds these, a whole file as a rule, and where among them these begin.
    pub fn whole(&self) -> (Self, usize) {
        let range = 0..self.owner.bytes().len();
        (Self { owner: self.owner.clone(), range }, self.range.start)
    }

    /// True if both are of one file, or of whatever else holds them.
    pub fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.owner, &other.owner)
    }

    /// Both as one run, if they are of one owner and `next` begins where this one ends: tensors that lie one behind the
    /// other in a file can be read at once.
    pub fn joined(&self, next: &Self) -> Option<Self> {
        let adjacent = Arc::ptr_eq(&self.owner, &next.owner) && self.range.end == next.range.start;
        adjacent.then(|| Self { owner: self.owner.clone(), range: self.range.start..next.range.end })
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.owner.bytes()[self.range.clone()]
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({})", self.range.len())
    }
}

/// One tensor: row-major, `bytes.len() == dtype.size() * shape.product()`.
#[derive(Debug, Clone)]
pub struct TensorData {
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The elements, little-endian, at any alignment.
    pub bytes: Bytes,
}

impl TensorData {
    /// All elements widened to f32.
    ///
    /// # Panics
    /// If the tensor holds packed codes (`Dtype::U32`).
    pub fn to_f32(&self) -> Vec<f32> {
        match self.dtype {
            Dtype::F32 => {
                self.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
            }
            Dtype::F16 => {
                self.bytes.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
            }
            Dtype::Bf16 => {
                self.bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
            }
            Dtype::U32 => panic!("packed codes have no f32 value of their own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn only_neighbours_of_one_owner_join() {
        let bytes = Bytes::new([1, 2, 3, 4, 5]);
        let (left, right) = (bytes.slice(1..3), bytes.slice(3..5));
        assert_eq!(left.joined(&right).as_deref(), Some(&[2, 3, 4, 5][..]));
        assert!(right.joined(&left).is_none());
        assert!(left.joined(&bytes.slice(4..5)).is_none());
        assert!(left.joined(&Bytes::new([1, 2, 3, 4, 5]).slice(3..5)).is_none());
    }
}
