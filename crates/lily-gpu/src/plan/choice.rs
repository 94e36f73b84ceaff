//! The next token, chosen on the device: logits to a token in the step words and in a ring that the host reads.
//!
//! Three routes, named and chosen by what a request asks: the best token, a draw from at most
//! [`sampling::MOST_CANDIDATES`] candidates, and a draw from the whole vocabulary. All make the choice of
//! `lily_engine::Sampler`, up to the rounding of logits.

use super::decode::DecodeTemporaries;
use crate::{Device, GpuError, GpuModel, Recorder, StateBuffers, View};
use lily_checkpoint::ModelConfig;
use lily_engine::{SamplingParams, TokenId, TokenMask};
use lily_kernels::{sampling, step};

/// Slots of the ring: more than there can be steps under way.
const RING: usize = 64;
/// More than any context has tokens: a longer window is the same.
const LONGEST_WINDOW: usize = 1 << 24;
/// Tokens of a repetition window that there is room for from the start.
const FIRST_WINDOW: usize = SamplingParams::DEFAULT_REPETITION_WINDOW;
/// A bias that bans, and its opposite that forces.
const CERTAIN: f32 = 100.0;

/// How a token is chosen: what a recorded choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChoiceRoute {
    /// The best token.
    Greedy,
    /// A draw from the best `candidates` at most.
    Bounded {
        /// How many.
        candidates: usize,
    },
    /// A draw from all tokens.
    Whole {
        /// Top-k or top-p cut first.
        ranked: bool,
    },
}

/// What a recorded choice depends on: two with equal keys can share a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChoiceKey {
    /// The route.
    pub route: ChoiceRoute,
    /// Bias or penalties change the logits.
    pub adjust: bool,
    /// Best tokens that can be reported.
    pub report: usize,
    /// Tokens that the repetition window's buffer has room for.
    pub window: usize,
}

/// A chosen token as the device left it.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The token.
    pub token: TokenId,
    /// One of `lily_kernels::step::STATUS_*`.
    pub status: u32,
    /// Its log-probability.
    pub logprob: f32,
    /// The best tokens with theirs, as many as were asked for.
    pub top: Vec<(TokenId, f32)>,
}

/// What a request says about its choices.
pub struct ChoiceRequest<'a> {
    /// Validated parameters.
    pub params: &'a SamplingParams,
    /// Of the random numbers.
    pub seed: u64,
    /// What the repetition penalty has seen already.
    pub prompt: &'a [TokenId],
    /// What was chosen already: the other penalties look at it, and its length is the next choice's step number.
    pub answer: &'a [TokenId],
    /// The ids that have a token.
    pub tokens: &'a TokenMask,
    /// Best tokens to report with their log-probabilities.
    pub logprobs: usize,
}

