//! The floating-point kernels, written once over [`Vector`] and compiled for each tier.
//!
//! Every function is `unsafe` for the instruction set alone: slices carry their lengths, and lengths that must agree
//! are asserted by the safe methods of [`super::Kernels`].

mod attention;
mod checksum;
mod elementwise;
mod gdn;
mod gemm_f32;
mod gemm_i8;
mod gemv_f32;
mod math;
mod norm;
mod quantize;

pub(super) use attention::{attend_page, widen};
pub(super) use checksum::checksum;
pub(super) use elementwise::{accumulate, conv_silu, dot, round_bf16, scale_sigmoid, silu_mul};
pub(super) use gdn::gdn_scan;
pub(super) use gemm_f32::gemm_f32;
pub(super) use gemm_i8::gemm_i8;
pub(super) use gemv_f32::{dequantize_row, gemv_affine_f32, gemv_dense};
pub(super) use math::softmax;
pub(super) use norm::{gated_norm, l2_normalize, rms_norm};
pub(super) use quantize::quantize;
