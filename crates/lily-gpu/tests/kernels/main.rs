//! The kernel tests of `lily-kernels`, on a device: the same cases, bounds and reference as in its emulator.
//!
//! `LILY_TEST_DEVICE=metal cargo test -p lily-gpu --features device-tests --test kernels`; or `cuda`; or, with its feature,
//! `emulator`. Tests with `wgmma`, `tensor_cores` or `chunked_matrix_form` in their names run kernels that are written for CUDA
//! alone, those with `tensor_operations` need Metal 4: `--skip` them elsewhere, as `cargo xtask verify-metal` does.

#[path = "../../../lily-kernels/tests/sample/choice.rs"]
mod choice;
#[path = "../../../lily-kernels/tests/decode/attention.rs"]
mod decode_attention;
#[path = "../../../lily-kernels/tests/decode/embedding.rs"]
mod decode_embedding;
#[path = "../../../lily-kernels/tests/decode/experts.rs"]
mod decode_experts;
#[path = "../../../lily-kernels/tests/decode/gated_delta_net.rs"]
mod decode_gated_delta_net;
#[path = "../../../lily-kernels/tests/decode/gemv.rs"]
mod decode_gemv;
#[path = "../../../lily-kernels/tests/prefill/attention.rs"]
mod prefill_attention;
#[path = "../../../lily-kernels/tests/prefill/conv.rs"]
mod prefill_conv;
#[path = "../../../lily-kernels/tests/prefill/embedding.rs"]
mod prefill_embedding;
#[path = "../../../lily-kernels/tests/prefill/experts.rs"]
mod prefill_experts;
#[path = "../../../lily-kernels/tests/prefill/gated_norm.rs"]
mod prefill_gated_norm;
#[path = "../../../lily-kernels/tests/prefill/gdn.rs"]
mod prefill_gdn;
#[path = "../../../lily-kernels/tests/prefill/gemm.rs"]
mod prefill_gemm;
#[path = "../../../lily-kernels/tests/prefill/norm.rs"]
mod prefill_norm;
#[path = "../../../lily-kernels/tests/prefill/qk.rs"]
mod prefill_qk;
#[path = "../../../lily-kernels/tests/prefill/router.rs"]
mod prefill_router;
#[path = "../../../lily-kernels/tests/prefill/routing.rs"]
mod prefill_routing;
#[path = "../../../lily-kernels/tests/prefill/rows.rs"]
mod rows;
mod support;
