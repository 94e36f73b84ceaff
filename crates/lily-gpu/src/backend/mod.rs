//! [`GpuBackend`].

mod choose;
mod effects;
mod measure;
mod slot;
mod trace;

pub use measure::OpTime;
pub use slot::GpuState;

use crate::{
    Device, GpuError, GpuModel, GpuSnapshot, MemoryPlan, Optimisation, Pass, PlanReport, Program, Recorder,
    Recording, StateBuffers, StateSize, Switches,
    plan::{
        choice::Choice,
        decode::{self, DecodeTemporaries},
        prefill::{self, Chunk, PrefillTemporaries, rows_within},
    },
    state::Frozen,
    tune::fit,
    weights::{WeightPlan, WeightRoute},
};
use lily_checkpoint::Checkpoint;
use lily_engine::{
    Backend, BackendError, ChoicePlan, ChoiceStep, Chosen, DecodeStep, LogitsWanted, TokenId,
    evaluation::ExpertChoices,
};
use lily_kernels::{Platform, step};
use slot::{Pool, ProgramKey, Slot};
use std::sync::Arc;
use trace::Trace;

/// Tokens per prefill call unless [`GpuOptions::prefill_chunk`] says otherwise, or a device wants its launches shorter.
pub const DEFAULT_PREFILL_CHUNK: usize = 4096;
/// Rows of logits that are computed at once when all are wanted.
const LOGIT_ROWS: usize = 32;

/// How a [`GpuBackend`] is to run.
#[derive(Debug, Clone, Default)]
pub struct GpuOptions {
    /// The longest context in tokens; the checkpoint's own when not given. KV memory grows with use, not with this.
    pub max_context: Option<usize>,
    /// The most tokens in one prefill call; temporaries grow with it.
    pub prefill_chunk: Option<usize>,
    /// Which optimisations are on.
    pub switches: Switches,
    /// How the weights get onto the device.
    pub weights: WeightRoute,
}

/// The model on a GPU.
pub struct GpuBackend {
    model: GpuModel,
    decode: DecodeTemporaries,
    prefill: PrefillTemporaries,
    pool: Arc<Pool>,
    plan: MemoryPlan,
    max_context: usize,
    prefill_chunk: usize,
    trace: Option<Trace>,
}

impl GpuBackend {
    /// Loads a checkpoint's weights onto a device.
    ///
    /// # Errors
    /// [`GpuError`]: weights that the kernels do not read, a model that does not fit (with the memory plan), the device's.
    pub fn new(
        device: Arc<dyn Device>,
        checkpoint: &Checkpoint,
        options: &GpuOptions,
    ) -> Result<Self, GpuError> {
        let config = &checkpoint.config;
        let limit = config.max_position_embeddings;
        let max_context = options.max_context.unwrap_or(limit).min(limit);
        let prefill_chunk = options
            .prefill_chunk
            .unwrap_or_else(|| rows_within(config, device.launch_operations(), DEFAULT_PREFILL_CHUNK))
            .min(max_context)
            .max(1);
        let weights = WeightPlan::routed(checkpoint, &*device, options.weights)?;
        let temporaries = DecodeTemporaries::bytes(config, max_context)
            + PrefillTemporaries::bytes(config, prefill_chunk, LOGIT_ROWS)
            + Choice::bytes(config) as u64;
        let plan = MemoryPlan::new(config, weights.bytes(), max_context, temporaries, device.limits().memory)
            .with_mapped(weights.mapped_bytes());
        tracing::info!("memory plan\n{plan}");
        plan.check()?;
        let decode = DecodeTemporaries::new(&*device, config, max_context)?;
        let prefill = PrefillTemporaries::new(&*device, config, prefill_chunk, LOGIT_ROWS)?;
        let weights = weights.load(&*device)?;
        let model = GpuModel::new(device, config.clone(), weights, options.switches);
        model.read_kept();
        // Elsewhere every launch that compiles may run.
        if model.device.platform() == Platform::Metal {
            let shapes = fit(&*model.device, checkpoint, options.switches, model.shapes(), prefill_chunk)?;
            if shapes != model.shapes() {
                model.set_shapes(shapes);
            }
        }
        Ok(Self {
            model,
            decode,
            prefill,
            pool: Arc::default(),
            plan,
            max_context,
            prefill_chunk,
            trace: None,
        })
    }

    /// What is allocated for what.
    pub fn memory_plan(&self) -> &MemoryPlan {
        &self.plan
    }

    /// Switches optimisations; what was prepared for the others is kept for them.
    pub fn set_switches(&mut self, switches: Switches) {
        self.model.switches = switches;
    }

