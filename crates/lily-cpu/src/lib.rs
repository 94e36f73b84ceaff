//! lily-cpu

mod reference;

pub use reference::{MatrixRows, ReferenceBackend, ReferenceState, reference_model};
