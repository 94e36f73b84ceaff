//! Memory on a device: buffers, and ranges of them.

use std::{
    any::Any,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// A run of device memory. Cheap to clone; freed when the last clone and the last [`View`] of it are gone.
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

struct Inner {
    id: u64,
    bytes: usize,
    label: String,
    raw: Box<dyn Any + Send + Sync>,
}

impl Buffer {
    /// Wraps a device's own handle. For implementations of [`crate::Device`].
    pub fn new(bytes: usize, label: &str, raw: impl Any + Send + Sync) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Inner { id, bytes, label: label.to_owned(), raw: Box::new(raw) }))
    }

    /// A number that no other buffer of this process has.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// What it is for, in messages.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// The device's own handle, if it is a `T`.
    pub fn raw<T: Any>(&self) -> Option<&T> {
        self.0.raw.downcast_ref()
    }

    /// All of it.
    pub fn whole(&self) -> View {
        View { buffer: self.clone(), offset: 0, bytes: self.bytes() }
    }

    /// `bytes` bytes from `offset` on.
    ///
    /// # Panics
    /// If they do not lie inside.
    pub fn view(&self, offset: usize, bytes: usize) -> View {
        self.whole().slice(offset, bytes)
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({}, {} bytes)", self.label(), self.bytes())
    }
}

/// A range of a [`Buffer`]: what a kernel's argument is bound to. Hazards are found between the ranges that are bound,
/// so a view should cover what the kernel touches and no more.
#[derive(Clone)]
pub struct View {
    buffer: Buffer,
    offset: usize,
    bytes: usize,
}

impl View {
    /// The buffer.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// First byte in the buffer.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the buffer.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// `bytes` bytes of this view from `offset` on.
    ///
    /// # Panics
    /// If they do not lie inside.
    pub fn slice(&self, offset: usize, bytes: usize) -> Self {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at {offset} of a view of {} of {}",
            self.bytes,
            self.buffer.label()
        );
        Self { buffer: self.buffer.clone(), offset: self.offset + offset, bytes }
    }

    /// True if both have a byte in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.buffer.id() == other.buffer.id()
            && self.offset < other.offset + other.bytes
            && other.offset < self.offset + self.bytes
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{:?}]", self.buffer.label(), self.range())
    }
}
