//! Counts against numbers worked out by hand and by another script.

use crate::support::Tiny;
use lily_checkpoint::{Checkpoint, Part, Size, Storage};

#[test]
fn nano() {
    let checkpoint =
        Checkpoint::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano").as_ref()).unwrap();
    let summary = checkpoint.summary();
    let total = summary.total();
    // `tools/dequantise_nano.py` counts the same.
    assert_eq!(total.parameters, 27_820_656);
    let part = |part: Part| summary.parts.iter().find(|(p, _)| *p == part).unwrap().1;
    // 8 layers, 3 matrices of 64 x 320 weights in each of 32 experts, 0.5625 bytes per weight, 8 experts used.
    let experts = 8 * 3 * 32 * 64 * 320;
    assert_eq!(
        part(Part::RoutedExperts),
        Size {
            tensors: 8 * 3 * 32,
            parameters: experts,
            bytes: experts * 9 / 16,
            active_parameters: experts / 4,
            active_bytes: experts * 9 / 64,
        }
    );
    // One row of 320 weights is looked up; the head reads all 5,120.
    assert_eq!((part(Part::Embedding).active_bytes, part(Part::Head).active_bytes), (180, 5120 * 180));
    // 33 rows of 320 weights in each layer, 8.5 bits per weight.
    assert_eq!(part(Part::Routers).bytes, 8 * 33 * 340);
    let storage: Vec<String> = summary.storage.iter().map(|(storage, _)| storage.to_string()).collect();
    assert_eq!(storage, ["4-bit, groups of 64", "8-bit, groups of 64"]);
    assert_eq!(summary.storage.iter().map(|(_, size)| size.tensors).sum::<u64>() + 45, total.tensors);
    assert_eq!(checkpoint.config.kv_elements_per_token(), 2 * 2 * 256);
    assert_eq!(checkpoint.config.recurrent_state_elements(), 6 * 4 * 128 * 128);
    assert_eq!(checkpoint.config.conv_state_elements(), 6 * 1024 * 3);
}

#[test]
fn a_tied_head_reads_the_embedding() {
    let mut draft = Tiny::new().plain();
    let untied = draft.open().unwrap().summary();
    draft.edit(&serde_json::json!({ "tie_word_embeddings": true }));
    let tied = draft.open().unwrap().summary();
    assert_eq!(tied.total().parameters + 24 * 128, untied.total().parameters);
    assert_eq!(tied.total().active_bytes, untied.total().active_bytes);
    assert!(matches!(untied.storage[..], [(Storage::Dense(lily_checkpoint::Dtype::Bf16), _)]));
    assert_eq!(untied.storage[0].0.to_string(), "BF16");
}