    /// Waits until nothing is under way.
    ///
    /// # Errors
    /// The first error of anything that was submitted.
    pub fn settle(&self) -> Result<(), GpuError> {
        self.model.device.download(&self.decode.logits.slice(0, 4), &mut [0; 4])
    }

    /// From now on every pass runs dispatch by dispatch and remembers the experts that its routers chose. For tests.
    pub fn trace_experts(&mut self) {
        self.trace = Some(Trace::new(self.model.config.moe.experts_per_token));
    }

    /// Ends what [`GpuBackend::trace_experts`] began: the experts of all positions since, of one sequence.
    pub fn take_experts(&mut self) -> Option<ExpertChoices> {
        let config = &self.model.config;
        let trace = self.trace.take()?;
        Some(ExpertChoices::new(config.layers.len(), config.moe.experts_per_token, trace.experts()))
    }

    /// Launches, levels and bytes of one decode step in a context of `context` tokens.
    ///
    /// # Errors
    /// The device's.
    pub fn explain_decode(&self, context: usize) -> Result<PlanReport, GpuError> {
        let state = self.state(context + 1)?;
        Ok(self.step_recording(state.buffers()?, context + 1)?.report())
    }

    /// Launches, levels and bytes of one prefill chunk of `rows` tokens after `position` others.
    ///
    /// # Errors
    /// The device's.
    pub fn explain_prefill(&self, rows: usize, position: usize) -> Result<PlanReport, GpuError> {
        let state = self.state(position + rows)?;
        Ok(self.chunk_recording(state.buffers()?, Chunk { rows, position }, true)?.report())
    }

    /// Where the time of one decode step in a context of `context` tokens goes.
    ///
    /// # Errors
    /// The device's.
    pub fn profile_decode(&self, context: usize) -> Result<Option<Vec<OpTime>>, GpuError> {
        let state = self.state(context + 1)?;
        self.write_step(state.buffers()?, TokenId(0), context)?;
        self.profile(&self.step_recording(state.buffers()?, context + 1)?)
    }

    /// Where the time of one prefill chunk of `rows` tokens after `position` others goes.
    ///
    /// # Errors
    /// The device's.
    pub fn profile_prefill(&self, rows: usize, position: usize) -> Result<Option<Vec<OpTime>>, GpuError> {
        let state = self.state(position + rows)?;
        let vocab = self.model.config.vocab_size as u32;
        let ids = (0..rows as u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab.max(1));
        let ids: Vec<u8> = ids.flat_map(u32::to_le_bytes).collect();
        self.model.device.upload(&self.prefill.tokens, &ids)?;
        self.profile(&self.chunk_recording(state.buffers()?, Chunk { rows, position }, true)?)
    }

    fn step_recording(&self, buffers: &StateBuffers, context: usize) -> Result<Recording, GpuError> {
        let mut recorder = Recorder::new();
        decode::record_step(&mut recorder, &self.model, buffers, &self.decode, decode::bucket(context))?;
        Ok(recorder.finish()?)
    }

    /// A chunk, with the logits of its last row if wanted.
    fn chunk_recording(
        &self,
        buffers: &StateBuffers,
        chunk: Chunk,
        last: bool,
    ) -> Result<Recording, GpuError> {
        let mut recorder = Recorder::new();
        prefill::record_chunk(&mut recorder, &self.model, buffers, &self.prefill, chunk)?;
        if last {
            let rows = chunk.rows - 1..chunk.rows;
            prefill::record_logits(&mut recorder, &self.model, &self.prefill, rows)?;
        }
        Ok(recorder.finish()?)
    }

    fn state(&self, capacity: usize) -> Result<GpuState, GpuError> {
        let capacity = StateBuffers::capacity_for(capacity, self.max_context);
        let slot = self.pool.take(&self.model, capacity)?;
        slot.buffers.clear(&*self.model.device)?;
        Ok(GpuState::new(slot, 0, self.pool.clone(), StateSize::of(&self.model.config)))
    }

    fn pass(&self) -> Pass {
        if self.model.switches.has(Optimisation::ConcurrentPass) { Pass::Early } else { Pass::Serial }
    }