/// A request's sampling on the device.
pub struct Choice {
    key: ChoiceKey,
    vocab: usize,
    /// The ids that may be chosen without a grammar, and those of them that a bias forces.
    allowed: TokenMask,
    forced: TokenMask,
    /// u32 `[sampling::WORDS]`.
    sampling: View,
    /// A bit per id: what may be chosen.
    mask: View,
    /// f32 `[vocab]`.
    bias: View,
    /// u32 `[vocab, 2]`: times in the window, times generated.
    counts: View,
    /// u32: the last tokens, a ring.
    window: View,
    candidates: View,
    statistics: View,
    draws: View,
    cut: View,
    ring: View,
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl ChoiceRoute {
    /// The route of a request.
    pub fn of(params: &SamplingParams, vocab: usize) -> Self {
        let bounded = params.top_k > 0 && params.top_k < vocab;
        if params.is_greedy() || params.top_k == 1 {
            Self::Greedy
        } else if bounded && params.top_k <= sampling::MOST_CANDIDATES {
            Self::Bounded { candidates: params.top_k.next_multiple_of(4) }
        } else {
            Self::Whole { ranked: bounded || params.top_p < 1.0 }
        }
    }
}

impl Choice {
    /// The best of all tokens, until [`Choice::set`] says otherwise.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn new(device: &dyn Device, config: &ModelConfig) -> Result<Self, GpuError> {
        let (vocab, most) = (config.vocab_size, sampling::MOST_CANDIDATES);
        let blocks = vocab.div_ceil(sampling::BLOCK);
        let buffer = |count: usize| Ok::<View, GpuError>(device.allocate(count * 4, "sampling")?.whole());
        let ring = device.allocate_shared(RING * sampling::slot_words(most) * 4, "chosen tokens")?.whole();
        let mut choice = Self {
            key: ChoiceKey { route: ChoiceRoute::Greedy, adjust: false, report: 0, window: FIRST_WINDOW },
            vocab,
            allowed: TokenMask::none(vocab),
            forced: TokenMask::none(vocab),
            sampling: buffer(sampling::WORDS)?,
            mask: buffer(vocab.div_ceil(32))?,
            bias: buffer(vocab)?,
            counts: buffer(2 * vocab)?,
            window: buffer(FIRST_WINDOW)?,
            candidates: buffer(blocks * most * 2)?,
            statistics: buffer(blocks * sampling::STATISTICS)?,
            draws: buffer(2 * blocks)?,
            cut: buffer(4)?,
            ring,
        };
        let (params, tokens) = (SamplingParams::default(), TokenMask::all(vocab));
        let greedy = ChoiceRequest {
            params: &params,
            seed: 0,
            prompt: &[],
            answer: &[],
            tokens: &tokens,
            logprobs: 0,
        };
        choice.set(device, &greedy)?;
        Ok(choice)
    }

    /// Bytes of one sequence's buffers, about.
    pub fn bytes(config: &ModelConfig) -> usize {
        let (vocab, blocks) = (config.vocab_size, config.vocab_size.div_ceil(sampling::BLOCK));
        let per_block = 2 * sampling::MOST_CANDIDATES + sampling::STATISTICS + 2;
        (3 * vocab + vocab.div_ceil(32) + blocks * per_block + FIRST_WINDOW) * 4
    }

