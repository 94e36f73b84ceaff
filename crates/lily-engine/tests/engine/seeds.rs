//! Same seed, same text; no seed, fresh randomness.

use crate::support::{ROWS, engine, ids, request, run};
use lily_engine::testing::ScriptedBackend;
use lily_engine::{GenerationRequest, SamplingParams};

fn sampled(seed: Option<u64>) -> GenerationRequest {
    let sampling =
        SamplingParams { temperature: 0.7, top_p: 0.95, top_k: 40, seed, ..SamplingParams::default() };
    GenerationRequest { sampling, ..request(&ids([5, 6, 7]), 32) }
}

#[test]
fn the_same_seed_gives_the_same_text_under_load_and_on_another_engine() {
    let alone = run(&engine(ScriptedBackend::new(ROWS)), sampled(Some(42))).ids;
    let engine = engine(ScriptedBackend::new(ROWS));
    for round in 0..3 {
        let load: Vec<_> = (0..6)
            .map(|i| {
                let sampling =
                    SamplingParams { temperature: 1.0, seed: Some(i), ..SamplingParams::default() };
                let prompt = ids(0..1 + i as u32 * 7 + round);
                engine.generate(GenerationRequest { sampling, ..request(&prompt, 40) }).expect("taken")
            })
            .collect();
        assert_eq!(run(&engine, sampled(Some(42))).ids, alone, "round {round}");
        drop(load);
    }
}

#[test]
fn other_seeds_and_no_seed_differ() {
    let engine = engine(ScriptedBackend::new(ROWS));
    let answers: std::collections::HashSet<_> = [Some(1), Some(2), Some(1 << 40), None, None, None]
        .map(|seed| run(&engine, sampled(seed)).ids)
        .into();
    assert_eq!(answers.len(), 6);
}
