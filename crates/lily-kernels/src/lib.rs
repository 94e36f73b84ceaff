//! The plain f32 reference that every kernel, on every backend, is checked against: [`reference`](mod@reference).

pub mod reference;
