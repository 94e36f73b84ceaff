//! Requests that between them ask for every kernel that chooses a token.

use lily_engine::SamplingParams;

/// Greedy; every bound on the candidates that has a kernel of its own; the whole vocabulary ranked, and unranked.
pub(crate) fn requests() -> Vec<SamplingParams> {
    let plain = SamplingParams { temperature: 1.0, top_p: 0.95, ..SamplingParams::default() };
    let mut requests = vec![SamplingParams { temperature: 0.0, ..plain.clone() }];
    requests.extend((2..=64).step_by(4).map(|top_k| SamplingParams { top_k, ..plain.clone() }));
    requests.push(SamplingParams { top_k: 0, ..plain.clone() });
    requests.push(SamplingParams { top_k: 0, top_p: 1.0, ..plain });
    requests
}
