//! `lily eval`.

use crate::process::{done, fed};

const TEXT: &str =
    "The cat sat on the mat. The dog lay by the door. It was a quiet evening in the old house.\n";

#[test]
fn perplexity_of_a_text() {
    let evaluate = |extra: &[&str]| {
        let object =
            fed([&["eval", "--json", "--text", "-"], extra].concat(), &TEXT.repeat(4)).success().json();
        (
            object["perplexity"].as_f64().expect("a number"),
            object["predicted_tokens"].as_u64().expect("a number"),
        )
    };
    let (whole, tokens) = evaluate(&[]);
    assert!(whole > 1.0 && whole < 1000.0, "{whole}");
    // Chunks of any size give the same; windows lose the context before them.
    let (chunked, _) = evaluate(&["--chunk", "7"]);
    assert!((whole / chunked - 1.0).abs() < 0.02, "{whole} and {chunked}");
    let (windowed, fewer) = evaluate(&["--window", "8"]);
    assert!(windowed > whole && fewer < tokens, "{windowed} and {whole}; {fewer} of {tokens}");
}

#[test]
fn a_text_without_anything_to_predict_is_refused() {
    let done = fed(["eval", "--text", "-"], "");
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("fewer than two tokens"), "{}", done.stderr);
}

/// A reference file (docs/evaluation.md) of one sequence that claims the same two tokens at every position.
fn reference_file(tokens: &[u32], vocab_size: usize) -> Vec<u8> {
    let count = tokens.len();
    let words =
        |values: &mut dyn Iterator<Item = u32>| values.flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let floats =
        |values: &mut dyn Iterator<Item = f32>| values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
    let of_two = |values: [f32; 2]| values.into_iter().cycle().take(2 * count);
    let tensors = [
        ("tokens", "U32", vec![count], words(&mut tokens.iter().copied())),
        ("sequence_lengths", "U32", vec![1], words(&mut std::iter::once(count as u32))),
        ("sequence_kinds", "U32", vec![1], words(&mut std::iter::once(0))),
        ("log_sum_exp", "F32", vec![count], floats(&mut std::iter::repeat_n(10.0, count))),
        ("top_ids", "U32", vec![count, 2], words(&mut [7, 8].into_iter().cycle().take(2 * count))),
        ("top_logprobs", "F32", vec![count, 2], floats(&mut of_two([-0.5, -1.5]))),
        ("target_logprobs", "F32", vec![count], floats(&mut std::iter::repeat_n(-2.0, count))),
    ];
    let mut header = serde_json::json!({"__metadata__": {
        "format": "lily-reference", "format_version": "1", "vocab_size": vocab_size.to_string()}});
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header[name] = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        data.extend(bytes);
    }
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

#[test]
fn comparison_with_a_reference() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("reference.safetensors");
    let evaluate = |vocab_size, extra: &[&str]| {
        std::fs::write(&file, reference_file(&[100, 200, 300, 400, 500], vocab_size)).expect("written");
        done(["eval", "--json", "--reference", file.to_str().expect("UTF-8")].iter().chain(extra))
    };
    let object = evaluate(5120, &[]).success().json();
    assert_eq!(object["all"]["positions"], 5);
    assert_eq!(object["all"]["targets"], 4);
    assert_eq!(object["all"]["reference_mean_nll"], 2.0);
    assert!(object["all"]["mean_kl"].as_f64().is_some_and(|kl| kl > 0.0), "{object}");
    assert_eq!(object["model"], "lily-nano");
    // Token by token it is the same model.
    let nll = |object: &serde_json::Value| object["all"]["mean_nll"].as_f64().expect("a number");
    let decoded = evaluate(5120, &["--feed", "decode"]).success().json();
    assert!((nll(&object) - nll(&decoded)).abs() < 0.05, "{object} {decoded}");

    let other = evaluate(6000, &[]);
    assert_eq!(other.code, Some(1));
    assert!(other.stderr.contains("another model"), "{}", other.stderr);
}

#[test]
fn a_reference_file_that_is_none_is_named() {
    for path in ["/no/such/reference", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
        let done = done(["eval", "--reference", path]);
        assert_eq!(done.code, Some(1));
        assert!(done.stderr.contains(path), "{}", done.stderr);
    }
}

#[test]
fn a_reference_that_is_not_there_is_named_once() {
    let done = done(["eval", "--reference", "/no/such/reference"]);
    assert_eq!(done.code, Some(1));
    assert_eq!(done.stderr.matches("/no/such/reference").count(), 1, "{}", done.stderr);
}
