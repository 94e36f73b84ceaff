//! What all handlers share: [`Server`].

use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::responses::Store;
use crate::{Model, ServerConfig};
use axum::http::StatusCode;
use lily_text::constraint::Constrainer;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

/// Large bodies that are read at a time: each takes a core, and several times its bytes.
const LARGE_BODIES: usize = 2;

/// Schemas that become grammars at a time. Each takes a core, some of them for seconds, and goes on when nobody waits for
/// it any more.
const GRAMMARS: usize = 2;

/// The state behind the routes.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    pub(crate) model: Model,
    /// Set at shutdown: no new work.
    pub(crate) draining: AtomicBool,
    pub(crate) metrics: Arc<Metrics>,
    /// Responses kept for later requests.
    pub(crate) responses: Store,
    /// Places for the reading of large bodies.
    pub(crate) readers: Arc<Semaphore>,
    /// Places for schemas that become grammars.
    pub(crate) compilers: Arc<Semaphore>,
    /// Held while the answers of one request are handed to the engine, if they are several.
    pub(crate) submitting: tokio::sync::Mutex<()>,
    constrainer: OnceLock<Result<Constrainer, String>>,
    ids: RandomState,
    next_id: AtomicU64,
}

impl Server {
    pub(crate) fn new(model: Model, config: ServerConfig) -> Self {
        let responses = Store::new(config.limits.stored_responses, config.limits.stored_bytes);
        Self {
            responses,
            config,
            model,
            draining: AtomicBool::new(false),
            metrics: Arc::default(),
            readers: Arc::new(Semaphore::new(LARGE_BODIES)),
            compilers: Arc::new(Semaphore::new(GRAMMARS)),
            submitting: tokio::sync::Mutex::default(),
            constrainer: OnceLock::new(),
            ids: RandomState::new(),
            next_id: AtomicU64::new(0),
        }
    }

    /// A fresh id with a prefix (`chatcmpl-`): unique within the process, not to be guessed.
    pub(crate) fn fresh_id(&self, prefix: &str) -> String {
        let count = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (high, low) = (self.ids.hash_one((count, 0)), self.ids.hash_one((count, 1)));
        format!("{prefix}{high:016x}{low:016x}")
    }

    /// What holds answers to a form. Built when it is first needed, which takes a while: not for the threads that serve
    /// connections.
    pub(crate) fn constrainer(&self) -> Result<&Constrainer, ApiError> {
        let made = self.constrainer.get_or_init(|| {
            Constrainer::new(&self.model.tokenizer, &self.model.stop_ids).map_err(|error| error.to_string())
        });
        made.as_ref().map_err(|error| ApiError::internal(error.as_str()))
    }

    /// True for the model's id and its aliases.
    pub(crate) fn knows_model(&self, name: &str) -> bool {
        name == self.model.id || self.config.aliases.iter().any(|alias| alias == name)
    }

    /// Refuses an unknown model name where the configuration says so.
    pub(crate) fn check_model(&self, name: &str) -> Result<(), ApiError> {
        if self.config.strict_model && !self.knows_model(name) { Err(self.model_not_found()) } else { Ok(()) }
    }

    pub(crate) fn model_not_found(&self) -> ApiError {
        let message = format!("no model of that name; this server has {}", self.model.id);
        let error = ApiError::refused(StatusCode::NOT_FOUND, "model_not_found", message);
        ApiError { param: Some("model".to_owned()), ..error }
    }

    /// Refuses new work during shutdown.
    pub(crate) fn check_open(&self) -> Result<(), ApiError> {
        if self.draining.load(Ordering::Acquire) {
            return Err(ApiError::overloaded("the server is shutting down", self.config.limits.retry_after));
        }
        Ok(())
    }
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
