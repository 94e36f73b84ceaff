//! Encoding and decoding with the real vocabularies.

mod common;

use lily_text::{TokenId, Tokenizer};

fn both() -> Vec<Tokenizer> {
    [Some(common::nano_tokenizer()), common::qwen_tokenizer()].into_iter().flatten().collect()
}

#[test]
fn text_comes_back() {
    for tokenizer in both() {
        for text in ["", "Hello, world!", "  spaces\n\n\ttabs", "東京 😀 é", "<think>\nx\n</think>", "a<|im_end|>b"] {
            assert_eq!(tokenizer.decode(&tokenizer.encode(text), false), text);
            assert_eq!(tokenizer.decode(&tokenizer.encode_plain(text), false), text);
        }
    }
}

#[test]
fn special_spellings_are_tokens_or_plain() {
    for tokenizer in both() {
        let end = tokenizer.token_id("<|im_end|>").unwrap();
        assert!(tokenizer.is_special(end));
        assert!(tokenizer.encode("a<|im_end|>").contains(&end));
        assert!(!tokenizer.encode_plain("a<|im_end|>").contains(&end));
        let think = tokenizer.token_id("<think>").unwrap();
        assert!(!tokenizer.is_special(think));
        assert_eq!(tokenizer.encode_plain("<think>"), [think]);
        assert_eq!(tokenizer.decode(&[end, think], true), "<think>");
        assert_eq!(tokenizer.token_bytes(TokenId(u32::MAX)), None);
        assert!(!tokenizer.has_token(TokenId(tokenizer.size() as u32)));
    }
}
