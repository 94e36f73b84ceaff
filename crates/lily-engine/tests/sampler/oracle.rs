//! The documented rules, written the slow and obvious way in f64.

use lily_engine::{SamplingParams, TokenId};

/// The probability of each row, given logits, the tokens of prompt and answer, and the rows that may be chosen.
pub(crate) fn probabilities(
    params: &SamplingParams,
    logits: &[f32],
    prompt: &[TokenId],
    answer: &[TokenId],
    allowed: impl Fn(TokenId) -> bool,
) -> Vec<f64> {
    let history: Vec<TokenId> = prompt.iter().chain(answer).copied().collect();
    let window = &history[history.len().saturating_sub(params.repetition_window)..];
    let mut adjusted = Vec::new();
    for (id, &logit) in (0..).map(TokenId).zip(logits) {
        let bias: f32 = params.logit_bias.iter().filter(|(of, _)| *of == id).map(|(_, bias)| bias).sum();
        let mut logit = f64::from(logit) + f64::from(bias);
        if window.contains(&id) {
            let penalty = f64::from(params.repetition_penalty);
            logit = if logit > 0.0 { logit / penalty } else { logit * penalty };
        }
        let times = answer.iter().filter(|of| **of == id).count() as f64;
        if times > 0.0 {
            logit -= f64::from(params.presence_penalty) + f64::from(params.frequency_penalty) * times;
        }
        if bias <= -100.0 || !allowed(id) {
            logit = f64::NEG_INFINITY;
        }
        adjusted.push((id, logit));
    }
    adjusted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    adjusted.retain(|(_, logit)| *logit != f64::NEG_INFINITY);
    let mut probabilities = vec![0.0; logits.len()];
    if params.temperature == 0.0 {
        probabilities[adjusted[0].0.0 as usize] = 1.0;
        return probabilities;
    }
    let best = adjusted[0].1;
    let mut weights: Vec<(TokenId, f64)> = adjusted
        .iter()
        .map(|(id, logit)| (*id, ((logit - best) / f64::from(params.temperature)).exp()))
        .collect();
    if params.top_k > 0 {
        weights.truncate(params.top_k);
    }
    if params.top_p < 1.0 {
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut mass = 0.0;
        let kept = weights.iter().position(|(_, weight)| {
            mass += weight;
            mass >= f64::from(params.top_p) * total
        });
        weights.truncate(kept.map_or(weights.len(), |last| last + 1));
    }
    weights.retain(|(_, weight)| *weight >= f64::from(params.min_p));
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    for (id, weight) in weights {
        probabilities[id.0 as usize] = weight / total;
    }
    probabilities
}
