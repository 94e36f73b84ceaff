//! Kernels of a prompt's chunk, and their overrides for Hopper and for Metal 4's tensor operations.

use super::{Entry, kernel};

pub(super) const FILES: &[Entry] = &[
    kernel!("prefill", "embedding_rows"),
    kernel!("prefill", "rms_norm_rows"),
    kernel!("prefill", "gemm"),
    kernel!("prefill", "conv_rows"),
    kernel!("prefill", "gdn_scan"),
    kernel!("prefill", "gated_norm_rows"),
    kernel!("prefill", "qk_rows"),
    kernel!("prefill", "attention_rows"),
    kernel!("prefill", "router"),
    kernel!("prefill", "route"),
    kernel!("prefill", "expert_gemm"),
    kernel!("prefill", "combine_experts"),
    kernel!("prefill", "dequantise"),
    kernel!(cuda "gemm_wgmma"),
    kernel!(cuda "expert_gemm_wgmma"),
    kernel!(cuda "attention_rows_wgmma"),
    kernel!(cuda "gdn_chunk_prepare"),
    kernel!(cuda "gdn_chunk_scan"),
    kernel!(metal "gemm_tensor"),
    kernel!(metal "expert_gemm_tensor"),
    kernel!(metal "attention_rows_tensor"),
    kernel!(metal "tensor_probe"),
];
