//! Penalties for what was said before.

use crate::{SamplingParams, TokenId};
use std::collections::{HashMap, VecDeque};

/// Penalised logits stay within this, so that no penalty makes an infinity.
const LIMIT: f32 = 1e30;

/// What the penalties of one generation need to remember.
#[derive(Debug)]
pub(crate) struct Penalties {
    repetition: f32,
    presence: f32,
    frequency: f32,
    /// The last tokens of prompt and answer, oldest first; empty when the repetition penalty is off.
    window: VecDeque<TokenId>,
    window_len: usize,
    in_window: HashMap<TokenId, u32>,
    /// How often each token was generated; empty when presence and frequency penalty are off.
    generated: HashMap<TokenId, u32>,
}

impl Penalties {
    pub(crate) fn new(params: &SamplingParams, prompt: &[TokenId]) -> Self {
        let window_len = if params.repetition_penalty == 1.0 { 0 } else { params.repetition_window };
        let mut penalties = Self {
            repetition: params.repetition_penalty,
            presence: params.presence_penalty,
            frequency: params.frequency_penalty,
            window: VecDeque::new(),
            window_len,
            in_window: HashMap::new(),
            generated: HashMap::new(),
        };
        for &id in &prompt[prompt.len().saturating_sub(window_len)..] {
            penalties.slide(id);
        }
        penalties
    }

    /// Changes the logits of the tokens concerned; ids past the end are ignored.
    pub(crate) fn apply(&self, logits: &mut [f32]) {
        for id in self.in_window.keys() {
            if let Some(logit) = logits.get_mut(id.0 as usize) {
                let penalised =
                    if *logit > 0.0 { *logit / self.repetition } else { *logit * self.repetition };
                *logit = penalised.clamp(-LIMIT, LIMIT);
            }
        }
        for (id, &count) in &self.generated {
            if let Some(logit) = logits.get_mut(id.0 as usize) {
                *logit -= self.presence + self.frequency * count as f32;
            }
        }
    }

    /// Takes note of a generated token.
    pub(crate) fn record(&mut self, id: TokenId) {
        self.slide(id);
        if self.presence != 0.0 || self.frequency != 0.0 {
            *self.generated.entry(id).or_insert(0) += 1;
        }
    }

    fn slide(&mut self, id: TokenId) {
        if self.window_len == 0 {
            return;
        }
        if self.window.len() == self.window_len
            && let Some(oldest) = self.window.pop_front()
            && let Some(count) = self.in_window.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.in_window.remove(&oldest);
            }
        }
        self.window.push_back(id);
        *self.in_window.entry(id).or_insert(0) += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(params: &SamplingParams, prompt: &[u32], answer: &[u32]) -> Vec<f32> {
        let prompt: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
        let mut penalties = Penalties::new(params, &prompt);
        for &id in answer {
            penalties.record(TokenId(id));
        }
        let mut logits = vec![4.0, -4.0, 4.0, 0.0];
        penalties.apply(&mut logits);
        logits
    }

    /// Presence and frequency count every generated token, however long ago, and none of the prompt.
    #[test]
    fn presence_and_frequency_count_the_whole_answer_only() {
        let params =
            SamplingParams { presence_penalty: 0.5, frequency_penalty: 0.25, ..SamplingParams::default() };
        let prompt = [2; 50];
        assert_eq!(after(&params, &prompt, &[]), [4.0, -4.0, 4.0, 0.0]);
        let mut answer = vec![2, 2, 2];
        answer.extend([3; 500]);
        assert_eq!(
            after(&params, &prompt, &answer),
            [4.0, -4.0, 4.0 - (0.5 + 3.0 * 0.25), -0.5 - 500.0 * 0.25]
        );
    }

    #[test]
    fn repetition_divides_positive_and_multiplies_negative_logits_once() {
        let params = SamplingParams { repetition_penalty: 2.0, ..SamplingParams::default() };
        assert_eq!(after(&params, &[0, 0, 0, 1], &[3, 3]), [2.0, -8.0, 4.0, 0.0]);
    }

    #[test]
    fn the_default_window_sees_a_loop_of_45_tokens_and_the_prompt() {
        let params = SamplingParams { repetition_penalty: 2.0, ..SamplingParams::default() };
        assert!(params.repetition_window >= 64);
        let mut answer = vec![2];
        answer.extend([9; 44]);
        assert_eq!(after(&params, &[0], &answer), [2.0, -4.0, 2.0, 0.0]);
    }

    #[test]
    fn the_window_slides_over_prompt_and_answer() {
        let params =
            SamplingParams { repetition_penalty: 2.0, repetition_window: 3, ..SamplingParams::default() };
        assert_eq!(
            after(&params, &[2, 0, 2, 1], &[3]),
            [4.0, -8.0, 2.0, 0.0],
            "2, 1 and 3 are in the window"
        );
        assert_eq!(
            after(&params, &[2, 0, 2, 1], &[3, 3]),
            [4.0, -8.0, 4.0, 0.0],
            "1, 3 and 3 are in the window"
        );
        let off = SamplingParams { repetition_window: 0, ..params };
        assert_eq!(after(&off, &[0, 1], &[2]), [4.0, -4.0, 4.0, 0.0]);
    }

    #[test]
    fn no_penalty_makes_an_infinity() {
        let params = SamplingParams { repetition_penalty: f32::MIN_POSITIVE, ..SamplingParams::default() };
        assert!(after(&params, &[0, 1, 2, 3], &[]).iter().all(|logit| logit.is_finite()));
        let params = SamplingParams { repetition_penalty: f32::MAX, ..SamplingParams::default() };
        assert!(after(&params, &[0, 1, 2, 3], &[]).iter().all(|logit| logit.is_finite()));
    }
}
