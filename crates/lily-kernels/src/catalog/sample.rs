//! Kernels that choose the next token.

use super::{Entry, kernel};

pub(super) const FILES: &[Entry] = &[
    kernel!("sample", "sample_blocks"),
    kernel!("sample", "sample_choose"),
    kernel!("sample", "sample_whole"),
];
