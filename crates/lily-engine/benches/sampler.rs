//! Time to choose one token from a vocabulary of the full model's size, by parameters. `cargo bench -p lily-engine`.

use lily_engine::{Sampler, SamplingParams, TokenId, TokenMask};
use std::io::Write;
use std::time::{Duration, Instant};

/// Rows of the full model's logits, and how many of them have a token.
const ROWS: usize = 248_320;
const TOKENS: u32 = 248_077;
const ROUNDS: usize = 301;

/// Logits like a language model's: roughly normal with a deviation of 2.5, a few high ones.
fn logits() -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 24) as f32
    };
    let mut logits: Vec<f32> =
        (0..ROWS).map(|_| ((0..12).map(|_| uniform()).sum::<f32>() - 6.0) * 2.5).collect();
    for (rank, place) in (1..40).map(|rank| (rank, rank * 6007)) {
        logits[place] = 20.0 - 1.5 * (rank as f32).ln() * 2.0;
    }
    logits
}

fn main() -> std::io::Result<()> {
    let plain = SamplingParams::default;
    let sampled = || SamplingParams { temperature: 1.0, seed: Some(1), ..plain() };
    let default = || SamplingParams { top_k: 20, top_p: 0.95, ..sampled() };
    let bias = (0..300).map(|id| (TokenId(id * 800), 1.0)).collect();
    let cases = [
        ("greedy", plain(), None),
        ("temperature 1, top-k 20, top-p 0.95", default(), None),
        (
            "the same with penalties",
            SamplingParams { repetition_penalty: 1.1, presence_penalty: 1.5, ..default() },
            None,
        ),
        ("the same with 300 biased tokens", SamplingParams { logit_bias: bias, ..default() }, None),
        ("the same with 5 log-probabilities", default(), Some(5)),
        ("greedy with 20 log-probabilities", plain(), Some(20)),
        ("top-k 1000", SamplingParams { top_k: 1000, ..sampled() }, None),
        ("top-p 0.95 of all", SamplingParams { top_p: 0.95, ..sampled() }, None),
        ("min-p 0.05", SamplingParams { min_p: 0.05, ..sampled() }, None),
        ("all tokens, temperature 1", sampled(), None),
        ("all tokens, temperature 2", SamplingParams { temperature: 2.0, ..sampled() }, None),
    ];
    let mut tokens = TokenMask::all(ROWS);
    (TOKENS..ROWS as u32).for_each(|id| tokens.forbid(TokenId(id)));
    let tokens = std::sync::Arc::new(tokens);
    let mut grammar = TokenMask::none(ROWS);
    (0..TOKENS).step_by(3).for_each(|id| grammar.allow(TokenId(id)));
    let prompt: Vec<TokenId> = (0..2000).map(TokenId).collect();
    let logits = logits();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{ROWS} logits, {ROUNDS} tokens each, copying the logits not counted")?;
    for (name, params, logprobs) in &cases {
        for (with, mask) in [("", None), (", grammar mask", Some(&grammar))] {
            let mut sampler = Sampler::new(params, &prompt, tokens.clone(), *logprobs);
            let mut row = logits.clone();
            let mut times: Vec<Duration> = (0..ROUNDS)
                .map(|_| {
                    row.copy_from_slice(&logits);
                    let clock = Instant::now();
                    let choice = sampler.choose(&mut row, mask);
                    let time = clock.elapsed();
                    std::hint::black_box(choice.is_ok());
                    time
                })
                .collect();
            times.sort_unstable();
            let micros = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6;
            let (best, median, most) = (micros(0), micros(50), micros(90));
            writeln!(out, "{best:8.1} best {median:8.1} median {most:8.1} 90 %  us/token  {name}{with}")?;
        }
    }
    Ok(())
}
