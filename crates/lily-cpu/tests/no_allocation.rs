//! Decode allocates nothing from token to token, on any thread: memory comes a page of KV cache at a time.

use lily_checkpoint::{Checkpoint, LayerKind};
use lily_cpu::{CpuBackend, CpuOptions, CpuState, Precision};
use lily_engine::{Backend, DecodeStep, LogitsWanted, TokenId};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::path::Path;

/// Counts the allocations of all threads; the file holds one test, so that no other test's are among them.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Tokens in a page of the KV cache.
const PAGE: usize = 64;

fn step(backend: &mut CpuBackend, state: &mut CpuState, token: u32, logits: &mut Vec<f32>) {
    backend.decode(&mut [DecodeStep { state, token: TokenId(token), logits }]).expect("decode");
}

#[test]
fn a_token_allocates_nothing_but_a_page_of_kv_cache() {
    let nano = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/nano");
    let checkpoint = Checkpoint::open(&nano).expect("nano opens");
    let attention_layers =
        checkpoint.config.layers.iter().filter(|kind| **kind == LayerKind::Attention).count();
    for precision in [Precision::Int8, Precision::Bf16, Precision::F32] {
        let options = CpuOptions { precision, threads: Some(3), ..CpuOptions::default() };
        let mut backend = CpuBackend::new(&checkpoint, &options).expect("nano fits");
        let mut state = backend.new_state().expect("memory");
        let prompt: Vec<TokenId> = (0..PAGE as u32).map(|id| TokenId(300 + id)).collect();
        backend.prefill(&mut state, &prompt, LogitsWanted::None).expect("prefill");
        let mut logits = Vec::new();
        // The first token of a page brings its memory, and the very first one the logits'.
        step(&mut backend, &mut state, 300, &mut logits);

        let region = Region::new(ALLOCATOR);
        for token in 1..PAGE as u32 {
            step(&mut backend, &mut state, 300 + token, &mut logits);
        }
        let within = region.change();
        assert_eq!((within.allocations, within.reallocations), (0, 0), "{precision}: {within:?}");

        let region = Region::new(ALLOCATOR);
        step(&mut backend, &mut state, 300, &mut logits);
        let page = region.change();
        assert!(page.allocations > 0, "the counter counts nothing: {page:?}");
        // For each layer the page, its shared handle, and perhaps a longer list of pages.
        assert!(page.allocations + page.reallocations <= 3 * attention_layers, "{precision}: {page:?}");
    }
}
