//! [`CpuBackend`].

use crate::{
    CpuError, CpuOptions, CpuSnapshot, CpuState, DEFAULT_PREFILL_CHUNK, Profile, Tier, WeightMemory,
    activations::Product,
    buffers::Buffers,
    forward::{DECODE_ROWS, Span, forward, logits},
    input::Input,
    kv::KvShape,
    machine::Machine,
    model::Model,
    pool::{Pool, WorkerLocal, default_threads},
    resident,
    rotary::Rotary,
    scratch::Scratch,
    simd::Kernels,
};
use lily_checkpoint::Checkpoint;
use lily_engine::{
    Backend, BackendError, DecodeStep, LogitsWanted, SequenceState, TokenId, evaluation::ExpertChoices,
};
use std::sync::Arc;

/// The model on the CPU.
///
/// Every output of every linear layer is computed by one thread in an order that depends on the shapes alone, so
/// results do not depend on the number of threads, and those of decode not on what else is in the batch.
pub struct CpuBackend {
    model: Model,
    machine: Machine,
    rotary: Rotary,
    kv: KvShape,
    /// Of decode, and of prefill: grown to what the longest call needed.
    decode_buffers: Buffers,
    prefill_buffers: Option<Buffers>,
    /// Input of the head, and logits of several rows.
    head: Input,
    logits: Vec<f32>,
    weights: WeightMemory,
    max_context: usize,
    prefill_chunk: usize,
    forced_experts: Option<Arc<ExpertChoices>>,
}

impl CpuBackend {
    /// The model on this machine. Weights are never repacked; [`CpuOptions::weights`] says where they are.
    ///
    /// # Errors
    /// [`CpuError`]: weights that do not fit the config, an instruction set that is not there, or no memory.
    pub fn new(checkpoint: &Checkpoint, options: &CpuOptions) -> Result<Self, CpuError> {
        let tier = options.simd.unwrap_or_else(Tier::detect);
        let kernels = Kernels::for_tier(tier).ok_or_else(|| CpuError::NoSuchTier {
            tier,
            available: Tier::available().into_iter().map(Tier::name).collect::<Vec<_>>().join(", "),
        })?;
        let mut model = Model::new(checkpoint, options.precision)?;
        let pool = Pool::new(options.threads.unwrap_or_else(default_threads));
        resident::place(&mut model, options.weights, pool.threads())?;
        let machine = Machine {
            scratch: WorkerLocal::new(pool.threads(), || Scratch::new(&model.config, DECODE_ROWS)),
            pool,
            kernels,
            precision: options.precision,
            profile: None,
        };
        let rotary = Rotary::new(model.config.attention.rotary_dim, model.config.attention.rope_theta);
        let limit = model.config.max_position_embeddings;
        let memory = |error: BackendError| CpuError::Dimensions(error.to_string());
        let decode_buffers = Buffers::new(&model, &rotary, 1, Product::Vector).map_err(memory)?;
        let head = Input::new(DECODE_ROWS, model.config.hidden_size, &model.hidden_forms, Product::Vector);
        Ok(Self {
            kv: KvShape::new(&model.config.attention, options.precision),
            weights: options.weights,
            max_context: options.max_context.unwrap_or(limit).min(limit),
            prefill_chunk: options.prefill_chunk.unwrap_or(DEFAULT_PREFILL_CHUNK).max(1),
            model,
            machine,
            rotary,
            decode_buffers,
            prefill_buffers: None,
            head: head.map_err(memory)?,
            logits: Vec::new(),
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

    /// Makes the prefill buffers large enough for `rows` rows.
    fn reserve_prefill(&mut self, rows: usize) -> Result<(), BackendError> {
        if self.prefill_buffers.as_ref().is_none_or(|buffers| buffers.rows() < rows) {
            let rows = rows.next_power_of_two().min(self.prefill_chunk).max(rows);
            self.prefill_buffers = None;
            self.prefill_buffers = Some(Buffers::new(&self.model, &self.rotary, rows, Product::Matrix)?);
        }
        Ok(())
    }
}

impl Backend for CpuBackend {
    type State = CpuState;
    type Snapshot = CpuSnapshot;

    fn describe(&self) -> String {
        format!(
            "CPU, {}, {} thread{}, {} weights, {}, {} KV",
            self.machine.kernels.tier(),
            self.machine.pool.threads(),
            if self.machine.pool.threads() == 1 { "" } else { "s" },
            self.weights,
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
        BackendError::check_prefill_length(tokens.len(), self.prefill_chunk)?;
        self.reserve_prefill(tokens.len())?;
        state.reserve(tokens.len())?;
        let Self { model, machine, rotary, head, prefill_buffers, .. } = self;
        let Some(buffers) = prefill_buffers else { return Ok(()) };
        let forced = self.forced_experts.as_deref();
        forward(machine, model, rotary, forced, &mut [Span { state, tokens }], buffers);
        let (hidden, vocab) = (model.config.hidden_size, model.config.vocab_size);
        let x = &buffers.x[..tokens.len() * hidden];
        match wanted {
            LogitsWanted::None => {}
            LogitsWanted::Last(out) => {
                out.clear();
                out.resize(vocab, 0.0);
                logits(machine, model, &x[x.len() - hidden..], head, out);
            }
            LogitsWanted::Each(each) => {
                self.logits.resize(DECODE_ROWS * vocab, 0.0);
                for (block, x) in x.chunks(DECODE_ROWS * hidden).enumerate() {
                    let out = &mut self.logits[..x.len() / hidden * vocab];
                    logits(machine, model, x, head, out);
                    for (row, logits) in out.chunks_exact(vocab).enumerate() {
                        each(block * DECODE_ROWS + row, logits);
                    }
                }
            }
        }
        Ok(())
    }

    fn decode(&mut self, steps: &mut [DecodeStep<'_, CpuState>]) -> Result<(), BackendError> {
        for step in steps.iter() {
            self.check(step.state, std::iter::once(&step.token))?;
        }
        let rows = steps.len().min(DECODE_ROWS);
        if self.decode_buffers.rows() < rows {
            self.decode_buffers = Buffers::new(&self.model, &self.rotary, DECODE_ROWS, Product::Vector)?;
        }
        for step in steps.iter_mut() {
            step.state.reserve(1)?;
        }
        let vocab = self.model.config.vocab_size;
        for steps in steps.chunks_mut(DECODE_ROWS) {
            let Self { model, machine, rotary, head, decode_buffers: buffers, .. } = self;
            let forced = self.forced_experts.as_deref();
            fn span<'a>(step: &'a mut DecodeStep<'_, CpuState>) -> Span<'a> {
                Span { state: step.state, tokens: std::slice::from_ref(&step.token) }
            }
            if let [step] = steps {
                forward(machine, model, rotary, forced, &mut [span(step)], buffers);
                step.logits.clear();
                step.logits.resize(vocab, 0.0);
                logits(machine, model, &buffers.x[..model.config.hidden_size], head, step.logits);
                continue;
            }
            let mut spans: Vec<Span<'_>> = steps.iter_mut().map(span).collect();
            forward(machine, model, rotary, forced, &mut spans, buffers);
            let x = &buffers.x[..steps.len() * model.config.hidden_size];
            self.logits.resize(steps.len() * vocab, 0.0);
            logits(machine, model, x, head, &mut self.logits);
            for (step, logits) in steps.iter_mut().zip(self.logits.chunks_exact(vocab)) {
                step.logits.clear();
                step.logits.extend_from_slice(logits);
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
