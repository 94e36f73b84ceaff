//! Kernels of one token in the emulator, each against the plain reference.
#![cfg(feature = "emulator")]

#[path = "decode/embedding.rs"]
mod embedding;
#[path = "decode/gemv.rs"]
mod gemv;
mod support;
