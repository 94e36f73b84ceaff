//! Whole plans of a model, recorded without running them.

use super::parts::{self, Part};
use crate::{
    Device, GpuError, GpuModel, Recorder, Recording, StateBuffers, Switches, View,
    plan::{
        choice::{self, Choice},
        decode::{self, DecodeTemporaries},
        prefill::{self, Chunk, PrefillTemporaries},
    },
    weights::WeightPlan,
};
use lily_checkpoint::Checkpoint;
use std::{collections::BTreeSet, sync::Arc};

/// A recording with its name.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it is, in words.
    pub name: String,
    /// A step's: positions that it serves, the new one included.
    pub context: Option<usize>,
    /// Weights and states that its launches are bound to, all of the model.
    pub parts: Vec<Part>,
    /// What the host has written before them.
    pub given: Vec<View>,
    /// The launches.
    pub recording: Recording,
}

/// A model on a device (a dry one, usually), with everything that its plans are bound to.
pub struct Plans {
    model: GpuModel,
    decode: DecodeTemporaries,
    prefill: PrefillTemporaries,
    /// How a step's token is chosen: the best one until it is set otherwise.
    pub choice: Choice,
    rows: usize,
}

impl Plans {
    /// For the checkpoint's longest context and chunks of up to `rows` rows, or fewer where the device wants its launches
    /// shorter.
    ///
    /// # Errors
    /// As [`crate::GpuBackend::new`].
    pub fn new(
        device: Arc<dyn Device>,
        checkpoint: &Checkpoint,
        switches: Switches,
        rows: usize,
    ) -> Result<Self, GpuError> {
        let config = &checkpoint.config;
        let rows = prefill::rows_within(config, device.launch_operations(), rows);
        let decode = DecodeTemporaries::new(&*device, config, config.max_position_embeddings)?;
        let prefill = PrefillTemporaries::new(&*device, config, rows, 1)?;
        let choice = Choice::new(&*device, config)?;
        let weights = WeightPlan::new(checkpoint)?.load(&*device)?;
        let model = GpuModel::new(device, config.clone(), weights, switches);
        Ok(Self { model, decode, prefill, choice, rows })
    }

    /// The model.
    pub fn model(&self) -> &GpuModel {
        &self.model
    }

    /// The most rows of a chunk.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Switches optimisations.
    pub fn set_switches(&mut self, switches: Switches) {
        self.model.switches = switches;
    }

    /// Ids of the buffers that hold weights.
    pub fn weight_buffers(&self) -> BTreeSet<u64> {
        parts::of_weights(&self.model.weights).iter().map(|part| part.view.buffer().id()).collect()
    }

    /// A token in a context of `context` positions, its own included: all layers, the head, the choice of the next.
    ///
    /// # Errors
    /// As [`decode::record_step`].
    pub fn step(&self, context: usize) -> Result<Plan, GpuError> {
        let state = self.state(context)?;
        let mut recorder = Recorder::new();
        decode::record_step(&mut recorder, &self.model, &state, &self.decode, context)?;
        choice::record(&mut recorder, &self.model, &state, &self.decode, &self.choice)?;
        let name = format!("a token in a context of {context}");
        let mut given = self.choice.given();
        given.push(state.step.clone());
        let (parts, recording) = (self.parts(&state), recorder.finish()?);
        Ok(Plan { name, context: Some(decode::bucket(context)), parts, given, recording })
    }

    /// A chunk of `rows` tokens after `position` others, and the logits of its last.
    ///
    /// # Errors
    /// As [`prefill::record_chunk`].
    pub fn chunk(&self, rows: usize, position: usize) -> Result<Plan, GpuError> {
        let state = self.state(position + rows)?;
        let mut recorder = Recorder::new();
        let chunk = Chunk { rows, position };
        prefill::record_chunk(&mut recorder, &self.model, &state, &self.prefill, chunk)?;
        prefill::record_logits(&mut recorder, &self.model, &self.prefill, rows - 1..rows)?;
        let name = format!("{rows} tokens after {position}");
        let given = vec![self.prefill.tokens.slice(0, 4 * rows)];
        let (parts, recording) = (self.parts(&state), recorder.finish()?);
        Ok(Plan { name, context: None, parts, given, recording })
    }

    /// The chunks of a prompt of `rows` tokens after `position` others.
    ///
    /// # Errors
    /// As [`Plans::chunk`].
    pub fn prompt(&self, rows: usize, position: usize) -> Result<Vec<Plan>, GpuError> {
        (0..rows)
            .step_by(self.rows)
            .map(|first| self.chunk(self.rows.min(rows - first), position + first))
            .collect()
    }

    /// Plans over what decides about their shapes: contexts and chunk lengths on both sides of every boundary.
    ///
    /// # Errors
    /// As the plans of which it is made.
    pub fn all(&self) -> Result<Vec<Plan>, GpuError> {
        let longest = self.model.config.max_position_embeddings;
        let contexts = [1, 63, 64, 512, 513, 4096, 8192, 32_767, 32_768, 131_072, longest];
        let steps =
            contexts.into_iter().filter(|&context| context <= longest).map(|context| self.step(context));
        let lengths = [1, 15, 16, 17, 32, 33, 64, 127, 128, 512, 1024, 1025];
        let lengths = lengths.into_iter().filter(|&rows| rows < self.rows).chain([self.rows]);
        let chunks = lengths.flat_map(|rows| {
            let positions = [0, longest - rows];
            positions.map(|position| self.chunk(rows, position))
        });
        steps.chain(chunks).collect()
    }

    fn parts(&self, state: &StateBuffers) -> Vec<Part> {
        let mut parts = parts::of_weights(&self.model.weights);
        parts.extend(parts::of_state(state));
        parts
    }

    fn state(&self, positions: usize) -> Result<StateBuffers, GpuError> {
        let config = &self.model.config;
        let capacity = StateBuffers::capacity_for(positions, config.max_position_embeddings);
        StateBuffers::new(&*self.model.device, config, capacity)
    }
}
