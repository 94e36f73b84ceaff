//! Which experts a token goes to.

use super::softmax;

/// One chosen expert.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Route {
    /// The expert.
    pub expert: usize,
    /// What its output is multiplied by.
    pub weight: f32,
}

/// Softmax over all experts in f32, then the `count` best, then (if `renormalise`) weights that sum to one. Best
/// first; the lower expert on a tie. Logits decide the order, which softmax keeps: two that differ in the last bit
/// may have one and the same probability.
pub fn route(logits: &[f32], count: usize, renormalise: bool) -> Vec<Route> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    route_forced(logits, &order[..count], renormalise)
}

/// The weights that [`route`] would give if it had chosen `experts`, in that order.
pub fn route_forced(logits: &[f32], experts: &[usize], renormalise: bool) -> Vec<Route> {
    let mut probabilities = logits.to_vec();
    softmax(&mut probabilities);
    let sum: f32 = experts.iter().map(|&e| probabilities[e]).sum();
    let scale = if renormalise { sum } else { 1.0 };
    experts.iter().map(|&expert| Route { expert, weight: probabilities[expert] / scale }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NUM-07: logits that differ by 1e-4 around the eighth place are told apart, as bf16 would not.
    #[test]
    fn selection_follows_the_f32_order() {
        let mut logits: Vec<f32> = (0..256).map(|e| 3.0 - (e as f32) * 1e-4).collect();
        logits.reverse();
        let chosen: Vec<usize> = route(&logits, 8, true).iter().map(|r| r.expert).collect();
        assert_eq!(chosen, [255, 254, 253, 252, 251, 250, 249, 248]);
        logits.swap(248, 247);
        let chosen: Vec<usize> = route(&logits, 8, true).iter().map(|r| r.expert).collect();
        assert_eq!(chosen[7], 247);
    }

    #[test]
    fn softmax_comes_first_then_the_choice_then_renormalisation() {
        let logits = [0.0, 3.0_f32.ln(), 0.0, 5.0_f32.ln()];
        let plain = route(&logits, 2, false);
        assert_eq!((plain[0].expert, plain[1].expert), (3, 1));
        assert!((plain[0].weight - 0.5).abs() < 1e-6 && (plain[1].weight - 0.3).abs() < 1e-6);
        let normed = route(&logits, 2, true);
        assert!((normed[0].weight - 0.625).abs() < 1e-6 && (normed[1].weight - 0.375).abs() < 1e-6);
    }

    #[test]
    fn ties_go_to_the_lower_expert() {
        let chosen: Vec<usize> = route(&[1.0; 6], 3, true).iter().map(|r| r.expert).collect();
        assert_eq!(chosen, [0, 1, 2]);
    }

    #[test]
    fn a_forced_choice_keeps_the_routers_weights() {
        let logits = [0.0, 3.0_f32.ln(), 0.0, 5.0_f32.ln()];
        let forced = route_forced(&logits, &[0, 3], true);
        assert_eq!((forced[0].expert, forced[1].expert), (0, 3));
        assert!((forced[0].weight - 1.0 / 6.0).abs() < 1e-6 && (forced[1].weight - 5.0 / 6.0).abs() < 1e-6);
    }
}