    /// Takes up a request. Answers what the step words' history starts with. What was recorded before is of use for
    /// requests with the same [`Choice::key`].
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] for a long window; the device's.
    pub fn set(&mut self, device: &dyn Device, request: &ChoiceRequest<'_>) -> Result<u32, GpuError> {
        let &ChoiceRequest { params, seed, prompt, answer, tokens, logprobs } = request;
        let penalised = params.repetition_penalty != 1.0;
        let window_len = if penalised { params.repetition_window.min(LONGEST_WINDOW) } else { 0 };
        let adjust = window_len > 0 || params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
        let mut row = [0; sampling::WORDS];
        row[sampling::TEMPERATURE] = if params.is_greedy() { 1.0 } else { params.temperature }.to_bits();
        row[sampling::TOP_K] = u32::try_from(params.top_k).unwrap_or(0);
        row[sampling::TOP_P] = params.top_p.to_bits();
        row[sampling::MIN_P] = params.min_p.to_bits();
        row[sampling::REPETITION] = params.repetition_penalty.to_bits();
        row[sampling::PRESENCE] = params.presence_penalty.to_bits();
        row[sampling::FREQUENCY] = params.frequency_penalty.to_bits();
        (row[sampling::SEED_LOW], row[sampling::SEED_HIGH]) = (seed as u32, (seed >> 32) as u32);
        row[sampling::WINDOW] = window_len as u32;
        let report = logprobs.min(sampling::MOST_CANDIDATES);
        row[sampling::LOGPROBS] = report as u32;
        device.upload(&self.sampling, &words(&row))?;
        let biased = !params.logit_bias.is_empty();
        self.key.route = ChoiceRoute::of(params, self.vocab);
        (self.key.adjust, self.key.report) = (adjust || biased, report);
        self.find_allowed(params, tokens);
        self.set_mask(device, None)?;
        if !self.key.adjust {
            return Ok(0);
        }
        let mut bias = vec![0.0_f32; self.vocab];
        for &(id, value) in &params.logit_bias {
            if let Some(bias) = bias.get_mut(id.0 as usize) {
                *bias += value;
            }
        }
        device.upload(&self.bias, &bias.iter().flat_map(|bias| bias.to_le_bytes()).collect::<Vec<u8>>())?;
        let seen: Vec<u32> = prompt.iter().chain(answer).map(|id| id.0).collect();
        let seen = &seen[seen.len().saturating_sub(window_len)..];
        let mut counts = vec![0; 2 * self.vocab];
        let generated = answer.iter().map(|id| 2 * id.0 as usize + 1);
        for at in seen.iter().map(|&id| 2 * id as usize).chain(generated) {
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
        device.upload(&self.counts, &words(&counts))?;
        if self.key.window < window_len {
            let room = window_len.next_power_of_two();
            self.window = device.allocate(room * 4, "repetition window")?.whole();
            self.key.window = room;
        }
        if !seen.is_empty() {
            device.upload(&self.window, &words(seen))?;
        }
        Ok(seen.len() as u32)
    }

    /// The ids that may be chosen: those with a token, without banned ones; and the forced ones among them.
    fn find_allowed(&mut self, params: &SamplingParams, tokens: &TokenMask) {
        self.allowed.allow_none();
        self.forced.allow_none();
        for (word, &tokens) in self.allowed.words_mut().iter_mut().zip(tokens.words()) {
            *word = tokens;
        }
        let mut sums = std::collections::BTreeMap::new();
        for &(id, bias) in &params.logit_bias {
            *sums.entry(id).or_insert(0.0) += bias;
        }
        for (id, sum) in sums {
            if sum <= -CERTAIN {
                self.allowed.forbid(id);
            } else if sum >= CERTAIN && self.allowed.allows(id) {
                self.forced.allow(id);
            }
        }
    }

    /// Replaces what may be chosen: what the request allows and, if given, a grammar too; of that only the forced ids, if
    /// any is left. Takes effect between the layers and the choice of the step that is submitted next.
    ///
    /// # Errors
    /// The device's.
    pub fn set_mask(&self, device: &dyn Device, grammar: Option<&TokenMask>) -> Result<(), GpuError> {
        let narrowed = |mask: &TokenMask| -> Vec<u32> {
            let grammar = grammar.map(TokenMask::words);
            let word = |at: usize| grammar.map_or(u32::MAX, |words| words.get(at).copied().unwrap_or(0));
            mask.words().iter().enumerate().map(|(at, &own)| own & word(at)).collect()
        };
        let forced = narrowed(&self.forced);
        let left = if forced.iter().any(|&word| word != 0) { forced } else { narrowed(&self.allowed) };
        device.upload(&self.mask, &words(&left))
    }

    /// What the host has written before a choice: the request, and what may be chosen.
    pub(crate) fn given(&self) -> Vec<View> {
        [&self.sampling, &self.mask, &self.bias, &self.counts, &self.window, &self.ring]
            .map(View::clone)
            .to_vec()
    }

    /// What a recording of this choice depends on.
    pub fn key(&self) -> ChoiceKey {
        self.key
    }

    /// What was chosen after the token at `position`, once its step is done.
    ///
    /// # Errors
    /// The device's.
    pub fn report(&self, device: &dyn Device, position: usize) -> Result<Chosen, GpuError> {
        let mut slot = vec![0; sampling::slot_words(self.key.report) * 4];
        device.peek(&self.slot(position), &mut slot)?;
        let words: Vec<u32> = slot
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let reported = (words[3] as usize).min(self.key.report);
        let top = words[4..4 + 2 * reported].chunks_exact(2);
        Ok(Chosen {
            token: TokenId(words[0]),
            status: words[1],
            logprob: f32::from_bits(words[2]),
            top: top.map(|pair| (TokenId(pair[0]), f32::from_bits(pair[1]))).collect(),
        })
    }

    fn slot(&self, position: usize) -> View {
        let bytes = sampling::slot_words(self.key.report) * 4;
        self.ring.slice(position % RING * bytes, bytes)
    }
}

