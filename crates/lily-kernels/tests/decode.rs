//! Kernels of one token in the emulator, each against the plain reference.
#![cfg(feature = "emulator")]

#[path = "decode/attention.rs"]
mod attention;
#[path = "decode/embedding.rs"]
mod embedding;
#[path = "decode/experts.rs"]
mod experts;
#[path = "decode/gated_delta_net.rs"]
mod gated_delta_net;
#[path = "decode/gemv.rs"]
mod gemv;
mod support;
