//! [`CpuBackend`].

use crate::{
    CpuError, CpuOptions, CpuSnapshot, CpuState, DEFAULT_PREFILL_CHUNK, Profile, Tier,
    buffers::Buffers,
    forward::{Span, forward, logits},
    kv::KvShape,
    machine::Machine,
    model::Model,
    pool::{Pool, WorkerLocal, default_threads},
    rotary::Rotary,
    scratch::Scratch,
    simd::Kernels,
};
use lily_checkpoint::Checkpoint;
use lily_engine::{
    Backend, BackendError, DecodeStep, LogitsWanted, SequenceState, TokenId, evaluation::ExpertChoices,
};
use std::sync::Arc;

/// Sequences that go through the layers together in one decode step; a larger batch goes in several.
const DECODE_ROWS: usize = 8;

/// The model on the CPU.
///
/// Every output of every linear layer is computed by one thread in an order that depends on the shapes alone, so
/// results do not depend on the number of threads, and those of decode not on what else is in the batch.
pub struct CpuBackend {
    model: Model,
    machine: Machine,
    rotary: Rotary,
    kv: KvShape,
    buffers: Buffers,
    max_context: usize,
    prefill_chunk: usize,
    forced_experts: Option<Arc<ExpertChoices>>,
}

impl CpuBackend {
    /// The model on this machine. Weights stay where the checkpoint has them; no repacking, no copy.
    ///
    /// # Errors
    /// [`CpuError`]: weights that do not fit the config, or an instruction set that is not there.
    pub fn new(checkpoint: &Checkpoint, options: &CpuOptions) -> Result<Self, CpuError> {
        let tier = options.simd.unwrap_or_else(Tier::detect);
        let kernels = Kernels::for_tier(tier).ok_or_else(|| CpuError::NoSuchTier {
            tier,
            available: Tier::available().into_iter().map(Tier::name).collect::<Vec<_>>().join(", "),
        })?;
        let model = Model::new(checkpoint, options.precision)?;
        let pool = Pool::new(options.threads.unwrap_or_else(default_threads));
        let machine = Machine {
            scratch: WorkerLocal::new(pool.threads(), Scratch::default),
            pool,
            kernels,
            precision: options.precision,
            profile: None,
        };
        let rotary = Rotary::new(model.config.attention.rotary_dim, model.config.attention.rope_theta);
        let limit = model.config.max_position_embeddings;
        let buffers =
            Buffers::new(&model, &rotary, 1).map_err(|error| CpuError::Dimensions(error.to_string()))?;
        Ok(Self {
            kv: KvShape::new(&model.config.attention, options.precision),
            max_context: options.max_context.unwrap_or(limit).min(limit),
            prefill_chunk: options.prefill_chunk.unwrap_or(DEFAULT_PREFILL_CHUNK).max(1),
            model,
            machine,
            rotary,
            buffers,
            forced_experts: None,
        })
    }

    /// Every sequence goes to these experts, position by position, instead of the router's own choice; its weights
    /// stay the router's. For comparing paths whose routers would differ at near ties.
    #[must_use]
    pub fn with_forced_experts(mut self, choices: Arc<ExpertChoices>) -> Self {
        self.forced_experts = Some(choices);
        self
    }

    /// Starts (or restarts) collecting time and bytes per operation.
    pub fn start_profile(&mut self) {
        self.machine.profile = Some(Box::default());
    }

    /// Ends collecting and hands out what was collected since [`CpuBackend::start_profile`].
    pub fn take_profile(&mut self) -> Option<Profile> {
        self.machine.profile.take().map(|profile| *profile)
    }

