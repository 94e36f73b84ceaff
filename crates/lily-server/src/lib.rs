//! HTTP over the engine: the OpenAI wire format, streaming, limits.
//!
//! [`serve`] listens and runs until told to end; [`router`] is the same service without a socket, for tests and for
//! embedding in another server.
//!
//! A request's way: `routes` finds the handler; `body` reads JSON within bounds; `request` turns a wire format
//! into the one request model; `job` renders and encodes the prompt and hands one generation per choice to the engine;
//! each comes back through a `mailbox` as a `turn`, whose text [`lily_text::parser`] splits into thinking, answer and calls;
//! `message` collects a turn, `streaming` sends it as it comes, in the wire format's own encoder.

mod anthropic;
mod body;
mod config;
mod elsewhere;
mod error;
mod fields;
mod guided;
mod half_close;
mod health;
mod histogram;
mod job;
mod listener;
mod mailbox;
mod message;
mod metrics;
mod model;
mod one_call;
mod openai;
mod request;
mod request_log;
mod responses;
mod routes;
mod security;
mod serve;
mod sse;
mod stall;
mod state;
mod streaming;
mod turn;
mod web;

pub use config::{Limits, ServerConfig};
pub use model::Model;
pub use serve::{ServeError, router, serve};
use state::Server;
