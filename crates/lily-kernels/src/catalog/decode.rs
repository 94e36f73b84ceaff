//! Kernels of one token.

use super::{Entry, kernel};

pub(super) const FILES: &[Entry] = &[
    kernel!("decode", "embedding"),
    kernel!("decode", "gemv"),
    kernel!("decode", "gdn_step"),
    kernel!("decode", "attention_step"),
    kernel!("decode", "attention_combine"),
    kernel!("decode", "router_shared"),
    kernel!("decode", "expert_gate_up"),
    kernel!("decode", "expert_down"),
    kernel!(cuda "attention_tensor"),
    kernel!(cuda "gemv_tensor"),
    // What the above fold together, in launches of its own.
    kernel!("decode", "rms_norm_row"),
    kernel!("decode", "gdn_parts"),
    kernel!("decode", "qk_step"),
    kernel!("decode", "attention_strided"),
    kernel!("decode", "expert_parts"),
];
