//! A grammar's say.

use crate::support::{ROWS, engine, ids, request, run};
use lily_engine::testing::{END, ScriptedBackend, bytes};
use lily_engine::{
    ConstraintError, FinishReason, GenerationError, GenerationRequest, SamplingParams, TokenConstraint,
    TokenId, TokenMask,
};

/// Allows one fixed text and then the end.
#[derive(Clone)]
pub(crate) struct Fixed {
    text: Vec<TokenId>,
    at: usize,
    /// Complete after the text, without asking for the end.
    closes_itself: bool,
    fails_at: Option<usize>,
    panics_at: Option<usize>,
}

impl TokenConstraint for Fixed {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        assert!(mask.allows(END), "the mask arrives with everything allowed");
        if self.fails_at == Some(self.at) {
            return Err(ConstraintError("the grammar is stuck".to_owned()));
        }
        assert!(self.panics_at != Some(self.at), "a fault of the grammar");
        mask.allow_none();
        mask.allow(self.text.get(self.at).copied().unwrap_or(END));
        Ok(())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        assert_eq!(token, self.text.get(self.at).copied().unwrap_or(END));
        self.at += 1;
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.closes_itself && self.at == self.text.len()
    }

    fn clone_box(&self) -> Box<dyn TokenConstraint> {
        Box::new(self.clone())
    }
}

pub(crate) fn fixed(text: &str) -> Fixed {
    Fixed { text: bytes(text), at: 0, closes_itself: false, fails_at: None, panics_at: None }
}

pub(crate) fn constrained(constraint: Fixed) -> GenerationRequest {
    GenerationRequest {
        constraint: Some(Box::new(constraint)),
        stop_ids: vec![END],
        ..request(&ids([1, 2]), 50)
    }
}

#[test]
fn only_allowed_tokens_are_chosen_whatever_the_sampling() {
    let engine = engine(ScriptedBackend::new(ROWS));
    for sampling in [
        SamplingParams::default(),
        SamplingParams { temperature: 2.0, ..SamplingParams::default() },
        SamplingParams { temperature: 1.0, top_k: 20, top_p: 0.9, ..SamplingParams::default() },
        SamplingParams { logit_bias: vec![(TokenId(120), 100.0)], ..SamplingParams::default() },
    ] {
        let request = GenerationRequest { sampling, logprobs: Some(3), ..constrained(fixed("{\"a\":1}")) };
        let answer = run(&engine, request.clone());
        assert_eq!((answer.text.as_str(), answer.reason), ("{\"a\":1}", Some(FinishReason::EndOfText)));
        for logprob in answer.logprobs.iter().flatten() {
            assert_eq!((logprob.logprob, logprob.top.len()), (0.0, 1), "all mass is on what is allowed");
        }
        assert_eq!(run(&engine, request).text, answer.text, "a clone starts afresh");
    }
}

#[test]
fn a_complete_constraint_ends_the_answer() {
    let engine = engine(ScriptedBackend::new(ROWS));
    let answer = run(&engine, constrained(Fixed { closes_itself: true, ..fixed("yes") }));
    assert_eq!((answer.text.as_str(), answer.reason), ("yes", Some(FinishReason::EndOfText)));
    assert_eq!(answer.usage.completion_tokens, 3);
}

#[test]
fn its_failure_is_the_requests_failure() {
    let engine = engine(ScriptedBackend::new(ROWS));
    let answer = run(&engine, constrained(Fixed { fails_at: Some(2), ..fixed("yes") }));
    assert_eq!(answer.text, "ye");
    assert!(
        matches!(answer.error, Some(GenerationError::Constraint(ConstraintError(what))) if what.contains("stuck"))
    );
    // A ban and the grammar together leave nothing.
    let sampling =
        SamplingParams { logit_bias: vec![(TokenId(u32::from(b'y')), -100.0)], ..SamplingParams::default() };
    let answer = run(&engine, GenerationRequest { sampling, ..constrained(fixed("yes")) });
    assert!(matches!(answer.error, Some(GenerationError::NothingToSample)));
    let answer = run(&engine, constrained(Fixed { panics_at: Some(1), ..fixed("yes") }));
    assert!(
        matches!(answer.error, Some(GenerationError::Internal(what)) if what.contains("a fault of the grammar"))
    );
    assert_eq!(run(&engine, constrained(fixed("yes"))).text, "yes", "the engine lives");
}
