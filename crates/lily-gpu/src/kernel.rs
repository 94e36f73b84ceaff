//! A kernel that a device has compiled.

use lily_kernels::Signature;
use std::{any::Any, sync::Arc};

/// A compiled entry point of a specialisation. Cheap to clone.
#[derive(Clone)]
pub struct Kernel(Arc<Inner>);

struct Inner {
    key: String,
    signature: Signature,
    raw: Box<dyn Any + Send + Sync>,
}

impl Kernel {
    /// Wraps a device's own handle. For implementations of [`crate::Device`]. `key` is the specialisation's.
    pub fn new(key: String, signature: Signature, raw: impl Any + Send + Sync) -> Self {
        Self(Arc::new(Inner { key, signature, raw: Box::new(raw) }))
    }

    /// The entry point's name.
    pub fn entry(&self) -> &str {
        &self.0.signature.entry
    }

    /// The specialisation's key.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Bindings, parameters and threads per threadgroup.
    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// The device's own handle, if it is a `T`.
    pub fn raw<T: Any>(&self) -> Option<&T> {
        self.0.raw.downcast_ref()
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({} of {})", self.entry(), self.key())
    }
}
