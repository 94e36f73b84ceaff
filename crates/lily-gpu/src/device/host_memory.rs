//! Host memory aligned as device memory is, for the emulator.

/// The alignment of every buffer and of every copied view.
const ALIGNMENT: usize = 256;

#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Block([u8; ALIGNMENT]);

/// Bytes that start at a multiple of 256.
pub(crate) struct AlignedBytes {
    blocks: Vec<Block>,
    bytes: usize,
}

impl AlignedBytes {
    /// `bytes` bytes of `value`, or nothing when memory is out.
    pub(crate) fn filled(bytes: usize, value: u8) -> Option<Self> {
        let count = bytes.div_ceil(ALIGNMENT);
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(count).ok()?;
        blocks.resize(count, Block([value; ALIGNMENT]));
        Some(Self { blocks, bytes })
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the blocks are `bytes` rounded up to whole blocks of initialised bytes without padding, in one
        // allocation, borrowed mutably as long as the slice is.
        unsafe { std::slice::from_raw_parts_mut(self.blocks.as_mut_ptr().cast(), self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::AlignedBytes;

    #[test]
    fn aligned_whatever_the_length() {
        for bytes in [0, 1, 255, 256, 257, 1000] {
            let mut memory = AlignedBytes::filled(bytes, 7).unwrap();
            assert_eq!(memory.as_mut().len(), bytes);
            assert!(memory.as_mut().iter().all(|&byte| byte == 7));
            assert_eq!(memory.as_mut().as_ptr() as usize % super::ALIGNMENT, 0);
        }
    }
}
