//! Parity: the reference against mlx-lm's goldens, the fast paths against the reference.
//! `docs/precision.md` states the bounds, `tests/data/goldens` holds the goldens.

mod fast;
mod goldens;
mod reference;
mod synthetic;
