//! The sampling options, shared by `chat` and `run`.

use clap::Args;
use lily_engine::SamplingParams;

/// How the next token is chosen. What is not given comes from the model's generation_config.json.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling options (defaults: the model's generation_config.json)")]
pub(crate) struct SamplingArgs {
    /// 0 always takes the most probable token; higher is more varied
    #[arg(short, long, value_name = "T", allow_negative_numbers = true)]
    pub(crate) temperature: Option<f32>,

    /// Choose among the K most probable tokens; 0 is off
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<usize>,

    /// Choose among the most probable tokens that together hold this probability, in (0, 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) top_p: Option<f32>,

    /// Drop tokens less probable than this share of the best one, in [0, 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) min_p: Option<f32>,

    /// Make tokens of prompt and answer less likely to come again; 1 is off
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) repetition_penalty: Option<f32>,

    /// Last tokens that the repetition penalty looks at
    #[arg(long, value_name = "N")]
    pub(crate) repetition_window: Option<usize>,

    /// Subtract this once from every token of the answer so far, in [-2, 2]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) presence_penalty: Option<f32>,

    /// Subtract this for every time a token is in the answer so far, in [-2, 2]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) frequency_penalty: Option<f32>,

    /// Same seed and prompt, same answer [default: fresh randomness]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Longest answer in tokens, thinking included [default: to the end of the context]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,

    /// End the answer before this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
}

impl SamplingArgs {
    /// The model's defaults with what was given in their place.
    pub(crate) fn apply(&self, mut params: SamplingParams) -> SamplingParams {
        fn set<T>(value: &mut T, given: Option<T>) {
            if let Some(given) = given {
                *value = given;
            }
        }
        set(&mut params.temperature, self.temperature);
        set(&mut params.top_k, self.top_k);
        set(&mut params.top_p, self.top_p);
        set(&mut params.min_p, self.min_p);
        set(&mut params.repetition_penalty, self.repetition_penalty);
        set(&mut params.repetition_window, self.repetition_window);
        set(&mut params.presence_penalty, self.presence_penalty);
        set(&mut params.frequency_penalty, self.frequency_penalty);
        params.seed = self.seed.or(params.seed);
        params
    }

    /// `max_tokens` as the engine counts.
    pub(crate) fn max_tokens(&self) -> Option<usize> {
        self.max_tokens.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX))
    }
}
