//! Stop strings, across token borders.

use crate::support::{Answer, ROWS, engine, ids, request, run};
use lily_engine::testing::{ScriptedBackend, WORD, bytes};
use lily_engine::{FinishReason, GenerationRequest, TokenId};
use proptest::prelude::*;

fn answer(said: Vec<TokenId>, stop: &[&str]) -> Answer {
    let count = said.len();
    let backend = ScriptedBackend::new(ROWS).saying(move |tokens| said.get(tokens.len() - 1).copied());
    let stop = stop.iter().map(|&stop| stop.to_owned()).collect();
    run(&engine(backend), GenerationRequest { stop, ..request(&ids([1]), count) })
}

#[test]
fn across_tokens() {
    let found = answer(bytes("one two END three"), &["END"]);
    assert_eq!((found.text.as_str(), found.reason), ("one two ", Some(FinishReason::StopString)));
    assert_eq!(found.stop.as_deref(), Some("END"));
    assert_eq!(found.usage.completion_tokens, "one two END".len(), "nothing is generated past it");
    let missed = answer(bytes("one two EN"), &["END"]);
    assert_eq!((missed.text.as_str(), missed.reason), ("one two EN", Some(FinishReason::Length)));
    assert_eq!(missed.stop, None);
}

#[test]
fn inside_a_token() {
    let found = answer([bytes("a"), vec![WORD], bytes("b")].concat(), &["ell"]);
    assert_eq!((found.text.as_str(), found.stop.as_deref()), ("a h", Some("ell")));
}

#[test]
fn what_a_detokenizer_held_back_can_complete_one() {
    let found = answer(ids([0x41, 0xe2, 0x82]), &["\u{fffd}"]);
    assert_eq!((found.text.as_str(), found.reason), ("A", Some(FinishReason::StopString)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Deltas and the last text together are the answer; nothing is lost or comes twice.
    #[test]
    fn deltas_are_the_answer(
        text in "[abé€]{1,30}",
        stop in proptest::collection::vec("[abé€]{2,4}", 0..3),
    ) {
        let stop: Vec<&str> = stop.iter().map(String::as_str).collect();
        let found = answer(bytes(&text), &stop);
        prop_assert_eq!(found.deltas.concat(), found.text.clone());
        match &found.stop {
            None => {
                prop_assert_eq!(&found.text, &text);
                prop_assert!(stop.iter().all(|stop| !text.contains(stop)));
            }
            Some(stop_found) => {
                let passed = format!("{}{stop_found}", found.text);
                prop_assert!(text.starts_with(&passed), "{:?} in {:?}", passed, text);
                let shorter = &passed[..passed.len() - passed.chars().last().map_or(0, char::len_utf8)];
                prop_assert!(stop.iter().all(|stop| !shorter.contains(stop)), "an earlier one was missed");
            }
        }
    }
}
