//! Encoding and decoding with the real vocabularies, against the `tokenizers` crate as the oracle.

mod common;

use std::sync::LazyLock;

use lily_text::{TokenId, Tokenizer};
use proptest::prelude::*;

/// A tokenizer and the oracle for it.
struct Pair {
    ours: Tokenizer,
    oracle: tokenizers::Tokenizer,
}

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let nano = Some(common::repository("models/nano"));
    let folders = [nano, common::qwen_folder()].into_iter().flatten();
    folders
        .map(|folder| {
            let json = std::fs::read(folder.join("tokenizer.json")).unwrap();
            let oracle = tokenizers::Tokenizer::from_bytes(&json).unwrap();
            Pair { ours: Tokenizer::from_json(&json).unwrap(), oracle }
        })
        .collect()
});

fn oracle_ids(oracle: &tokenizers::Tokenizer, text: &str) -> Vec<TokenId> {
    oracle.encode_fast(text, false).unwrap().get_ids().iter().map(|id| TokenId(*id)).collect()
}

/// Text with everything that tokenizers stumble over.
fn awkward_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -~]{0,12}",
        "[ \t\r\n]{1,5}",
        "\\PC{0,6}",
        "[\u{0300}-\u{036f}\u{1100}-\u{11ff}é가각Å\u{338}>]{1,4}",
        "[\u{85}\u{1c}\u{200d}\u{feff}\u{fffd}\u{10ffff}]",
        prop::sample::select(vec![
            "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_",
            "end|>", "<tts_pad>", "<|", "|>", "<<think>>", "'S", "'ſ", "'ll", "don't", "  ", "1234", "東京", "👩‍💻",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn ids_are_those_of_the_oracle(text in awkward_text()) {
        for pair in PAIRS.iter() {
            prop_assert_eq!(pair.ours.encode(&text), oracle_ids(&pair.oracle, &text));
        }
    }

    #[test]
    fn plain_text_has_no_special_token(text in awkward_text()) {
        for pair in PAIRS.iter() {
            let ids = pair.ours.encode_plain(&text);
            prop_assert!(!ids.iter().any(|id| pair.ours.is_special(*id)));
            prop_assert_eq!(pair.ours.decode(&ids, false), pair.ours.decode(&pair.ours.encode(&text), false));
        }
    }

    #[test]
    fn streamed_text_is_the_whole_text(
        choices in prop::collection::vec((any::<u32>(), 0..4u8), 0..60),
        skip_special in any::<bool>(),
    ) {
        for Pair { ours, oracle } in PAIRS.iter() {
            let size = ours.size() as u32;
            // Any id, bytes of split characters, special tokens, and ids beyond the vocabulary.
            let ids: Vec<TokenId> = choices
                .iter()
                .map(|(number, kind)| TokenId(match kind {
                    0 => number % 256,
                    1 => size - 1 - number % 33,
                    2 => number % (size + 50),
                    _ => number % size,
                }))
                .collect();
            let raw: Vec<u32> = ids.iter().map(|id| id.0).collect();
            let whole = oracle.decode(&raw, skip_special).unwrap();
            prop_assert_eq!(ours.decode(&ids, skip_special), whole.clone());
            let mut detokenizer = ours.detokenizer(skip_special);
            let mut streamed = String::new();
            for id in &ids {
                streamed.push_str(&detokenizer.push(*id));
                // Nothing but the beginning of a character is held back.
                prop_assert!(whole.starts_with(&streamed));
            }
            streamed.push_str(&detokenizer.finish());
            prop_assert_eq!(streamed, whole);
        }
    }
}

#[test]
fn special_spellings_are_tokens_or_plain() {
    for Pair { ours, .. } in PAIRS.iter() {
        let end = ours.token_id("<|im_end|>").unwrap();
        assert!(ours.is_special(end));
        assert!(ours.encode("a<|im_end|>").contains(&end));
        assert!(!ours.encode_plain("a<|im_end|>").contains(&end));
        let think = ours.token_id("<think>").unwrap();
        assert!(!ours.is_special(think));
        assert_eq!(ours.encode_plain("<think>"), [think]);
        assert_eq!(ours.decode(&[end, think], true), "<think>");
        assert_eq!(ours.token_bytes(TokenId(u32::MAX)), None);
        assert!(!ours.has_token(TokenId(ours.size() as u32)));
        assert!((0..ours.size() as u32).all(|id| ours.has_token(TokenId(id))));
    }
}

#[test]
fn text_is_composed_before_it_is_encoded() {
    for Pair { ours, .. } in PAIRS.iter() {
        let ids = ours.encode("e\u{301}");
        assert_eq!(ours.decode(&ids, false), "é");
        assert_eq!(ids, ours.encode("é"));
    }
}

#[test]
fn long_runs_are_cut_as_the_expression_cuts_them() {
    // Number of tokens and of bytes as Hugging Face's own build (with Oniguruma) gives them for the real vocabulary.
    let Some(Pair { ours, .. }) = PAIRS.get(1) else { return };
    let million = 1 << 20;
    for (text, tokens) in [
        ("a".repeat(million), 131_072),
        (" ".repeat(million), 8192),
        (format!("{}x", " ".repeat(2 * million)), 16_386),
        (format!("{}\n", " ".repeat(2 * million)), 16_385),
        ("\n".repeat(million), 32_768),
        (format!("{}x", "\t ".repeat(million)), 1_048_576),
        (format!("{}x\n{}y", "  ".repeat(700_000), " ".repeat(1_500_000)), 22_660),
        (format!("{}\n", "!".repeat(2 * million)), 262_145),
        (format!("a{}", "\u{301}".repeat(million / 2)), 524_288),
    ] {
        assert_eq!(ours.encode(&text).len(), tokens, "{:?}...", text.chars().take(4).collect::<String>());
    }
}
