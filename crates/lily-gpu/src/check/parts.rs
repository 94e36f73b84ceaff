//! What the bytes of a model's weights and states are: which layer's, and what they are there for.

use crate::{
    LayerState, StateBuffers, View,
    weights::{MatrixGroup, MatrixView, MixerWeights, Weights},
};
use std::{collections::HashMap, fmt};

/// What a matrix' bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Codes, or plain elements.
    Codes,
    /// Scales of the codes.
    Scales,
    /// Biases of the codes.
    Biases,
    /// No part of a matrix: a vector or a table.
    Plain,
    /// Something that a sequence keeps from token to token.
    State,
}

/// A weight or a state, or one of the matrices that lie together for a launch.
#[derive(Debug, Clone)]
pub struct Part {
    /// Where it is.
    pub view: View,
    /// Whose; nothing for what belongs to no layer.
    pub layer: Option<usize>,
    /// What it is, about as the fields of [`crate::weights::Weights`] and [`crate::LayerState`] are called.
    pub role: &'static str,
    /// What of it.
    pub kind: Kind,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "layer {layer}'s {}", self.role)?,
            None => write!(f, "the model's {}", self.role)?,
        }
        match self.kind {
            Kind::Codes => write!(f, " (codes)"),
            Kind::Scales => write!(f, " (scales)"),
            Kind::Biases => write!(f, " (biases)"),
            Kind::Plain | Kind::State => Ok(()),
        }
    }
}

/// Parts by the buffer in which they lie.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) all: Vec<Part>,
    by_buffer: HashMap<u64, Vec<usize>>,
}

impl Parts {
    pub(super) fn new(all: Vec<Part>) -> Self {
        let mut by_buffer: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, part) in all.iter().enumerate() {
            by_buffer.entry(part.view.buffer().id()).or_default().push(at);
        }
        Self { all, by_buffer }
    }

    /// Those that share bytes with a view.
    pub(super) fn of(&self, view: &View) -> impl Iterator<Item = usize> + '_ {
        let (id, range) = (view.buffer().id(), view.range());
        self.by_buffer.get(&id).into_iter().flatten().copied().filter(move |&at| {
            let own = self.all[at].view.range();
            own.start < range.end && range.start < own.end
        })
    }
}

/// Gathers the parts of one layer, or of none.
struct Gather<'a> {
    parts: &'a mut Vec<Part>,
    layer: Option<usize>,
}

impl Gather<'_> {
    fn push(&mut self, role: &'static str, kind: Kind, view: &View) {
        self.parts.push(Part { view: view.clone(), layer: self.layer, role, kind });
    }

    fn vector(&mut self, role: &'static str, view: &View) {
        self.push(role, Kind::Plain, view);
    }

    fn matrix(&mut self, role: &'static str, matrix: &MatrixView) {
        self.push(role, Kind::Codes, &matrix.codes);
        if !matrix.format.is_plain() {
            self.push(role, Kind::Scales, &matrix.scales);
            self.push(role, Kind::Biases, &matrix.biases);
        }
    }

    /// Matrices that lie together, each with its role.
    fn group(&mut self, roles: &[&'static str], group: &MatrixGroup) {
        for (role, border) in roles.iter().zip(group.borders.windows(2)) {
            for (first, matrix) in &group.segments {
                let (from, to) = (border[0].max(*first), border[1].min(first + matrix.rows));
                if from < to {
                    self.matrix(role, &matrix.rows(from - first..to - first));
                }
            }
        }
    }
}

/// All weights that launches read.
pub(super) fn of_weights(weights: &Weights) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut model = Gather { parts: &mut parts, layer: None };
    model.vector("norm", &weights.norm);
    model.vector("rotary", &weights.rotary);
    model.matrix("embed_tokens", &weights.embed_tokens);
    model.matrix("lm_head", &weights.lm_head);
    for (index, layer) in weights.layers.iter().enumerate() {
        let mut own = Gather { parts: &mut parts, layer: Some(index) };
        own.vector("input_norm", &layer.input_norm);
        own.vector("post_norm", &layer.post_norm);
        match &layer.mixer {
            MixerWeights::Gdn(gdn) => {
                own.group(&["qkv", "z", "b", "a"], &gdn.in_proj);
                own.matrix("out_proj", &gdn.out_proj);
                own.vector("conv", &gdn.conv);
                own.vector("a_log", &gdn.a_log);
                own.vector("dt_bias", &gdn.dt_bias);
                own.vector("gated norm", &gdn.norm);
            }
            MixerWeights::Attention(attention) => {
                own.group(&["q", "k", "v"], &attention.in_proj);
                own.matrix("out_proj", &attention.out_proj);
                own.vector("q_norm", &attention.q_norm);
                own.vector("k_norm", &attention.k_norm);
            }
        }
        let moe = &layer.moe;
        own.group(&["router", "shared gate's row"], &moe.router);
        own.group(&["shared gate", "shared up"], &moe.shared_in);
        own.matrix("shared down", &moe.shared_down);
        own.matrix("gate", &moe.experts.gate);
        own.matrix("up", &moe.experts.up);
        own.matrix("down", &moe.experts.down);
    }
    parts
}

/// What a sequence keeps in its layers.
pub(super) fn of_state(state: &StateBuffers) -> Vec<Part> {
    let mut parts = Vec::new();
    for (index, layer) in state.layers.iter().enumerate() {
        let mut own = Gather { parts: &mut parts, layer: Some(index) };
        match layer {
            LayerState::Gdn(gdn) => {
                own.push("memory", Kind::State, &gdn.memory);
                own.push("window", Kind::State, &gdn.window);
            }
            LayerState::Attention(kv) => {
                own.push("keys", Kind::State, &kv.keys);
                own.push("values", Kind::State, &kv.values);
            }
        }
    }
    parts
}
