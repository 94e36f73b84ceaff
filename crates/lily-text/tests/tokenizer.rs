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
            "<|im_start|>",
            "<|im_end|>",
            "<|endoftext|>",
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "<|im_",
            "end|>",
            "<tts_pad>",
            "<|",
            "|>",
            "<<think>>",
            "'S",
            "'ſ",
            "'ll",
            "don't",
            "  ",
            "1234",
            "東京",
            "👩‍💻",
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

#[test]
fn the_end_token_is_read_from_the_tokenizer_config() {
    for Pair { ours, .. } in PAIRS.iter() {
        let end = ours.token_id("<|im_end|>").unwrap();
        let ids = |json: &str| ours.eos_ids(Some(json.as_bytes())).map_err(|error| error.to_string());
        assert_eq!(ids(r#"{"eos_token": "<|im_end|>"}"#), Ok(vec![end]));
        assert_eq!(ids(r#"{"eos_token": {"content": "<|im_end|>", "lstrip": false}}"#), Ok(vec![end]));
        assert_eq!(ids(r#"{"eos_token": null}"#), Ok(vec![]));
        assert_eq!(ids("{}"), Ok(vec![]));
        assert_eq!(ours.eos_ids(None).unwrap(), []);
        assert!(ids(r#"{"eos_token": "<nothing>"}"#).unwrap_err().contains("not in the vocabulary"));
        assert!(ids(r#"{"eos_token": 3}"#).unwrap_err().contains("tokenizer_config.json"));
        assert!(ids("{").is_err());
    }
    let real = std::fs::read(common::repository("models/nano/tokenizer_config.json")).unwrap();
    assert_eq!(PAIRS[0].ours.eos_ids(Some(&real)).unwrap(), [TokenId(5058)]);
}

#[test]
fn broken_files_are_refused_by_what_is_wrong() {
    let json = std::fs::read_to_string(common::repository("models/nano/tokenizer.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&json).unwrap();
    let refused = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut file = file.clone();
        edit(&mut file);
        Tokenizer::from_json(file.to_string().as_bytes()).unwrap_err().to_string()
    };
    for (words, edit) in [
        (
            "missing field `model`",
            &(|file: &mut serde_json::Value| {
                file.as_object_mut().unwrap().remove("model");
            }) as &dyn Fn(&mut serde_json::Value),
        ),
        ("not BPE", &|file| file["model"]["type"] = "Unigram".into()),
        ("byte_fallback", &|file| file["model"]["byte_fallback"] = true.into()),
        ("dropout", &|file| file["model"]["dropout"] = 0.1.into()),
        ("decoder", &|file| file["decoder"]["type"] = "WordPiece".into()),
        ("no token for byte 0x41", &|file| {
            file["model"]["vocab"].as_object_mut().unwrap().remove("A");
            file["model"]["merges"] = serde_json::json!([]);
        }),
        ("vocabulary lacks \"qq\"", &|file| {
            file["model"]["merges"] = serde_json::json!([["e", "qq"]]);
        }),
        ("two tokens", &|file| file["model"]["merges"] = serde_json::json!([["a"]])),
        ("two tokens", &|file| file["model"]["merges"] = serde_json::json!([["a", "b", "c"]])),
        ("two tokens", &|file| file["model"]["merges"] = serde_json::json!(["ab"])),
        ("beyond", &|file| file["model"]["vocab"]["A"] = 4_000_000_000_u32.into()),
        ("beyond", &|file| file["added_tokens"][0]["id"] = 4_000_000_000_u32.into()),
        ("has the id of", &|file| file["added_tokens"][1]["id"] = file["added_tokens"][0]["id"].clone()),
        ("both", &|file| file["added_tokens"][1]["id"] = 5.into()),
        ("is empty", &|file| file["added_tokens"][1]["content"] = "".into()),
        ("lstrip", &|file| file["added_tokens"][1]["lstrip"] = true.into()),
        ("pre_tokenizer", &|file| file["pre_tokenizer"] = serde_json::Value::Null),
        ("splits by", &|file| file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = r"\d+".into()),
    ] {
        let error = refused(edit);
        assert!(error.contains(words) && error.starts_with("tokenizer.json: "), "{words}: {error}");
    }
    for bytes in [&b""[..], b"{", b"[]", b"{\"model\": 3}", &json.as_bytes()[..json.len() / 2], &[0xff; 10]] {
        assert!(Tokenizer::from_json(bytes).is_err());
    }
}

#[test]
fn older_files_spell_merges_as_one_text() {
    let json = std::fs::read_to_string(common::repository("models/nano/tokenizer.json")).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&json).unwrap();
    for merge in file["model"]["merges"].as_array_mut().unwrap() {
        *merge = format!("{} {}", merge[0].as_str().unwrap(), merge[1].as_str().unwrap()).into();
    }
    let older = Tokenizer::from_json(file.to_string().as_bytes()).unwrap();
    let text = "Older files, the same ids: 東京 1234.";
    assert_eq!(older.encode(text), PAIRS[0].ours.encode(text));
}
