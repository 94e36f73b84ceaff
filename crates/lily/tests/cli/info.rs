//! `lily info`.

use crate::process::{done, nano, nano_copy};
use std::{fs, time::Instant};

#[test]
fn nano_in_numbers() {
    let object = done(["info", "--json"]).success().json();
    assert_eq!(object["config"]["layers"].as_array().map(Vec::len), Some(8));
    assert_eq!(object["config"]["layers"][3], "full_attention");
    assert_eq!(object["config"]["vocab_size"], 5120);
    let parameters = object["total"]["parameters"].as_u64().expect("a number");
    assert!((27_700_000..27_900_000).contains(&parameters), "{parameters}");
    // What the parts say is what the file holds, but for the header and vectors that are f32 in memory.
    let bytes = object["total"]["bytes"].as_u64().expect("a number");
    let file = fs::metadata(nano().join("model.safetensors")).expect("the file").len();
    assert!(bytes.abs_diff(file) < 300_000, "{bytes} and {file}");
    assert_eq!(object["warnings"], serde_json::json!([]));
}

#[test]
fn memory_for_the_context_that_was_asked_for() {
    let object = done(["info", "--json", "--context", "1000"]).success().json();
    let memory = &object["memory"];
    assert_eq!(memory.as_array().map(Vec::len), Some(1));
    // 2 attention layers, keys and values, 1 KV head of 256, 16 bits.
    let heads = object["config"]["attention"]["kv_heads"].as_u64().expect("a number");
    assert_eq!(memory[0]["kv_cache"], 1000 * 2 * 2 * heads * 256 * 2);
}

#[test]
fn the_table_is_for_people() {
    let table = done(["info"]).success().stdout;
    for words in ["lily-nano", "27.8 M", "routed experts", "4-bit, groups of 64", "memory for a context"] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

#[test]
fn oddities_are_told() {
    let folder = nano_copy(true);
    fs::copy(folder.path().join("model.safetensors"), folder.path().join("adapter.safetensors"))
        .expect("copied");
    let done = done(["info", "--model", &folder.path().display().to_string()]).success();
    assert!(done.stdout.contains("adapter.safetensors"), "{}", done.stdout);
}

/// Weights are not read: a sparse file of the full model's size would take minutes otherwise.
#[test]
fn is_quick() {
    let start = Instant::now();
    done(["info"]).success();
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}
