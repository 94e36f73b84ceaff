//! The plain reference as a backend: slow, exact, for parity tests and `--backend reference`.

mod backend;
mod matrix_rows;
mod model;

pub use backend::{ReferenceBackend, ReferenceState};
pub use matrix_rows::MatrixRows;
pub use model::reference_model;
