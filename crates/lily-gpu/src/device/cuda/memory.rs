//! Device memory and pinned host memory.

use super::driver::{Context, check, named};
use crate::GpuError;
use cudarc::driver::{result, sys};
use std::{ffi::c_void, ptr, sync::Arc};

/// Device memory, or pinned host memory that the device writes through its own address.
pub(super) struct Memory {
    context: Arc<Context>,
    pub(super) address: sys::CUdeviceptr,
    /// Where the host sees it, if it does.
    pub(super) host: Option<Pinned>,
}

/// Pinned host memory.
pub(super) struct Pinned {
    context: Arc<Context>,
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: the pointer is to memory of the process that stays until `self` is dropped; who reads and writes it when is
// decided by the calls that take it.
unsafe impl Send for Pinned {}
// SAFETY: as above: shared access only reads.
unsafe impl Sync for Pinned {}

impl Memory {
    /// Device memory.
    pub(super) fn device(context: &Arc<Context>, bytes: usize, label: &str) -> Result<Self, GpuError> {
        context.enter()?;
        // SAFETY: a context is current; a length of 0 is not asked for.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|error| {
            let free = context
                .memory()
                .map_or_else(|_| String::new(), |(free, _)| format!(" ({free} bytes are free)"));
            match error.0 {
                sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                    GpuError::OutOfMemory { bytes, label: label.to_owned(), detail: free }
                }
                _ => GpuError::Device {
                    call: format!("cuMemAlloc of {bytes} bytes for {label}"),
                    what: error.to_string(),
                },
            }
        })?;
        Ok(Self { context: context.clone(), address, host: None })
    }

    /// Pinned host memory with a device address.
    pub(super) fn shared(context: &Arc<Context>, bytes: usize) -> Result<Self, GpuError> {
        let pinned = Pinned::new(context, bytes)?;
        let mut address = 0;
        // SAFETY: the memory was allocated with the flag that maps it.
        check("cuMemHostGetDevicePointer", unsafe {
            sys::cuMemHostGetDevicePointer_v2(&mut address, pinned.pointer.cast(), 0)
        })?;
        Ok(Self { context: context.clone(), address, host: Some(pinned) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.host.is_some() {
            return;
        }
        // SAFETY: allocated in `device`, freed once. The call waits for kernels that use it.
        let freed = self
            .context
            .enter()
            .and_then(|()| named("cuMemFree", unsafe { result::free_sync(self.address) }));
        if let Err(error) = freed {
            tracing::debug!("{error}");
        }
    }
}

impl Pinned {
    /// `bytes` zero bytes.
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, GpuError> {
        context.enter()?;
        let mut pointer: *mut c_void = ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: a context is current, the pointer is ours.
        check("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&mut pointer, bytes.max(1), flags) })?;
        let pointer = pointer.cast::<u8>();
        // SAFETY: `bytes` bytes were allocated there, and nobody else knows of them yet.
        unsafe { ptr::write_bytes(pointer, 0, bytes) };
        Ok(Self { context: context.clone(), pointer, bytes })
    }

    /// Reads `out.len()` bytes from `offset` on, which the device may be writing: each byte is what it was at some
    /// moment of the call.
    pub(super) fn peek(&self, offset: usize, out: &mut [u8]) {
        assert!(offset + out.len() <= self.bytes, "{} bytes at {offset} of {}", out.len(), self.bytes);
        if offset.is_multiple_of(4) && out.len().is_multiple_of(4) {
            for (at, word) in out.chunks_exact_mut(4).enumerate() {
                // SAFETY: inside the allocation, aligned to 4 (the allocation is to a page); volatile, because the
                // device writes it.
                let value = unsafe { self.pointer.add(offset + 4 * at).cast::<u32>().read_volatile() };
                word.copy_from_slice(&value.to_le_bytes());
            }
            return;
        }
        for (at, byte) in out.iter_mut().enumerate() {
            // SAFETY: inside the allocation; volatile, because the device writes it.
            *byte = unsafe { self.pointer.add(offset + at).read_volatile() };
        }
    }

    /// The bytes, while nobody else uses them.
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is of that length and initialised; `&mut self` keeps the host out, and the callers
        // wait for the device's copies first.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once. The call waits for kernels and copies that use it.
        let freed = self
            .context
            .enter()
            .and_then(|()| check("cuMemFreeHost", unsafe { sys::cuMemFreeHost(self.pointer.cast()) }));
        if let Err(error) = freed {
            tracing::debug!("{error}");
        }
    }
}
