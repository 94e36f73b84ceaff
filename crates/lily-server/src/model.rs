//! What a server serves: [`Model`].

use lily_engine::{Engine, SamplingParams, TokenId};
use lily_text::{ChatTemplate, Tokenizer};

/// A loaded model with all that turns a conversation into tokens and back.
#[derive(Clone)]
pub struct Model {
    /// Name on the wire.
    pub id: String,
    /// When it was made, in seconds since 1970 (`created` of `/v1/models`).
    pub created: u64,
    /// The engine that runs it.
    pub engine: Engine,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template.
    pub template: ChatTemplate,
    /// Ids that end an answer (generation config, config and tokenizer together).
    pub stop_ids: Vec<TokenId>,
    /// What holds when a request says nothing: the checkpoint's generation_config.json.
    pub defaults: SamplingParams,
}
