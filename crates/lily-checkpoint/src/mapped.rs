//! Memory-mapped files: the one unsafe place of the crate.

use crate::{Bytes, tensor::Owner};
use std::{fs::File, io, ops::Range, path::Path};

/// A map and its file.
struct Mapped {
    map: memmap2::Mmap,
    #[cfg_attr(
        not(unix),
        expect(dead_code, reason = "only Unix reads at an offset without a shared position")
    )]
    file: File,
}

impl Owner for Mapped {
    fn bytes(&self) -> &[u8] {
        &self.map
    }

    #[cfg(unix)]
    fn copy(&self, range: Range<usize>, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, range.start as u64)
    }
}

/// Maps a file for reading.
///
/// While a map lives, the file must not be changed in place: its weights would change under the model, and if it is cut
/// short the system ends the process at the next read beyond its new end (SIGBUS). Replacing a file by renaming
/// another over it, as download tools do, is safe: the map keeps the old contents.
pub(crate) fn map(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    // SAFETY: the map is read-only, and nothing of the program writes to a checkpoint's files while it is open. Another
    // process may, with the consequences described above; bytes are only ever read as integers and floats, for which
    // every bit pattern is valid.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::of(Mapped { map, file }))
}
