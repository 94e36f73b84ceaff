//! OpenAI's wire formats.

pub(crate) mod chat;
mod chat_stream;
pub(crate) mod completions;
mod completions_stream;
pub(crate) mod logprobs;
pub(crate) mod models;
pub(crate) mod tokens;
pub(crate) mod usage;

use crate::request::Request;
use crate::state::{Server, unix_time};

/// What a stream carries beside the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamExtras {
    /// A usage chunk at the end.
    pub(crate) usage: bool,
    /// Comments on the progress of prefill.
    pub(crate) progress: bool,
}

impl StreamExtras {
    pub(crate) fn of(request: &Request) -> Self {
        Self { usage: request.include_usage, progress: request.include_progress }
    }
}

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
