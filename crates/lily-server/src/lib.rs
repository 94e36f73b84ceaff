//! HTTP over the engine: the OpenAI wire format, streaming, limits.
//!
//! [`serve`] listens and runs until told to end; [`router`] is the same service without a socket, for tests and for
//! embedding in another server.

mod config;
mod model;
mod serve;

pub use config::{Limits, ServerConfig};
pub use model::Model;
pub use serve::{ServeError, router, serve};
