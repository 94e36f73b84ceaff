//! Kernels of a prompt's chunk in the emulator, each against the plain reference.
#![cfg(feature = "emulator")]

#[path = "prefill/attention.rs"]
mod attention;
#[path = "prefill/conv.rs"]
mod conv;
#[path = "prefill/embedding.rs"]
mod embedding;
#[path = "prefill/experts.rs"]
mod experts;
#[path = "prefill/gated_norm.rs"]
mod gated_norm;
#[path = "prefill/gdn.rs"]
mod gdn;
#[path = "prefill/gemm.rs"]
mod gemm;
#[path = "prefill/norm.rs"]
mod norm;
#[path = "prefill/qk.rs"]
mod qk;
#[path = "prefill/router.rs"]
mod router;
#[path = "prefill/routing.rs"]
mod routing;
#[path = "prefill/rows.rs"]
mod rows;
mod support;
#[path = "prefill/tensor_probe.rs"]
mod tensor_probe;
