//! What one generation answers.

use crate::support::{Answer, ROWS, engine, ids, request, run};
use lily_engine::testing::{END, ScriptedBackend, TOOL, WORD, bytes};
use lily_engine::{FinishReason, GenerationRequest, SamplingParams, TokenId};

/// Answers every prompt of two tokens with the given ones.
fn saying(answer: Vec<TokenId>) -> ScriptedBackend {
    ScriptedBackend::new(ROWS).saying(move |tokens| answer.get(tokens.len().checked_sub(2)?).copied())
}

fn answer(said: Vec<TokenId>, change: impl Fn(&mut GenerationRequest)) -> Answer {
    let mut request = request(&ids([1, 2]), 20);
    change(&mut request);
    run(&engine(saying(said)), request)
}

#[test]
fn text_and_accounting() {
    let mut said = bytes("héllo 🌍");
    said.extend([WORD, TOOL, END]);
    let count = said.len();
    let answer = answer(said, |request| request.stop_ids = vec![END]);
    assert_eq!(answer.text, "héllo 🌍 hello<tool>");
    assert_eq!(answer.reason, Some(FinishReason::EndOfText));
    assert_eq!(answer.ids.len(), count, "the final stop id comes as a token");
    assert_eq!(answer.deltas[1..3], ["".to_owned(), "é".to_owned()], "half a character is held back");
    assert_eq!(answer.prefill, [(0, 2), (2, 2)]);
    assert_eq!((answer.usage.prompt_tokens, answer.usage.completion_tokens), (2, count));
    assert!(!answer.usage.prefill.is_zero() && !answer.usage.decode.is_zero());
    assert!(answer.logprobs.iter().all(Option::is_none));
}

#[test]
fn a_character_that_is_never_completed_comes_at_the_end() {
    let answer = answer(vec![TokenId(0x41), TokenId(0xe2), TokenId(0x82), END], |r| r.stop_ids = vec![END]);
    assert_eq!(answer.text, "A\u{fffd}");
    assert_eq!(answer.deltas.last().map(String::as_str), Some("\u{fffd}"));
}

#[test]
fn stop_ids_can_be_ignored() {
    let said = [bytes("a"), vec![END], bytes("b"), vec![END]].concat();
    let answer = answer(said, |request| {
        request.stop_ids = vec![END];
        request.ignore_eos = true;
        request.max_tokens = Some(3);
    });
    assert_eq!((answer.text.as_str(), answer.reason), ("ab", Some(FinishReason::Length)));
}

#[test]
fn max_tokens() {
    for most in 1..5 {
        let answer = answer(bytes("abcdefgh"), |request| request.max_tokens = Some(most));
        assert_eq!(answer.text, "abcdefgh"[..most]);
        assert_eq!((answer.reason, answer.usage.completion_tokens), (Some(FinishReason::Length), most));
    }
    let none = answer(bytes("abc"), |request| request.max_tokens = Some(0));
    assert_eq!((none.ids.len(), none.reason), (0, Some(FinishReason::Length)));
    assert_eq!((none.prefill.last(), none.usage.completion_tokens), (Some(&(2, 2)), 0));
    // A stop id on the last allowed token is still a stop id.
    let both = answer([bytes("a"), vec![END]].concat(), |request| {
        request.stop_ids = vec![END];
        request.max_tokens = Some(2);
    });
    assert_eq!(both.reason, Some(FinishReason::EndOfText));
}

/// Without a limit the answer goes on to the end of the context and says that it was cut.
#[test]
fn the_end_of_the_context() {
    let engine = engine(saying(bytes(&"x".repeat(100))).max_context(50));
    for max_tokens in [None, Some(1000)] {
        let answer = run(&engine, GenerationRequest { max_tokens, ..GenerationRequest::new(ids([1, 2])) });
        assert_eq!(answer.text, "x".repeat(48));
        assert_eq!(answer.reason, Some(FinishReason::Length));
    }
    let answer = run(&engine, GenerationRequest::new(ids(0..49)));
    assert_eq!((answer.ids.len(), answer.reason), (1, Some(FinishReason::Length)));
}

