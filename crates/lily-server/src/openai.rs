//! OpenAI's wire formats.

pub(crate) mod chat;
mod chat_stream;
mod chunks;
pub(crate) mod completions;
mod completions_stream;
pub(crate) mod logprobs;
pub(crate) mod models;
pub(crate) mod tokens;
pub(crate) mod usage;

use crate::state::{Server, unix_time};

/// What every object of one answer has in common.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
}

impl Head {
    pub(crate) fn new(server: &Server, prefix: &str) -> Self {
        Self { id: server.fresh_id(prefix), created: unix_time(), model: server.model.id.clone() }
    }
}

/// Identifies the program that answered.
pub(crate) const FINGERPRINT: &str = concat!("lily-", env!("CARGO_PKG_VERSION"));
