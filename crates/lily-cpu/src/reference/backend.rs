//! [`ReferenceBackend`].

use super::reference_model;
use lily_checkpoint::Checkpoint;
use lily_engine::{
    Backend, BackendError, DecodeStep, LogitsWanted, SequenceState, TokenId, evaluation::ExpertChoices,
};
use lily_kernels::reference::{LayerState, Model, NoProbe, Probe, State};
use std::sync::Arc;

/// Tokens per prefill call.
const PREFILL_CHUNK: usize = 256;
/// Positions whose logits are held at once.
const LOGITS_CHUNK: usize = 32;

/// The plain f32 reference behind the same trait as every other backend. The same prompt gives the same bits however
/// it is cut, batched or threaded.
pub struct ReferenceBackend {
    model: Model,
    max_context: usize,
    forced_experts: Option<Arc<ExpertChoices>>,
}

/// A sequence on a [`ReferenceBackend`].
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceState(State);

impl SequenceState for ReferenceState {
    fn position(&self) -> usize {
        self.0.position
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl ReferenceBackend {
    /// The reference on a checkpoint's weights, which stay packed.
    pub fn new(checkpoint: &Checkpoint) -> Self {
        Self {
            model: reference_model(checkpoint),
            max_context: checkpoint.config.max_position_embeddings,
            forced_experts: None,
        }
    }

    /// Sequences end at `limit` positions, if the checkpoint's longest context is not shorter.
    #[must_use]
    pub fn with_max_context(mut self, limit: usize) -> Self {
        self.max_context = self.max_context.min(limit);
        self
    }

    /// Every sequence goes to these experts, position by position, instead of the router's own choice; its weights
    /// stay the router's. For comparing paths whose routers would differ at near ties.
    #[must_use]
    pub fn with_forced_experts(mut self, choices: Arc<ExpertChoices>) -> Self {
        self.forced_experts = Some(choices);
        self
    }

    /// The model itself, to look inside a forward pass.
    pub fn model(&self) -> &Model {
        &self.model
    }

    fn check(&self, state: &ReferenceState, tokens: &[TokenId]) -> Result<(), BackendError> {
        let vocab = self.model.embed_tokens.rows();
        if let Some(token) = tokens.iter().find(|t| t.0 as usize >= vocab) {
            return Err(BackendError::TokenOutOfRange { id: token.0, vocab });
        }
        let wanted = state.0.position + tokens.len();
        if wanted > self.max_context {
            return Err(BackendError::ContextFull { wanted, limit: self.max_context });
        }
        Ok(())
    }

    /// Room for the KV rows of `tokens` more tokens.
    fn reserve(&self, state: &mut ReferenceState, tokens: usize) -> Result<(), BackendError> {
        let row = self.model.shape.attention.kv_heads * self.model.shape.attention.head_dim;
        for layer in &mut state.0.layers {
            if let LayerState::Attention(kv) = layer {
                for rows in [&mut kv.keys, &mut kv.values] {
                    rows.try_reserve(tokens * row)
                        .map_err(|e| BackendError::OutOfMemory(format!("KV rows of {tokens} tokens: {e}")))?;
                }
            }
        }
        Ok(())
    }

    /// The residual stream after the last layer, `[tokens, hidden]`.
    fn forward(&self, state: &mut ReferenceState, tokens: &[TokenId]) -> Vec<f32> {
        let tokens: Vec<u32> = tokens.iter().map(|t| t.0).collect();
        match &self.forced_experts {
            Some(choices) => self.model.forward(&mut state.0, &tokens, &mut Force(choices)),
            None => self.model.forward(&mut state.0, &tokens, &mut NoProbe),
        }
    }
}

/// Steers the router.
struct Force<'a>(&'a ExpertChoices);

impl Probe for Force<'_> {
    fn forced_experts(&mut self, layer: usize, position: usize) -> Option<&[usize]> {
        self.0.of(layer, position)
    }
}

impl Backend for ReferenceBackend {
    type State = ReferenceState;
    type Snapshot = Arc<ReferenceState>;

    fn describe(&self) -> String {
        format!(
            "plain f32 reference, {} layers, {} threads",
            self.model.layers.len(),
            rayon::current_num_threads()
        )
    }

    fn vocab_size(&self) -> usize {
        self.model.lm_head.rows()
    }

    fn max_context(&self) -> usize {
        self.max_context
    }

    fn prefill_chunk(&self) -> usize {
        PREFILL_CHUNK
    }

    fn new_state(&mut self) -> Result<ReferenceState, BackendError> {
        Ok(ReferenceState(self.model.new_state()))
    }

    fn prefill(
        &mut self,
        state: &mut ReferenceState,
        tokens: &[TokenId],
        logits: LogitsWanted<'_>,
    ) -> Result<(), BackendError> {
        self.check(state, tokens)?;
        if tokens.is_empty() || tokens.len() > PREFILL_CHUNK {
            return Err(BackendError::Device(format!(
                "a prefill of {} tokens; 1 to {PREFILL_CHUNK}",
                tokens.len()
            )));
        }
        self.reserve(state, tokens.len())?;
        let hidden = self.model.shape.hidden;
        let x = self.forward(state, tokens);
        match logits {
            LogitsWanted::None => {}
            LogitsWanted::Last(out) => *out = self.model.logits(&x[(tokens.len() - 1) * hidden..]),
            LogitsWanted::Each(each) => {
                for (i, x) in x.chunks(LOGITS_CHUNK * hidden).enumerate() {
                    for (j, logits) in
                        self.model.logits(x).chunks_exact(self.model.lm_head.rows()).enumerate()
                    {
                        each(i * LOGITS_CHUNK + j, logits);
                    }
                }
            }
        }
        Ok(())
    }

    fn decode(&mut self, steps: &mut [DecodeStep<'_, ReferenceState>]) -> Result<(), BackendError> {
        for step in &*steps {
            self.check(step.state, &[step.token])?;
        }
        for step in &mut *steps {
            self.reserve(step.state, 1)?;
        }
        for step in steps {
            let x = self.forward(step.state, &[step.token]);
            *step.logits = self.model.logits(&x);
        }
        Ok(())
    }

    fn snapshot(&mut self, state: &ReferenceState) -> Result<Arc<ReferenceState>, BackendError> {
        Ok(Arc::new(state.clone()))
    }

    fn restore(&mut self, snapshot: &Arc<ReferenceState>) -> Result<ReferenceState, BackendError> {
        Ok((**snapshot).clone())
    }

    fn snapshot_bytes(&self, snapshot: &Arc<ReferenceState>) -> usize {
        snapshot.bytes()
    }
}