/// Records a choice: two launches, four on the whole-vocabulary route.
///
/// # Errors
/// A kernel that does not compile.
pub fn record(
    recorder: &mut Recorder,
    model: &GpuModel,
    state: &StateBuffers,
    temporaries: &DecodeTemporaries,
    choice: &Choice,
) -> Result<(), GpuError> {
    let ChoiceKey { route, adjust, report, .. } = choice.key;
    let blocks = choice.vocab.div_ceil(sampling::BLOCK);
    let (number, candidates) = match route {
        ChoiceRoute::Greedy => (0, 1),
        ChoiceRoute::Bounded { candidates } => (1, candidates),
        ChoiceRoute::Whole { .. } => (2, 1),
    };
    let candidates = candidates.max(report);
    let groups = u32::try_from(blocks).unwrap_or(u32::MAX);
    let vocab = ("VOCAB", choice.vocab as i64);
    let count = ("CANDIDATES", candidates as i64);
    let whole = matches!(route, ChoiceRoute::Whole { .. });
    let found = choice.candidates.slice(0, blocks * candidates * 8);

    let constants = [vocab, count, ("ADJUST", i64::from(adjust)), ("KEEP", i64::from(whole))];
    let kernel = model.kernel("sample_blocks", &constants, "sample_blocks")?;
    let logits = temporaries.logits.bytes();
    recorder
        .dispatch(&kernel, [groups, 1, 1])
        .bind("logits", &temporaries.logits)
        .bind("mask", &choice.mask)
        .bind("bias", &choice.bias)
        .bind("counts", &choice.counts)
        .bind("sampling", &choice.sampling)
        .bind("candidates", &found)
        .bind("statistics", &choice.statistics)
        .traffic("logits", logits, if whole && adjust { logits } else { 0 })
        .traffic("bias", if adjust { choice.bias.bytes() } else { 0 }, 0)
        .traffic("counts", if adjust { choice.counts.bytes() } else { 0 }, 0)
        .label("choice.blocks");

    if let ChoiceRoute::Whole { ranked } = route {
        let constants = [vocab, ("BLOCKS", blocks as i64), ("RANKED", i64::from(ranked))];
        recorder
            .dispatch(&model.kernel("sample_whole", &constants, "sample_cut")?, [1, 1, 1])
            .bind("logits", &temporaries.logits)
            .bind("statistics", &choice.statistics)
            .bind("sampling", &choice.sampling)
            .bind("cut", &choice.cut)
            .label("choice.cut");
        recorder
            .dispatch(&model.kernel("sample_whole", &constants, "sample_draw")?, [groups, 1, 1])
            .bind("logits", &temporaries.logits)
            .bind("statistics", &choice.statistics)
            .bind("cut", &choice.cut)
            .bind("sampling", &choice.sampling)
            .bind("step", &state.step)
            .bind("draws", &choice.draws)
            .label("choice.draw");
    }

    let constants = [
        vocab,
        ("BLOCKS", blocks as i64),
        count,
        ("ROUTE", number),
        ("PENALISE", i64::from(adjust)),
        ("REPORT", report as i64),
        ("RING", RING as i64),
    ];
    let kernel = model.kernel("sample_choose", &constants, "sample_choose")?;
    let slot = sampling::slot_words(report) * 4;
    recorder
        .dispatch(&kernel, [1, 1, 1])
        .bind("candidates", &found)
        .bind("statistics", &choice.statistics)
        .bind("draws", &choice.draws)
        .bind("logits", &temporaries.logits)
        .bind("sampling", &choice.sampling)
        .bind("step", &state.step)
        .bind("counts", &choice.counts)
        .bind("window", &choice.window)
        .bind("ring", &choice.ring.slice(0, RING * slot))
        .traffic("logits", 4, 0)
        .traffic("counts", 8, 8)
        .traffic("window", 4, 4)
        .traffic("ring", 0, slot)
        .label("choice.choose");
    Ok(())
}

/// What is wrong, in words, if a choice's status is not `STATUS_OK`.
pub fn status_text(status: u32) -> Option<&'static str> {
    match status {
        step::STATUS_OK => None,
        step::STATUS_NAN => Some("a logit is NaN"),
        step::STATUS_INFINITE => Some("a logit is infinite"),
        _ => Some("no token is allowed"),
    }
}
