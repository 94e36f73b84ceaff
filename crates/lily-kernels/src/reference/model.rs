//! The whole model.

use super::{
    AttentionShape, AttentionWeights, GatedDeltaNetShape, GatedDeltaNetWeights, KvRows, LayerState, MoeShape,
    MoeWeights, Probe, RowSource, State, attention, embedding, gated_delta_net, logits, moe, rms_norm,
};

/// Dimensions that the layers share.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Epsilon of the layer norms and the final norm.
    pub eps: f32,
    /// Attention layers.
    pub attention: AttentionShape,
    /// Gated DeltaNet layers.
    pub gated_delta_net: GatedDeltaNetShape,
    /// The mixture of experts of every layer.
    pub moe: MoeShape,
}

/// A layer's mixer.
pub enum Mixer {
    /// Softmax attention.
    Attention(AttentionWeights),
    /// Linear attention.
    GatedDeltaNet(GatedDeltaNetWeights),
}

/// A layer: `h = x + mixer(norm(x)); out = h + moe(norm(h))`.
pub struct Layer {
    /// Gain before the mixer.
    pub input_layernorm: Vec<f32>,
    /// Gain before the mixture of experts.
    pub post_attention_layernorm: Vec<f32>,
    /// The mixer.
    pub mixer: Mixer,
    /// The mixture of experts.
    pub moe: MoeWeights,
}

/// A model: dimensions and weights.
pub struct Model {
    /// Dimensions.
    pub shape: Shape,
    /// `[vocab, hidden]`.
    pub embed_tokens: Box<dyn RowSource>,
    /// In order.
    pub layers: Vec<Layer>,
    /// Gain of the final norm.
    pub norm: Vec<f32>,
    /// `[vocab, hidden]`.
    pub lm_head: Box<dyn RowSource>,
}

impl Model {
    /// The state before the first token.
    pub fn new_state(&self) -> State {
        let layers = self.layers.iter().map(|layer| match layer.mixer {
            Mixer::Attention(_) => LayerState::Attention(KvRows::default()),
            Mixer::GatedDeltaNet(_) => LayerState::GatedDeltaNet(self.shape.gated_delta_net.new_state()),
        });
        State { position: 0, layers: layers.collect() }
    }

    /// Consumes `tokens` and answers the residual stream after the last layer, `[tokens, hidden]`.
    ///
    /// # Panics
    /// If a token is no row of the embedding, or `state` is of another model.
    pub fn forward(&self, state: &mut State, tokens: &[u32], probe: &mut dyn Probe) -> Vec<f32> {
        assert_eq!(state.layers.len(), self.layers.len(), "a state of another model");
        let (shape, first) = (&self.shape, state.position);
        let mut x = embedding(&*self.embed_tokens, tokens);
        for (i, (layer, state)) in self.layers.iter().zip(&mut state.layers).enumerate() {
            let normed = self.normed(&x, &layer.input_layernorm);
            let mixed = match (&layer.mixer, state) {
                (Mixer::Attention(w), LayerState::Attention(kv)) => {
                    attention(&shape.attention, w, kv, &normed)
                }
                (Mixer::GatedDeltaNet(w), LayerState::GatedDeltaNet(state)) => {
                    gated_delta_net(&shape.gated_delta_net, w, state, &normed)
                }
                _ => panic!("layer {i}: a state of another model"),
            };
            add(&mut x, &mixed);
            let normed = self.normed(&x, &layer.post_attention_layernorm);
            add(&mut x, &moe(&shape.moe, &layer.moe, &normed, (i, first), probe));
            probe.layer_output(i, first, &x);
        }
        state.position += tokens.len();
        x
    }

    /// Logits `[tokens, vocab]` of rows that [`Model::forward`] answered.
    pub fn logits(&self, x: &[f32]) -> Vec<f32> {
        logits(&self.norm, self.shape.eps, &*self.lm_head, x)
    }

    fn normed(&self, x: &[f32], gain: &[f32]) -> Vec<f32> {
        let mut x = x.to_vec();
        x.chunks_exact_mut(self.shape.hidden).for_each(|x| rms_norm(x, gain, self.shape.eps));
        x
    }
}

fn add(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
