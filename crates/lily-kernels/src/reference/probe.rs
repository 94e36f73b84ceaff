//! Looking into a forward pass, and steering its experts.

/// Hears what happens inside [`super::Model::forward`]; every method has a default that does nothing. `position` counts
/// from the start of the sequence.
pub trait Probe {
    /// The experts that `position` must go to in `layer` instead of the router's own choice.
    fn forced_experts(&mut self, layer: usize, position: usize) -> Option<&[usize]> {
        let _ = (layer, position);
        None
    }

    /// The router's logits `[experts]`.
    fn router_logits(&mut self, layer: usize, position: usize, logits: &[f32]) {
        let _ = (layer, position, logits);
    }

    /// The residual stream after `layer`, `[tokens, hidden]`, from position `first` on.
    fn layer_output(&mut self, layer: usize, first: usize, hidden: &[f32]) {
        let _ = (layer, first, hidden);
    }
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl Probe for NoProbe {}