#[test]
fn greedy_takes_the_lowest_of_equal_ids_and_only_ids_with_a_token() {
    let flat = |top: Vec<u32>| {
        let backend = ScriptedBackend::new(ROWS).logits(move |_, row| {
            for &id in &top {
                row[id as usize] = 9.0;
            }
        });
        run(&engine(backend), request(&ids([1]), 1)).ids[0]
    };
    assert_eq!(flat(vec![]), TokenId(0));
    assert_eq!(flat(vec![200, 70, 100]), TokenId(70));
    // 258 and 259 are holes, 261 and more are past the tokenizer's end.
    assert_eq!(flat(vec![258, 259, 260, 261, 269]), TokenId(260));
}

#[test]
fn ids_without_a_token_are_never_drawn() {
    let backend = ScriptedBackend::new(ROWS).logits(|_, row| {
        row[..256].fill(-40.0);
        row[258..].fill(40.0);
    });
    let sampling = SamplingParams { temperature: 2.0, ..SamplingParams::default() };
    let answer = run(&engine(backend), GenerationRequest { sampling, ..request(&ids([1]), 200) });
    assert!(answer.ids.iter().all(|&id| id == WORD), "{:?}", answer.ids);
}

#[test]
fn log_probabilities() {
    let backend = ScriptedBackend::new(ROWS).logits(|_, row| {
        row.fill(-1e9);
        row[65] = 2.0;
        row[66] = 1.0;
        row[67] = 1.0;
        row[259] = 50.0;
    });
    let engine = engine(backend);
    let ask = |logprobs, logit_bias| {
        let sampling = SamplingParams { logit_bias, ..SamplingParams::default() };
        let answer = run(&engine, GenerationRequest { logprobs, sampling, ..request(&ids([1]), 1) });
        answer.logprobs[0].clone()
    };
    assert_eq!(ask(None, vec![]), None);
    let e = std::f32::consts::E;
    let sum = (e * e + 2.0 * e).ln();
    let plain = ask(Some(3), vec![]).expect("asked for");
    assert_eq!(plain.id, TokenId(65));
    let expected = [(65, 2.0 - sum), (66, 1.0 - sum), (67, 1.0 - sum)];
    assert_eq!(plain.top.len(), 3);
    assert_eq!(plain.logprob, plain.top[0].1);
    for ((id, logprob), expected) in plain.top.iter().zip(expected) {
        assert_eq!(id.0, expected.0);
        assert!((logprob - expected.1).abs() < 1e-6, "{logprob} {}", expected.1);
    }
    assert_eq!(ask(Some(0), vec![]).expect("asked for").top, []);
    // Bias is part of the distribution.
    let banned = ask(Some(3), vec![(TokenId(65), -100.0)]).expect("asked for");
    assert_eq!(banned.id, TokenId(66));
    assert!((banned.logprob - 0.5f32.ln()).abs() < 1e-6, "{}", banned.logprob);
}

#[test]
fn bias_bans_and_forces() {
    let tokens = |logit_bias: &[(u32, f32)]| {
        let bias: Vec<_> = logit_bias.iter().map(|&(id, bias)| (TokenId(id), bias)).collect();
        answer(bytes("aaaa"), |request| {
            request.max_tokens = Some(3);
            request.sampling.logit_bias.clone_from(&bias);
        })
        .text
    };
    assert_eq!(tokens(&[]), "aaa");
    assert_eq!(tokens(&[(u32::from(b'a'), -100.0)]), "\0\0\0");
    assert_eq!(tokens(&[(u32::from(b'z'), 100.0)]), "zzz");
    assert_eq!(tokens(&[(u32::from(b'z'), 51.0)]), "zzz");
    assert_eq!(tokens(&[(u32::from(b'z'), 49.0)]), "aaa");
    assert_eq!(tokens(&[(u32::from(b'z'), 100.0), (u32::from(b'y'), 100.0)]), "yyy");
    // Without its end-of-turn id the model cannot end the answer.
    let unending = answer([bytes("a"), vec![END, END]].concat(), |request| {
        request.stop_ids = vec![END];
        request.max_tokens = Some(8);
        request.sampling.logit_bias = vec![(END, -100.0)];
    });
    assert_eq!((unending.ids.len(), unending.reason), (8, Some(FinishReason::Length)));
}