    fn check<'a>(
        &self,
        state: &CpuState,
        tokens: impl ExactSizeIterator<Item = &'a TokenId>,
    ) -> Result<(), BackendError> {
        let vocab = self.model.config.vocab_size;
        let wanted = state.position() + tokens.len();
        for token in tokens {
            if token.0 as usize >= vocab {
                return Err(BackendError::TokenOutOfRange { id: token.0, vocab });
            }
        }
        if wanted > self.max_context {
            return Err(BackendError::ContextFull { wanted, limit: self.max_context });
        }
        Ok(())
    }

    /// Makes the buffers large enough for `rows` rows.
    fn reserve(&mut self, rows: usize) -> Result<(), BackendError> {
        if self.buffers.rows() < rows {
            let rows = rows.next_power_of_two().min(self.prefill_chunk.max(DECODE_ROWS)).max(rows);
            self.buffers = Buffers::new(&self.model, &self.rotary, rows)?;
        }
        Ok(())
    }
}

impl Backend for CpuBackend {
    type State = CpuState;
    type Snapshot = CpuSnapshot;

    fn describe(&self) -> String {
        format!(
            "CPU, {}, {} thread{}, {}, {} KV",
            self.machine.kernels.tier(),
            self.machine.pool.threads(),
            if self.machine.pool.threads() == 1 { "" } else { "s" },
            self.machine.precision,
            if self.kv.wide { "f32" } else { "f16" },
        )
    }

    fn vocab_size(&self) -> usize {
        self.model.config.vocab_size
    }

    fn max_context(&self) -> usize {
        self.max_context
    }

    fn prefill_chunk(&self) -> usize {
        self.prefill_chunk
    }

    fn new_state(&mut self) -> Result<CpuState, BackendError> {
        CpuState::new(&self.model, self.kv)
    }

    fn prefill(
        &mut self,
        state: &mut CpuState,
        tokens: &[TokenId],
        wanted: LogitsWanted<'_>,
    ) -> Result<(), BackendError> {
        self.check(state, tokens.iter())?;
        if tokens.is_empty() || tokens.len() > self.prefill_chunk {
            let (given, limit) = (tokens.len(), self.prefill_chunk);
            return Err(BackendError::Device(format!(
                "a prefill call takes 1 to {limit} tokens, {given} given"
            )));
        }
        self.reserve(tokens.len())?;
        state.reserve(tokens.len())?;
        let Self { model, machine, rotary, buffers, .. } = self;
        let forced = self.forced_experts.as_deref();
        forward(machine, model, rotary, forced, &mut [Span { state, tokens }], buffers);
        match wanted {
            LogitsWanted::None => {}
            LogitsWanted::Last(out) => logits(machine, model, tokens.len() - 1, buffers, out),
            LogitsWanted::Each(each) => {
                let mut row = std::mem::take(&mut buffers.logits);
                for index in 0..tokens.len() {
                    logits(machine, model, index, buffers, &mut row);
                    each(index, &row);
                }
                buffers.logits = row;
            }
        }
        Ok(())
    }

    fn decode(&mut self, steps: &mut [DecodeStep<'_, CpuState>]) -> Result<(), BackendError> {
        for step in steps.iter() {
            self.check(step.state, std::iter::once(&step.token))?;
        }
        self.reserve(steps.len().min(DECODE_ROWS))?;
        for step in steps.iter_mut() {
            step.state.reserve(1)?;
        }
        for steps in steps.chunks_mut(DECODE_ROWS) {
            let Self { model, machine, rotary, buffers, .. } = self;
            let forced = self.forced_experts.as_deref();
            let mut spans: Vec<Span<'_>> = steps
                .iter_mut()
                .map(|step| Span { state: step.state, tokens: std::slice::from_ref(&step.token) })
                .collect();
            forward(machine, model, rotary, forced, &mut spans, buffers);
            for (row, step) in steps.iter_mut().enumerate() {
                logits(machine, model, row, buffers, step.logits);
            }
        }
        Ok(())
    }

    fn snapshot(&mut self, state: &CpuState) -> Result<CpuSnapshot, BackendError> {
        Ok(CpuSnapshot(Arc::new(state.clone())))
    }

    fn restore(&mut self, snapshot: &CpuSnapshot) -> Result<CpuState, BackendError> {
        Ok((*snapshot.0).clone())
    }

    fn snapshot_bytes(&self, snapshot: &CpuSnapshot) -> usize {
        snapshot.0.bytes()
    }
}
