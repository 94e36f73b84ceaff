//! Buffers that CPU and GPU share.

use super::{ResidencySet, Settled};
use crate::{
    GpuError,
    device::metal::{numbers, residency::Residency},
};
use lily_checkpoint::Bytes;
use objc2::{rc::Retained, runtime::ProtocolObject};
use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};
use std::{ffi::c_void, ops::Range, ptr::NonNull, sync::Arc};

/// A buffer with what it stands on.
pub(super) struct Memory {
    buffer: Retained<ProtocolObject<dyn MTLBuffer>>,
    bytes: usize,
    /// The host may read it while the device runs.
    shared: bool,
    residency: Option<Arc<Residency<ResidencySet>>>,
    /// Of a buffer over memory that was there before.
    _owner: Option<Bytes>,
}

// SAFETY: a Metal buffer may be used from any thread; who reads and writes its contents when is decided by the calls that
// take it, which wait for the device first.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Fresh memory.
    pub(super) fn new(
        device: &ProtocolObject<dyn MTLDevice>,
        residency: Option<Arc<Residency<ResidencySet>>>,
        bytes: usize,
        label: &str,
        max_buffer: u64,
    ) -> Result<Self, GpuError> {
        let out_of_memory = |detail: String| GpuError::OutOfMemory { bytes, label: label.to_owned(), detail };
        if bytes as u64 > max_buffer {
            return Err(out_of_memory(format!(" (a buffer holds {max_buffer} bytes at most)")));
        }
        // A length of 0 is refused.
        let buffer = device
            .newBufferWithLength_options(bytes.max(1), MTLResourceOptions(numbers::BUFFER))
            .ok_or_else(|| {
                let used = device.currentAllocatedSize();
                out_of_memory(format!(
                    " ({used} of {} bytes are used)",
                    device.recommendedMaxWorkingSetSize()
                ))
            })?;
        Ok(Self::of(buffer, bytes, residency, None))
    }

    /// Over whole pages of memory that is there already; `None` if the system refuses.
    pub(super) fn over(
        device: &ProtocolObject<dyn MTLDevice>,
        residency: Option<Arc<Residency<ResidencySet>>>,
        bytes: &Bytes,
        length: usize,
    ) -> Option<Self> {
        let start = NonNull::from(&**bytes).cast::<c_void>();
        // SAFETY: the pages are mapped as long as `bytes` lives, which `_owner` holds beyond the buffer; no kernel writes to a
        // wrapped buffer (the trait says that it is read-only).
        let buffer = unsafe {
            device.newBufferWithBytesNoCopy_length_options_deallocator(
                start,
                length,
                MTLResourceOptions(numbers::BUFFER),
                None,
            )
        }?;
        Some(Self::of(buffer, bytes.len(), residency, Some(bytes.clone())))
    }

    fn of(
        buffer: Retained<ProtocolObject<dyn MTLBuffer>>,
        bytes: usize,
        residency: Option<Arc<Residency<ResidencySet>>>,
        owner: Option<Bytes>,
    ) -> Self {
        if let Some(residency) = &residency {
            residency.add(&buffer);
        }
        Self { buffer, bytes, shared: false, residency, _owner: owner }
    }

    /// The same, zeroed, for the host to read while the device runs. It is fresh: nothing has used it.
    pub(super) fn shared(mut self) -> Self {
        self.write_now(0, &vec![0; self.bytes]);
        self.shared = true;
        self
    }

    /// The system's handle.
    pub(super) fn handle(&self) -> &ProtocolObject<dyn MTLBuffer> {
        &self.buffer
    }

    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(fits, "{bytes} bytes at {offset} of {}", self.bytes);
        // SAFETY: inside the buffer, as just checked.
        unsafe { self.buffer.contents().cast::<u8>().add(offset) }
    }

    /// Writes bytes, with nothing under way.
    pub(super) fn write(&self, offset: usize, bytes: &[u8], _settled: &mut Settled<'_>) {
        self.write_now(offset, bytes);
    }

    /// Nothing under way touches these bytes.
    fn write_now(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: `to` has room for all bytes; the source is not device memory.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Reads `out.len()` bytes, with nothing under way.
    pub(super) fn read(&self, offset: usize, out: &mut [u8], _settled: &mut Settled<'_>) {
        self.copy_out(offset, out);
    }

    /// Reads `out.len()` bytes of memory that is [`shared`](Memory::shared), each as it is at some moment of the call; false,
    /// and nothing is read, if it is not.
    pub(super) fn peek(&self, offset: usize, out: &mut [u8]) -> bool {
        let from = self.at(offset, out.len());
        if self.shared && offset.is_multiple_of(4) && out.len().is_multiple_of(4) {
            for (at, word) in out.chunks_exact_mut(4).enumerate() {
                // SAFETY: inside the buffer, aligned to 4 (buffers start at a page); volatile, because the device may be
                // writing it.
                let value = unsafe { from.cast::<u32>().add(at).read_volatile() };
                word.copy_from_slice(&value.to_le_bytes());
            }
        } else if self.shared {
            self.copy_out(offset, out);
        }
        self.shared
    }

    fn copy_out(&self, offset: usize, out: &mut [u8]) {
        let from = self.at(offset, out.len());
        // SAFETY: `from` has that many bytes; the destination is not device memory.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *out).cast(), out.len()) };
    }

    /// The bytes as a slice, with nothing under way.
    pub(super) fn bytes_mut<'a>(
        &'a self,
        range: Range<usize>,
        _settled: &'a mut Settled<'_>,
    ) -> &'a mut [u8] {
        let start = self.at(range.start, range.len());
        // SAFETY: inside the buffer, whose bytes are always initialised; the queue is borrowed exclusively as long as the slice
        // is, and every call that touches contents, the device's work included, needs it.
        unsafe { NonNull::slice_from_raw_parts(start, range.len()).as_mut() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(residency) = &self.residency {
            residency.remove(&self.buffer);
        }
    }
}