    fn check<'a>(
        &self,
        position: usize,
        tokens: impl ExactSizeIterator<Item = &'a TokenId>,
    ) -> Result<(), BackendError> {
        let vocab = self.model.config.vocab_size;
        let wanted = position + tokens.len();
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

    /// Makes room for `tokens` more positions.
    fn reserve(&self, state: &mut GpuState, tokens: usize) -> Result<(), GpuError> {
        let (used, wanted) = (state.position, state.position + tokens);
        let slot = state.slot()?;
        if slot.buffers.capacity < wanted {
            let capacity = StateBuffers::capacity_for(wanted, self.max_context);
            slot.buffers.grow(&*self.model.device, &self.model.config, capacity, used)?;
            // They are bound to the old buffers.
            slot.programs.clear();
        }
        Ok(())
    }

    /// The most tokens of a chunk: without `chunked-prefill` a whole prompt.
    fn longest_chunk(&self) -> usize {
        if self.model.switches.has(Optimisation::ChunkedPrefill) {
            self.prefill_chunk
        } else {
            self.max_context
        }
    }

    /// Makes room for a chunk that is longer than the memory plan's.
    fn reserve_chunk(&mut self, rows: usize) -> Result<(), GpuError> {
        if rows > self.prefill.limit() {
            let device = &*self.model.device;
            self.prefill = PrefillTemporaries::new(device, &self.model.config, rows, LOGIT_ROWS)?;
        }
        Ok(())
    }

    /// The program of a step for this slot, recorded if it is not there yet.
    fn step_program(&self, slot: &mut Slot, context: usize) -> Result<Program, GpuError> {
        let switches = self.model.switches;
        let key = ProgramKey { bucket: decode::bucket(context), choice: None, switches };
        if let Some(program) = slot.programs.get(&key) {
            return Ok(program.clone());
        }
        let recording = self.step_recording(&slot.buffers, context)?;
        let program = self.model.device.prepare(&recording, self.pass())?;
        slot.programs.insert(key, program.clone());
        Ok(program)
    }

    fn write_step(&self, buffers: &StateBuffers, token: TokenId, position: usize) -> Result<(), GpuError> {
        self.write_words(buffers, &choose::step_words(token, position))
    }

    fn write_words(&self, buffers: &StateBuffers, words: &[u32; step::WORDS]) -> Result<(), GpuError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.model.device.upload(&buffers.step, &bytes)
    }

    fn read_logits(&self, from: &crate::View, out: &mut Vec<f32>) -> Result<(), GpuError> {
        let vocab = self.model.config.vocab_size;
        let mut bytes = vec![0; vocab * 4];
        self.model.device.download(from, &mut bytes)?;
        out.clear();
        out.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        Ok(())
    }

    fn decode_one(&mut self, step: &mut DecodeStep<'_, GpuState>) -> Result<(), GpuError> {
        self.reserve(step.state, 1)?;
        step.state.choosing = None;
        let position = step.state.position;
        let slot = step.state.slot()?;
        self.write_step(&slot.buffers, step.token, position)?;
        if self.trace.is_some() {
            let recording = self.step_recording(&slot.buffers, position + 1)?;
            let Self { trace, model, .. } = self;
            trace.as_mut().map_or(Ok(()), |trace| trace.run(&*model.device, &recording, 1))?;
        } else {
            let program = self.step_program(slot, position + 1)?;
            self.model.device.submit(&program)?;
        }
        self.read_logits(&self.decode.logits, step.logits)?;
        step.state.position += 1;
        Ok(())
    }

    fn read_chunk(
        &mut self,
        state: &mut GpuState,
        tokens: &[TokenId],
        wanted: LogitsWanted<'_>,
    ) -> Result<(), GpuError> {
        self.reserve(state, tokens.len())?;
        self.reserve_chunk(tokens.len())?;
        state.choosing = None;
        let ids: Vec<u8> = tokens.iter().flat_map(|token| token.0.to_le_bytes()).collect();
        self.model.device.upload(&self.prefill.tokens, &ids)?;
        let chunk = Chunk { rows: tokens.len(), position: state.position };
        let pass = self.pass();
        let last = matches!(wanted, LogitsWanted::Last(_));
        if self.trace.is_some() {
            let recording = self.chunk_recording(state.buffers()?, chunk, last)?;
            let Self { trace, model, .. } = self;
            trace.as_mut().map_or(Ok(()), |trace| trace.run(&*model.device, &recording, tokens.len()))?;
        } else {
            let run = if self.model.switches.has(Optimisation::GpuRouting) {
                prefill::run_chunk
            } else {
                prefill::run_chunk_routed_by_host
            };
            run(&self.model, state.buffers()?, &self.prefill, chunk, pass)?;
            if last {
                let mut recorder = Recorder::new();
                let row = chunk.rows - 1..chunk.rows;
                prefill::record_logits(&mut recorder, &self.model, &self.prefill, row)?;
                self.model.device.run(&recorder.finish()?, pass)?;
            }
        }
        match wanted {
            LogitsWanted::None => {}
            LogitsWanted::Last(out) => self.read_logits(&self.prefill.logits, out)?,
            LogitsWanted::Each(each) => self.read_each(tokens.len(), each)?,
        }
        state.position += tokens.len();
        Ok(())
    }

    /// The logits of all rows of the chunk that was run last, a few at a time.
    fn read_each(&self, rows: usize, each: &mut dyn FnMut(usize, &[f32])) -> Result<(), GpuError> {
        let row_bytes = self.model.config.vocab_size * 4;
        let mut logits = Vec::new();
        for start in (0..rows).step_by(LOGIT_ROWS) {
            let block = start..rows.min(start + LOGIT_ROWS);
            let mut recorder = Recorder::new();
            prefill::record_logits(&mut recorder, &self.model, &self.prefill, block.clone())?;
            self.model.device.run(&recorder.finish()?, self.pass())?;
            for row in block {
                self.read_logits(
                    &self.prefill.logits.slice((row - start) * row_bytes, row_bytes),
                    &mut logits,
                )?;
                each(row, &logits);
            }
        }
        Ok(())
    }
}

