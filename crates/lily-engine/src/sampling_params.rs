//! How the next token is chosen, as a request says it.

use crate::TokenId;
use lily_checkpoint::GenerationConfig;

/// How the next token is chosen. Every value is checked by [`SamplingParams::validate`].
///
/// The order of operations is written at [`crate::Sampler`].
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 is greedy (of equal logits the lowest id); else logits are divided by it. In [0, 2].
    pub temperature: f32,
    /// Candidates kept; 0 is off.
    pub top_k: usize,
    /// Nucleus mass in (0, 1]; 1 is off. The best candidate is always kept.
    pub top_p: f32,
    /// Smallest kept share of the best candidate's probability, in [0, 1]; 0 is off.
    pub min_p: f32,
    /// Divides (positive) or multiplies (negative) logits of tokens in the window over prompt and answer; 1 is off.
    /// Finite and greater than 0.
    pub repetition_penalty: f32,
    /// Last tokens (prompt and answer) that the repetition penalty looks at;
    /// [`SamplingParams::DEFAULT_REPETITION_WINDOW`] by default, 0 is off.
    pub repetition_window: usize,
    /// Subtracted once from each token that was generated (the prompt does not count); in [-2, 2].
    pub presence_penalty: f32,
    /// Subtracted per time a token was generated (the prompt does not count); in [-2, 2].
    pub frequency_penalty: f32,
    /// Added to logits before anything else, in [-100, 100]. -100 bans; 100 forces: as long as a token with 100 can be
    /// chosen at all, only those are. An id that comes twice counts twice.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Same seed and request, same text; `None` is fresh randomness.
    pub seed: Option<u64>,
}

/// A sampling parameter out of range; names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SamplingError {
    /// The field's wire name.
    pub field: &'static str,
    /// What is allowed.
    pub reason: String,
}

impl Default for SamplingParams {
    /// Greedy, nothing else changed.
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_window: Self::DEFAULT_REPETITION_WINDOW,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: None,
        }
    }
}

impl SamplingParams {
    /// Tokens that the repetition penalty looks back on when nothing else is asked: long enough to see a loop of a few
    /// paragraphs, short enough not to punish every word of a long document.
    pub const DEFAULT_REPETITION_WINDOW: usize = 1024;

    /// The defaults of a checkpoint: the values of its `generation_config.json`; what that does not say is as this
    /// model family ships it (sampling, temperature 1, top-p 0.95, top-k 20). `do_sample: false` is greedy. A value
    /// outside its range is replaced by the family's and logged.
    #[must_use]
    pub fn from_generation_config(config: &GenerationConfig) -> Self {
        let family = Self { temperature: 1.0, top_k: 20, top_p: 0.95, ..Self::default() };
        let greedy = config.do_sample == Some(false);
        let wanted = Self {
            temperature: if greedy { 0.0 } else { config.temperature.unwrap_or(family.temperature) },
            top_k: config.top_k.unwrap_or(family.top_k),
            top_p: config.top_p.unwrap_or(family.top_p),
            min_p: config.min_p.unwrap_or(family.min_p),
            repetition_penalty: config.repetition_penalty.unwrap_or(family.repetition_penalty),
            ..family.clone()
        };
        let mut params = family;
        params.top_k = wanted.top_k;
        for adopt in [
            |to: &mut Self, from: &Self| to.temperature = from.temperature,
            |to: &mut Self, from: &Self| to.top_p = from.top_p,
            |to: &mut Self, from: &Self| to.min_p = from.min_p,
            |to: &mut Self, from: &Self| to.repetition_penalty = from.repetition_penalty,
        ] {
            let mut trial = params.clone();
            adopt(&mut trial, &wanted);
            match trial.validate() {
                Ok(()) => params = trial,
                Err(error) => tracing::warn!("generation_config.json: {error}; using the family's default"),
            }
        }
        params
    }

