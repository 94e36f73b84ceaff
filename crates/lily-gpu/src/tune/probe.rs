//! What is recorded, run and compared to try a shape: a step in a context, or a chunk.

use super::Options;
use crate::{
    Device, GpuError, GpuModel, Pass, Phase, Recorder, Recording, StateBuffers,
    plan::{
        decode::{self, DecodeTemporaries},
        prefill::{self, Chunk, PrefillTemporaries},
    },
};
use lily_kernels::step;

/// A phase's work.
pub(super) struct Probe {
    phase: Phase,
    rows: usize,
    context: usize,
    /// Tokens before what is compared.
    prompt: usize,
    /// What is timed runs on.
    state: StateBuffers,
    /// As the prompt left it: what is compared starts from there.
    prompted: StateBuffers,
    decode: DecodeTemporaries,
    prefill: PrefillTemporaries,
    /// Of the shapes that the model had when the probe was made.
    wanted: Vec<f32>,
}

impl Probe {
    pub(super) fn new(model: &GpuModel, phase: Phase, options: &Options) -> Result<Self, GpuError> {
        let (device, config) = (&*model.device, &model.config);
        let longest = config.max_position_embeddings;
        let context = options.context.clamp(2, longest);
        let rows = options.rows.clamp(1, longest / 2);
        let prompt = options.prompt.clamp(1, (context - 1).min(longest - rows));
        let capacity = StateBuffers::capacity_for(context.max(prompt + rows), longest);
        let most = rows.max(prompt);
        let mut probe = Self {
            phase,
            rows,
            context,
            prompt,
            state: StateBuffers::new(device, config, capacity)?,
            prompted: StateBuffers::new(device, config, capacity)?,
            decode: DecodeTemporaries::new(device, config, context)?,
            prefill: PrefillTemporaries::new(device, config, most, 1)?,
            wanted: Vec::new(),
        };
        for layer in probe.state.layers.iter().chain(&probe.prompted.layers) {
            // A cache that was never written may hold anything: not a number would spread into what is timed.
            if let crate::LayerState::Attention(kv) = layer {
                device.zero(&kv.keys)?;
                device.zero(&kv.values)?;
            }
        }
        let vocab = u32::try_from(config.vocab_size).unwrap_or(u32::MAX).max(1);
        let ids = (0..most as u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab);
        let ids: Vec<u8> = ids.flat_map(u32::to_le_bytes).collect();
        device.upload(&probe.prefill.tokens, &ids)?;
        let prompt = Chunk { rows: prompt, position: 0 };
        prefill::run_chunk(model, &probe.prompted, &probe.prefill, prompt, Pass::Serial)?;
        let recording = probe.record(model)?;
        probe.wanted = probe.logits(model, &recording)?;
        probe.restore(model)?;
        probe.write_step(device, probe.context - 1)?;
        Ok(probe)
    }

    /// The logits that others are compared with.
    pub(super) fn into_logits(self) -> Vec<f32> {
        self.wanted
    }

    /// What is timed, with the model's shapes as they are.
    pub(super) fn record(&self, model: &GpuModel) -> Result<Recording, GpuError> {
        let mut recorder = Recorder::new();
        match self.phase {
            Phase::Decode => {
                decode::record_step(&mut recorder, model, &self.state, &self.decode, self.context)?;
            }
            Phase::Prefill => {
                let chunk = Chunk { rows: self.rows, position: self.prompt };
                prefill::record_chunk(&mut recorder, model, &self.state, &self.prefill, chunk)?;
                prefill::record_logits(&mut recorder, model, &self.prefill, self.rows - 1..self.rows)?;
            }
        }
        Ok(recorder.finish()?)
    }

    /// How far the logits of a recording, run after the prompt, are from those of the first shapes, relative to their
    /// size; infinite for what is no number.
    pub(super) fn distance(&self, model: &GpuModel, recording: &Recording) -> Result<f64, GpuError> {
        let found = self.logits(model, recording)?;
        self.restore(model)?;
        self.write_step(&*model.device, self.context - 1)?;
        let (mut off, mut size) = (0.0, 0.0);
        for (found, wanted) in found.iter().zip(&self.wanted) {
            off += f64::from(found - wanted).powi(2);
            size += f64::from(*wanted).powi(2);
        }
        let distance = (off / size.max(f64::MIN_POSITIVE)).sqrt();
        Ok(if distance.is_finite() { distance } else { f64::INFINITY })
    }

    /// Runs a recording after the prompt.
    fn logits(&self, model: &GpuModel, recording: &Recording) -> Result<Vec<f32>, GpuError> {
        let device = &*model.device;
        self.restore(model)?;
        self.write_step(device, self.prompt)?;
        device.run(recording, Pass::Serial)?;
        let logits = match self.phase {
            Phase::Decode => &self.decode.logits,
            Phase::Prefill => &self.prefill.logits,
        };
        let mut bytes = vec![0; model.config.vocab_size * 4];
        device.download(logits, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    fn restore(&self, model: &GpuModel) -> Result<(), GpuError> {
        self.prompted.copy_to(&*model.device, &model.config, self.prompt, &self.state)
    }

    fn write_step(&self, device: &dyn Device, position: usize) -> Result<(), GpuError> {
        let mut words = [0_u32; step::WORDS];
        words[step::POSITION] = position as u32;
        words[step::TOKEN] = 1;
        device.upload(&self.state.step, &words.map(u32::to_le_bytes).concat())
    }
}

/// True if both launch the same kernels over the same grids with the same parameters.
pub(super) fn same(one: &Recording, other: &Recording) -> bool {
    let (one, other) = (one.dispatches(), other.dispatches());
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.kernel.key() == other.kernel.key()
                && one.kernel.entry() == other.kernel.entry()
                && one.groups == other.groups
                && one.params == other.params
        })
}