impl Backend for GpuBackend {
    type State = GpuState;
    type Snapshot = GpuSnapshot;

    fn describe(&self) -> String {
        let off: Vec<&str> = self.model.switches.off().map(Optimisation::name).collect();
        let without = if off.is_empty() { String::new() } else { format!(", without {}", off.join(", ")) };
        format!("{}, bf16 activations, bf16 KV{without}", self.model.device.describe())
    }

    fn vocab_size(&self) -> usize {
        self.model.config.vocab_size
    }

    fn max_context(&self) -> usize {
        self.max_context
    }

    fn prefill_chunk(&self) -> usize {
        self.longest_chunk()
    }

    fn new_state(&mut self) -> Result<GpuState, BackendError> {
        Ok(self.state(1)?)
    }

    fn prefill(
        &mut self,
        state: &mut GpuState,
        tokens: &[TokenId],
        wanted: LogitsWanted<'_>,
    ) -> Result<(), BackendError> {
        self.check(state.position, tokens.iter())?;
        BackendError::check_prefill_length(tokens.len(), self.longest_chunk())?;
        Ok(self.read_chunk(state, tokens, wanted)?)
    }

    fn decode(&mut self, steps: &mut [DecodeStep<'_, GpuState>]) -> Result<(), BackendError> {
        for step in steps.iter() {
            self.check(step.state.position, std::iter::once(&step.token))?;
        }
        Ok(steps.iter_mut().try_for_each(|step| self.decode_one(step))?)
    }

    fn start_choosing(&mut self, state: &mut GpuState, plan: &ChoicePlan<'_>) -> Result<bool, BackendError> {
        Ok(self.begin_choosing(state, plan)?)
    }

    fn choose(&mut self, step: ChoiceStep<'_, GpuState>) -> Result<Chosen, BackendError> {
        // A step that has begun was checked when it was.
        if step.state.choosing.as_ref().is_some_and(|choosing| choosing.ahead.is_none()) {
            self.check(step.state.position, std::iter::once(&step.token))?;
        }
        Ok(self.choose_next(step)?)
    }

    fn snapshot(&mut self, state: &GpuState) -> Result<GpuSnapshot, BackendError> {
        let (device, config) = (&*self.model.device, &self.model.config);
        let capacity = state.position.next_multiple_of(64).max(64);
        let buffers = StateBuffers::new(device, config, capacity).map_err(BackendError::from)?;
        state.buffers()?.copy_to(device, config, state.position, &buffers)?;
        let bytes = StateSize::of(config).bytes(capacity);
        Ok(GpuSnapshot(Arc::new(Frozen { buffers, position: state.position, bytes })))
    }

    fn restore(&mut self, snapshot: &GpuSnapshot) -> Result<GpuState, BackendError> {
        let (device, config) = (&*self.model.device, &self.model.config);
        let frozen = &*snapshot.0;
        let capacity = StateBuffers::capacity_for(frozen.position + 1, self.max_context);
        let slot = self.pool.take(&self.model, capacity)?;
        frozen.buffers.copy_to(device, config, frozen.position, &slot.buffers)?;
        Ok(GpuState::new(slot, frozen.position, self.pool.clone(), StateSize::of(config)))
    }

    fn snapshot_bytes(&self, snapshot: &GpuSnapshot) -> usize {
        snapshot.0.bytes
    }
}
