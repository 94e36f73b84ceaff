//! The mixture of experts.

use super::{Probe, Route, RowSource, linear, route, route_forced, sigmoid, silu};

/// Dimensions of a mixture of experts.
#[derive(Debug, Clone, PartialEq)]
pub struct MoeShape {
    /// Routed experts.
    pub experts: usize,
    /// Routed experts per token.
    pub experts_per_token: usize,
    /// Make the chosen weights sum to one.
    pub renormalise: bool,
}

/// One gated expert: `down(silu(gate x) * up x)`.
pub struct ExpertWeights {
    /// `[inner, hidden]`.
    pub gate_proj: Box<dyn RowSource>,
    /// `[inner, hidden]`.
    pub up_proj: Box<dyn RowSource>,
    /// `[hidden, inner]`.
    pub down_proj: Box<dyn RowSource>,
}

/// Weights of a mixture of experts.
pub struct MoeWeights {
    /// Router, `[experts, hidden]`.
    pub gate: Box<dyn RowSource>,
    /// The routed experts.
    pub experts: Vec<ExpertWeights>,
    /// The expert that every token goes to.
    pub shared_expert: ExpertWeights,
    /// `[1, hidden]`: how much of the shared expert, before its sigmoid.
    pub shared_expert_gate: Box<dyn RowSource>,
}

impl ExpertWeights {
    /// `x [tokens, hidden]` to `[tokens, hidden]`.
    pub fn apply(&self, x: &[f32]) -> Vec<f32> {
        let mut inner = linear(&*self.gate_proj, x);
        for (gate, up) in inner.iter_mut().zip(linear(&*self.up_proj, x)) {
            *gate = silu(*gate) * up;
        }
        linear(&*self.down_proj, &inner)
    }
}

/// `x [tokens, hidden]` (normed) to `[tokens, hidden]`: the routed experts by their weights, best first, then the shared
/// expert times `sigmoid(shared_expert_gate x)`. `layer` and `position` (the first token's) are for the probe.
pub fn moe(
    shape: &MoeShape,
    w: &MoeWeights,
    x: &[f32],
    (layer, position): (usize, usize),
    probe: &mut dyn Probe,
) -> Vec<f32> {
    let hidden = w.gate.cols();
    let routes: Vec<Vec<Route>> = linear(&*w.gate, x)
        .chunks_exact(shape.experts)
        .enumerate()
        .map(|(token, logits)| {
            probe.router_logits(layer, position + token, logits);
            match probe.forced_experts(layer, position + token) {
                Some(experts) => route_forced(logits, experts, shape.renormalise),
                None => route(logits, shape.experts_per_token, shape.renormalise),
            }
        })
        .collect();

    // Expert by expert, so that each weight is read once; every output waits in its token's slot, so that a token's sum
    // has one and the same order whatever else is in the chunk.
    let mut slots: Vec<Vec<Vec<f32>>> = routes.iter().map(|routes| vec![Vec::new(); routes.len()]).collect();
    for (expert, weights) in w.experts.iter().enumerate() {
        let places: Vec<(usize, usize)> = routes
            .iter()
            .enumerate()
            .flat_map(|(token, routes)| {
                routes.iter().enumerate().map(move |(slot, route)| (token, slot, route))
            })
            .filter(|(.., route)| route.expert == expert)
            .map(|(token, slot, _)| (token, slot))
            .collect();
        if places.is_empty() {
            continue;
        }
        let gathered: Vec<f32> =
            places.iter().flat_map(|&(token, _)| &x[token * hidden..(token + 1) * hidden]).copied().collect();
        for (&(token, slot), y) in places.iter().zip(weights.apply(&gathered).chunks_exact(hidden)) {
            slots[token][slot] = y.to_vec();
        }
    }

    let mut out = vec![0.0; x.len()];
    let shared = w.shared_expert.apply(x);
    let shared_gate = linear(&*w.shared_expert_gate, x);
    for (token, out) in out.chunks_exact_mut(hidden).enumerate() {
        for (route, y) in routes[token].iter().zip(&slots[token]) {
            out.iter_mut().zip(y).for_each(|(out, y)| *out += route.weight * y);
        }
        let gate = sigmoid(shared_gate[token]);
        out.iter_mut().zip(&shared[token * hidden..]).for_each(|(out, y)| *out += gate * y);
    }
    out
}
