//! The model in plain f32 Rust, written to be read beside `docs/model.md`: the oracle.
//!
//! One file per operation, the field's names, no cleverness. What is fixed, so that results can be compared:
//!
//! - Activations, weights after dequantisation, KV rows and the recurrent state are f32.
//! - A sum over a matrix row or a head is [`dot`]: 16 partial sums, one per lane, then a fixed tree. Sums inside norms
//!   and softmax are f64, rotary angles too: there an f32 sum would be the least exact step of the model.
//! - Every token is computed by itself from the state before it, so a prompt gives the same bits however it is cut
//!   into chunks. Threads share out matrix rows and heads; no result depends on their number.
//!
//! Weights come in through [`RowSource`], one row at a time: a quantised model is never held dequantised.

mod activation;
mod attention;
mod causal_conv;
mod dequantize;
mod dot;
mod embedding;
mod gated_delta_net;
mod gated_delta_rule;
mod gated_norm;
mod linear;
mod logits;
mod model;
mod moe;
mod probe;
mod rms_norm;
mod rotary;
mod router;
mod rows;
mod sampling;
mod softmax;
mod state;

pub use activation::{sigmoid, silu, softplus};
pub use attention::{AttentionShape, AttentionWeights, KvRows, attend, attention};
pub use causal_conv::causal_conv;
pub use dequantize::dequantize_row;
pub use dot::dot;
pub use embedding::embedding;
pub use gated_delta_net::{GatedDeltaNetShape, GatedDeltaNetState, GatedDeltaNetWeights, gated_delta_net};
pub use gated_delta_rule::{decay, gated_delta_rule, l2_norm};
pub use gated_norm::gated_norm;
pub use linear::linear;
pub use logits::logits;
pub use model::{Layer, Mixer, Model, Shape};
pub use moe::{ExpertWeights, MoeShape, MoeWeights, moe};
pub use probe::{NoProbe, Probe};
pub use rms_norm::rms_norm;
pub use rotary::Rotary;
pub use router::{Route, route, route_forced};
pub use rows::{RowSource, Rows};
pub use sampling::{Sampling, adjust_logits, choose, gumbel, word};
pub use softmax::softmax;
pub use state::{LayerState, State};

#[cfg(test)]
mod tests;
