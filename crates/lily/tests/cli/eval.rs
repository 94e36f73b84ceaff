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

#[test]
fn a_reference_file_that_is_none_is_named() {
    for path in ["/no/such/reference", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
        let done = done(["eval", "--reference", path]);
        assert_eq!(done.code, Some(1));
        assert!(done.stderr.contains(path), "{}", done.stderr);
    }
}
