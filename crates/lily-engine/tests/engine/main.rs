//! The engine from outside, on a scripted backend.

mod answers;
mod cache;
mod cancellation;
mod choosing;
mod constraints;
mod faults;
mod limits;
mod scheduling;
mod seeds;
mod shutdown;
mod soak;
mod stop_strings;
mod support;
