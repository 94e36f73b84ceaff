//! One running generation.

use crate::answer::Answer;
use crate::queue::{Job, verdict};
use crate::reply::Reply;
use crate::{
    CancelToken, Choice, ChoicePlan, Chosen, Event, FinishReason, GenerationError, GenerationRequest,
    Sampler, SequenceState, TokenId, TokenMask, Usage,
};
use lily_text::Tokenizer;
use std::sync::Arc;
use std::time::Instant;

/// What a model's generations have in common.
pub(crate) struct Vocabulary {
    pub(crate) tokenizer: Tokenizer,
    /// The rows of the logits that have a token.
    pub(crate) tokens: Arc<TokenMask>,
    pub(crate) max_context: usize,
}

/// Prefixes shorter than this are read again about as fast as they are restored.
pub(crate) const LEAST_SNAPSHOT: usize = 16;

/// A generation that has a place: what it has read and said, and what is needed to go on.
pub(crate) struct Sequence<S> {
    /// `None` before the first prefill, and after a fault that was not this sequence's own: it is then built anew.
    pub(crate) state: Option<S>,
    /// Prompt and answer. The state has consumed the first `state.position()` of them.
    pub(crate) history: Vec<TokenId>,
    pub(crate) prompt_len: usize,
    /// The length of `history` at which to end.
    max_len: usize,
    /// Logits after the last token of `history`, when the state has consumed it.
    pub(crate) logits: Vec<f32>,
    /// Prefix lengths at which to keep a snapshot, ascending.
    pub(crate) borders: Vec<usize>,
    /// When it last had a piece of its prompt read, for fair turns.
    pub(crate) turn: u64,
    /// How often the state was lost to another sequence's fault.
    pub(crate) rebuilds: u32,
    /// Decode without others next time, to find out whose the fault was.
    pub(crate) alone: bool,
    pub(crate) ended: bool,
    /// Who chooses the tokens after the first; `None` while the backend was not asked about this state.
    pub(crate) route: Option<Route>,
    pub(crate) reply: Reply,
    pub(crate) usage: Usage,
    request: GenerationRequest,
    abandoned: CancelToken,
    sampler: Sampler,
    mask: Option<TokenMask>,
    answer: Answer,
    started: Instant,
    first_token: Option<Instant>,
}

/// Who chooses a sequence's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// The backend: logits stay where they are computed, and the next step may begin before the engine knows the token.
    Backend,
    /// The engine's sampler, from logits that the backend hands out.
    Engine,
}

/// The end of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) reason: FinishReason,
    pub(crate) stop: Option<String>,
}

impl Ending {
    pub(crate) fn new(reason: FinishReason) -> Self {
        Self { reason, stop: None }
    }
}

impl<S: SequenceState> Sequence<S> {
    pub(crate) fn start(job: Job, vocabulary: &Vocabulary, turn: u64) -> Self {
        let Job { mut request, reply, abandoned, submitted } = job;
        let history = std::mem::take(&mut request.prompt);
        let prompt_len = history.len();
        let room = vocabulary.max_context.saturating_sub(prompt_len);
        let sampler = Sampler::new(&request.sampling, &history, vocabulary.tokens.clone(), request.logprobs);
        let started = Instant::now();
        Self {
            state: None,
            prompt_len,
            max_len: prompt_len + request.max_tokens.map_or(room, |most| most.min(room)),
            logits: Vec::new(),
            borders: Vec::new(),
            turn,
            rebuilds: 0,
            alone: false,
            ended: false,
            route: None,
            reply,
            usage: Usage { prompt_tokens: prompt_len, queue: started - submitted, ..Usage::default() },
            abandoned,
            sampler,
            mask: request.constraint.is_some().then(|| TokenMask::none(vocabulary.tokens.len())),
            answer: Answer::new(vocabulary.tokenizer.detokenizer(true), std::mem::take(&mut request.stop)),
            started,
            first_token: None,
            history,
            request,
        }
    }

    /// Tokens that the state has consumed.
    pub(crate) fn position(&self) -> usize {
        self.state.as_ref().map_or(0, SequenceState::position)
    }

    /// True if all but the newest token has been consumed, or that one too by a backend that runs ahead: the next step
    /// is a decode, not a prefill.
    pub(crate) fn is_decoding(&self) -> bool {
        let left = self.history.len().saturating_sub(self.position());
        let decodes = left == 1 || (left == 0 && self.route == Some(Route::Backend));
        !self.ended && self.history.len() > self.prompt_len && decodes
    }

    /// True if a prompt, or what must be read again, is not consumed yet.
    pub(crate) fn is_prefilling(&self) -> bool {
        !self.ended && !self.is_decoding()
    }

    /// True if a token is still to be chosen.
    pub(crate) fn wants_token(&self) -> bool {
        self.history.len() < self.max_len
    }

    /// True until the first token is chosen.
    pub(crate) fn is_reading_prompt(&self) -> bool {
        self.history.len() == self.prompt_len
    }

    /// Where the next piece of prefill ends if it may have `most` tokens: at the next border at the latest.
    pub(crate) fn piece_end(&self, most: usize) -> usize {
        let start = self.position();
        let end = self.history.len().min(start + most);
        self.borders.iter().copied().find(|&border| border > start && border < end).unwrap_or(end)
    }