    /// Checks every range, NaN and infinity included.
    ///
    /// # Errors
    /// The first field out of range, by its wire name.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let within = |field, value: f32, low: f32, high: f32| {
            if value >= low && value <= high {
                Ok(())
            } else {
                Err(SamplingError {
                    field,
                    reason: format!("must be a number from {low} to {high}, not {value}"),
                })
            }
        };
        within("temperature", self.temperature, 0.0, 2.0)?;
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            let reason = format!("must be greater than 0 and at most 1, not {}", self.top_p);
            return Err(SamplingError { field: "top_p", reason });
        }
        within("min_p", self.min_p, 0.0, 1.0)?;
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            let reason = format!("must be finite and greater than 0, not {}", self.repetition_penalty);
            return Err(SamplingError { field: "repetition_penalty", reason });
        }
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        for &(id, bias) in &self.logit_bias {
            if !(-100.0..=100.0).contains(&bias) {
                let reason = format!("must be from -100 to 100, not {bias} (token {})", id.0);
                return Err(SamplingError { field: "logit_bias", reason });
            }
        }
        Ok(())
    }

    /// Checks that every id of `logit_bias` has a token.
    ///
    /// # Errors
    /// Names the first id that has none.
    pub fn validate_ids(&self, has_token: impl Fn(TokenId) -> bool) -> Result<(), SamplingError> {
        match self.logit_bias.iter().find(|(id, _)| !has_token(*id)) {
            None => Ok(()),
            Some((id, _)) => Err(SamplingError {
                field: "logit_bias",
                reason: format!("there is no token with id {}", id.0),
            }),
        }
    }

    /// True if the best candidate is always taken.
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Edit = fn(&mut SamplingParams);

    #[test]
    fn ranges() {
        let allowed: [Edit; 12] = [
            |p| p.temperature = 0.0,
            |p| p.temperature = 1e-30,
            |p| p.temperature = 2.0,
            |p| p.top_p = 1.0,
            |p| p.top_p = f32::MIN_POSITIVE,
            |p| p.top_k = 999_999_999,
            |p| p.min_p = 1.0,
            |p| p.repetition_penalty = 1e-3,
            |p| p.presence_penalty = -2.0,
            |p| p.frequency_penalty = 2.0,
            |p| p.logit_bias = vec![(TokenId(1), -100.0), (TokenId(2), 100.0)],
            |p| p.seed = Some(u64::MAX),
        ];
        for (case, edit) in allowed.iter().enumerate() {
            let mut params = SamplingParams::default();
            edit(&mut params);
            assert_eq!(params.validate(), Ok(()), "case {case}");
        }
        let refused: [(&str, Edit); 18] = [
            ("temperature", |p| p.temperature = -0.1),
            ("temperature", |p| p.temperature = f32::NAN),
            ("temperature", |p| p.temperature = f32::INFINITY),
            ("temperature", |p| p.temperature = 2.1),
            ("top_p", |p| p.top_p = 0.0),
            ("top_p", |p| p.top_p = -1.0),
            ("top_p", |p| p.top_p = 1.1),
            ("top_p", |p| p.top_p = f32::NAN),
            ("min_p", |p| p.min_p = 1.5),
            ("min_p", |p| p.min_p = f32::NAN),
            ("repetition_penalty", |p| p.repetition_penalty = 0.0),
            ("repetition_penalty", |p| p.repetition_penalty = f32::INFINITY),
            ("repetition_penalty", |p| p.repetition_penalty = f32::NAN),
            ("presence_penalty", |p| p.presence_penalty = 2.5),
            ("frequency_penalty", |p| p.frequency_penalty = -2.5),
            ("frequency_penalty", |p| p.frequency_penalty = f32::NAN),
            ("logit_bias", |p| p.logit_bias = vec![(TokenId(1), 100.5)]),
            ("logit_bias", |p| p.logit_bias = vec![(TokenId(1), f32::NAN)]),
        ];
        for (case, (field, edit)) in refused.iter().enumerate() {
            let mut params = SamplingParams::default();
            edit(&mut params);
            let error = params.validate().expect_err("out of range");
            assert_eq!(error.field, *field, "case {case}");
            assert!(error.to_string().starts_with(field), "{error}");
        }
    }

    #[test]
    fn ids_without_a_token_are_named() {
        let params =
            SamplingParams { logit_bias: vec![(TokenId(99_999_999), 1.0)], ..SamplingParams::default() };
        let error = params.validate_ids(|id| id.0 < 100).expect_err("no such token");
        assert_eq!(error.to_string(), "logit_bias: there is no token with id 99999999");
        assert!(params.validate_ids(|_| true).is_ok());
    }

    #[test]
    fn defaults_of_a_checkpoint() {
        let full = GenerationConfig {
            do_sample: Some(true),
            temperature: Some(0.6),
            top_p: Some(0.9),
            top_k: Some(40),
            min_p: Some(0.05),
            repetition_penalty: Some(1.05),
            eos_token_ids: vec![],
        };
        let params = SamplingParams::from_generation_config(&full);
        assert_eq!((params.temperature, params.top_p, params.top_k), (0.6, 0.9, 40));
        assert_eq!((params.min_p, params.repetition_penalty), (0.05, 1.05));

        let family = SamplingParams::from_generation_config(&GenerationConfig::default());
        assert_eq!((family.temperature, family.top_p, family.top_k), (1.0, 0.95, 20));

        let greedy =
            SamplingParams::from_generation_config(&GenerationConfig { do_sample: Some(false), ..full });
        assert!(greedy.is_greedy());

        let broken =
            GenerationConfig { temperature: Some(f32::NAN), top_p: Some(0.5), ..GenerationConfig::default() };
        let params = SamplingParams::from_generation_config(&broken);
        assert_eq!((params.temperature, params.top_p), (1.0, 0.5));
    }
}
