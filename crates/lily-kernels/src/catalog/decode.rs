//! Kernels of one token.

use super::{Entry, kernel};

pub(super) const FILES: &[Entry] = &[kernel!("decode", "gemv"), kernel!("decode", "embedding")];