    /// Chooses where to keep snapshots on the way through the prompt: every `interval` tokens (0 is never), where the
    /// request says, and before the last token, so that the same prompt can be asked again.
    pub(crate) fn choose_borders(&mut self, interval: usize) {
        let start = self.position();
        let last = self.prompt_len - 1;
        let regular = (1..)
            .map_while(|i| interval.checked_mul(i))
            .take_while(|&at| interval > 0 && at + interval / 4 < last);
        let mut borders: Vec<usize> = regular.chain([last]).filter(|&at| at >= LEAST_SNAPSHOT).collect();
        borders.extend(self.request.snapshot_at.iter().filter(|&&at| at > 0 && at < self.prompt_len));
        borders.retain(|&at| at > start);
        borders.sort_unstable();
        borders.dedup();
        self.borders = borders;
    }

    /// Why it should not be carried on, if so.
    pub(crate) fn verdict(&self) -> Option<GenerationError> {
        verdict(&self.request, &self.abandoned)
    }

    /// What a backend that chooses by itself must know, with the state that it concerns.
    pub(crate) fn choice_plan<'a>(
        &'a mut self,
        vocabulary: &'a Vocabulary,
    ) -> Option<(&'a mut S, ChoicePlan<'a>)> {
        let (prompt, answer) = self.history.split_at(self.prompt_len);
        let plan = ChoicePlan {
            params: &self.request.sampling,
            seed: self.sampler.seed(),
            prompt,
            answer,
            tokens: &vocabulary.tokens,
            logprobs: self.request.logprobs,
        };
        self.state.as_mut().map(|state| (state, plan))
    }

    /// State, newest token, mask and whether to run ahead: what the backend needs for its next choice.
    pub(crate) fn choice_step(&mut self) -> Option<(&mut S, TokenId, Option<&TokenMask>, bool)> {
        // Nothing is begun that will certainly not be asked for.
        let run_ahead = self.mask.is_none() && self.history.len() + 1 < self.max_len;
        let (state, token) = (self.state.as_mut()?, *self.history.last()?);
        Some((state, token, self.mask.as_ref(), run_ahead))
    }

    /// Asks the constraint what may come next.
    pub(crate) fn narrow(&mut self) -> Result<(), GenerationError> {
        if let (Some(constraint), Some(mask)) = (&mut self.request.constraint, &mut self.mask) {
            mask.allow_all();
            constraint.mask(mask)?;
        }
        Ok(())
    }

    /// Chooses the next token from `self.logits`.
    pub(crate) fn next_token(&mut self) -> Result<(Event, Option<Ending>), GenerationError> {
        self.narrow()?;
        let choice = self.sampler.choose(&mut self.logits, self.mask.as_ref())?;
        self.take(choice)
    }

    /// Takes what the backend chose.
    pub(crate) fn take_chosen(&mut self, chosen: Chosen) -> Result<(Event, Option<Ending>), GenerationError> {
        match chosen {
            Chosen::Token(choice) => {
                self.sampler.record(choice.id);
                self.take(choice)
            }
            Chosen::NotFinite(what) => Err(self.sampler.bad_logits(what)),
            Chosen::NothingAllowed => Err(GenerationError::NothingToSample),
        }
    }

    /// The answer with one token more.
    fn take(&mut self, choice: Choice) -> Result<(Event, Option<Ending>), GenerationError> {
        if let Some(constraint) = &mut self.request.constraint {
            constraint.accept(choice.id)?;
        }
        self.history.push(choice.id);
        self.usage.completion_tokens += 1;
        let now = Instant::now();
        let first = *self.first_token.get_or_insert(now);
        self.usage.decode = now - first;

        let mut text = String::new();
        let mut ending = None;
        if !self.request.ignore_eos && self.request.stop_ids.contains(&choice.id) {
            ending = Some(Ending::new(FinishReason::EndOfText));
        } else {
            match self.answer.push(choice.id) {
                Ok(certain) => text = certain,
                Err(found) => {
                    text = found.before;
                    ending = Some(Ending { reason: FinishReason::StopString, stop: Some(found.stop) });
                }
            }
        }
        if ending.is_none() {
            if self.request.constraint.as_ref().is_some_and(|constraint| constraint.is_complete()) {
                ending = Some(Ending::new(FinishReason::EndOfText));
            } else if !self.wants_token() {
                ending = Some(Ending::new(FinishReason::Length));
            }
        }
        Ok((Event::Token { id: choice.id, text, logprob: choice.logprob }, ending))
    }

    /// The prompt has been read.
    pub(crate) fn prompt_is_read(&mut self) {
        self.usage.prefill = self.started.elapsed();
    }

    /// The last event of an answer that came to its end.
    pub(crate) fn finished(&mut self, ending: Ending) -> Event {
        let (text, ending) = if ending.stop.is_some() {
            (String::new(), ending)
        } else {
            match self.answer.finish() {
                Ok(text) => (text, ending),
                Err(found) => {
                    (found.before, Ending { reason: FinishReason::StopString, stop: Some(found.stop) })
                }
            }
        };
        Event::Finished { text, reason: ending.reason, stop: ending.stop, usage: self.usage.clone() }
    }
}
