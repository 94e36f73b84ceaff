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
    uncached(&file);
    // SAFETY: the map is read-only, and nothing of the program writes to a checkpoint's files while it is open. Another
    // process may, with the consequences described above; bytes are only ever read as integers and floats, for which
    // every bit pattern is valid.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::of(Mapped { map, file }))
}

/// What is read from the file (not through the map) shall not stay in the system's cache: on a machine whose GPU shares the
/// CPU's memory the weights would lie there twice.
#[cfg(target_os = "macos")]
fn uncached(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open; the command takes an integer and changes nothing but how the file is read.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_NOCACHE, 1) } == -1 {
        tracing::debug!("a file stays in the system's cache: {}", io::Error::last_os_error());
    }
}

#[cfg(not(target_os = "macos"))]
fn uncached(_: &File) {}
