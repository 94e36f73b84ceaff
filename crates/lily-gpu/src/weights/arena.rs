//! One buffer for many tensors: sized first, then allocated, then filled in order. Or none: tensors that stay where they are in
//! files that the device reads itself.

use super::files::MappedFiles;
use crate::{Buffer, Device, GpuError, View};
use lily_checkpoint::Bytes;
use std::sync::Arc;

/// Every tensor starts at a multiple of this.
pub(super) const ALIGNMENT: usize = 256;

/// A place in an arena that is not allocated yet, or in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the file; in the arena without one.
    file: Option<usize>,
    offset: usize,
    bytes: usize,
}

/// An arena under construction.
#[derive(Default)]
pub(super) struct Arena {
    /// Files that the device reads itself, if it does: what lies in one of them in one run is not copied.
    files: Option<Arc<MappedFiles>>,
    bytes: usize,
    /// Where each source goes, in order of offsets. What follows each other in a file and here is one source.
    sources: Vec<(usize, Source)>,
}

enum Source {
    /// Bytes of the file.
    Mapped(Bytes),
    /// Bytes made at load.
    Made(Vec<u8>),
}

impl Arena {
    /// An arena for what cannot stay in these files.
    pub(super) fn beside(files: Option<&Arc<MappedFiles>>) -> Self {
        Self { files: files.cloned(), ..Self::default() }
    }

    /// Places tensors one behind the other, without a gap between them.
    pub(super) fn place<'a>(&mut self, parts: impl IntoIterator<Item = &'a Bytes> + Clone) -> Place {
        if let Some(files) = &self.files
            && let Some(run) = one_run(parts.clone())
            && let Some((file, offset)) = files.find(&run)
        {
            return Place { file: Some(file), offset, bytes: run.len() };
        }
        let offset = self.bytes.next_multiple_of(ALIGNMENT);
        let mut at = offset;
        for part in parts {
            match self.sources.last_mut() {
                Some((start, Source::Mapped(run))) if *start + run.len() == at => match run.joined(part) {
                    Some(longer) => *run = longer,
                    None => self.sources.push((at, Source::Mapped(part.clone()))),
                },
                _ => self.sources.push((at, Source::Mapped(part.clone()))),
            }
            at += part.len();
        }
        self.bytes = at;
        Place { file: None, offset, bytes: at - offset }
    }

    /// Places f32 values.
    pub(super) fn place_f32(&mut self, values: &[f32]) -> Place {
        self.place_made(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Places words.
    pub(super) fn place_u32(&mut self, values: &[u32]) -> Place {
        self.place_made(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    fn place_made(&mut self, bytes: Vec<u8>) -> Place {
        let offset = self.bytes.next_multiple_of(ALIGNMENT);
        let place = Place { file: None, offset, bytes: bytes.len() };
        self.bytes = offset + bytes.len();
        self.sources.push((offset, Source::Made(bytes)));
        place
    }

    /// Bytes in all.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.next_multiple_of(ALIGNMENT)
    }

    /// Allocates the buffer and fills it. The device reads each source in pieces of bounded size.
    pub(super) fn fill(self, device: &dyn Device, label: &str) -> Result<Filled, GpuError> {
        let buffer = device.allocate(self.bytes().max(ALIGNMENT), label)?;
        for (offset, source) in &self.sources {
            let to = |bytes: usize| buffer.view(*offset, bytes);
            match source {
                Source::Mapped(bytes) if !bytes.is_empty() => device.load(&to(bytes.len()), bytes)?,
                Source::Made(bytes) if !bytes.is_empty() => device.upload(&to(bytes.len()), bytes)?,
                _ => {}
            }
        }
        Ok(Filled { buffer, files: self.files })
    }
}

/// The parts as one run, if they lie so in one file.
pub(super) fn one_run<'a>(parts: impl IntoIterator<Item = &'a Bytes>) -> Option<Bytes> {
    let mut parts = parts.into_iter();
    let first = parts.next()?.clone();
    parts.try_fold(first, |run, part| run.joined(part))
}

/// An arena with its contents.
pub(super) struct Filled {
    buffer: Buffer,
    files: Option<Arc<MappedFiles>>,
}

impl Filled {
    /// A place, now that it exists.
    pub(super) fn view(&self, place: Place) -> View {
        let file = place.file.zip(self.files.as_ref()).map(|(number, files)| files.buffer(number));
        file.unwrap_or(&self.buffer).view(place.offset, place.bytes)
    }
}
