//! Sampling defaults, from `generation_config.json`.

use crate::{
    CheckpointError,
    json::{self, Fields},
};

/// Sampling defaults of a checkpoint.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GenerationConfig {
    /// False means greedy.
    pub do_sample: Option<bool>,
    /// Softmax temperature.
    pub temperature: Option<f32>,
    /// Nucleus mass.
    pub top_p: Option<f32>,
    /// Candidates kept; 0 is off.
    pub top_k: Option<usize>,
    /// Smallest kept share of the best candidate's probability.
    pub min_p: Option<f32>,
    /// Divides (positive) or multiplies (negative) logits of seen tokens.
    pub repetition_penalty: Option<f32>,
    /// Ids that end a generation.
    pub eos_token_ids: Vec<u32>,
}

impl GenerationConfig {
    /// Reads the text of a `generation_config.json`. Fields that are absent or null stay unset; unknown ones are ignored.
    ///
    /// # Errors
    /// [`CheckpointError::Json`] and [`CheckpointError::Config`], with the field.
    pub fn from_json(text: &[u8]) -> Result<Self, CheckpointError> {
        Self::parse("generation_config.json", text)
    }

    pub(crate) fn parse(label: &str, text: &[u8]) -> Result<Self, CheckpointError> {
        let value = json::parse(label, text)?;
        let fields = Fields::root(label, &value)?;
        let number = |name, expected, accept: fn(f64) -> bool| {
            Ok::<_, CheckpointError>(fields.number(name, expected, accept)?.map(|n| n as f32))
        };
        Ok(Self {
            do_sample: fields.flag("do_sample")?,
            temperature: number("temperature", "a number from 0 to 1000", |n| (0.0..=1000.0).contains(&n))?,
            top_p: number("top_p", "a number from 0 to 1", |n| (0.0..=1.0).contains(&n))?,
            top_k: fields.count("top_k", 0..=u32::MAX as usize)?,
            min_p: number("min_p", "a number from 0 to 1", |n| (0.0..=1.0).contains(&n))?,
            repetition_penalty: number("repetition_penalty", "a number above 0 and at most 1000", |n| {
                n as f32 > 0.0 && n <= 1000.0
            })?,
            eos_token_ids: fields.token_ids("eos_token_id")?,
        })
    }
}
