//! A backend without a model.

use crate::{
    Backend, BackendError, Choice, ChoicePlan, ChoiceStep, Chosen, DecodeStep, GenerationError, LogitsWanted,
    Sampler, SamplingParams, SequenceState, TokenId,
};
use std::time::Duration;

/// A backend whose logits are a function of the tokens that a sequence has consumed, and whose calls fail as a script
/// says. Everything is deterministic.
pub struct ScriptedBackend {
    rows: usize,
    max_context: usize,
    chunk: usize,
    logits: LogitsRule,
    script: Script,
    /// Chooses tokens itself.
    chooses: bool,
}

type LogitsRule = Box<dyn Fn(&[TokenId], &mut [f32]) + Send>;
type Script = Box<dyn FnMut(&Call<'_>) -> Fault + Send>;

/// A call of the backend, before it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<'a> {
    /// Which method.
    pub kind: CallKind,
    /// The tokens of each sequence concerned, as they would be after the call.
    pub sequences: Vec<&'a [TokenId]>,
    /// Tokens that the call consumes in each sequence.
    pub consumed: usize,
}

/// A method of [`Backend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// [`Backend::new_state`].
    NewState,
    /// [`Backend::prefill`].
    Prefill,
    /// [`Backend::decode`].
    Decode,
    /// [`Backend::choose`].
    Choose,
    /// [`Backend::snapshot`].
    Snapshot,
    /// [`Backend::restore`].
    Restore,
}

/// What a call does instead of, or before, its work.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing: it works.
    None,
    /// It takes this long, then works.
    Delay(Duration),
    /// It fails.
    Error(BackendError),
    /// It panics.
    Panic(&'static str),
    /// It works, but this logit of every sequence has this value.
    Logit(TokenId, f32),
    /// It works, but gives so many logits.
    Rows(usize),
}

/// The tokens that a sequence has consumed.
#[derive(Debug, Default)]
pub struct ScriptedState {
    tokens: Vec<TokenId>,
    choosing: Option<Choosing>,
}

/// How a state's tokens are chosen.
#[derive(Debug)]
struct Choosing {
    sampler: Sampler,
    /// The token that was consumed before it was asked for.
    ahead: Option<TokenId>,
}

/// Tokens alone: nobody chooses for a copy.
impl Clone for ScriptedState {
    fn clone(&self) -> Self {
        Self { tokens: self.tokens.clone(), choosing: None }
    }
}

impl SequenceState for ScriptedState {
    fn position(&self) -> usize {
        self.tokens.len()
    }

    fn bytes(&self) -> usize {
        self.tokens.len() * size_of::<TokenId>()
    }
}

impl ScriptedBackend {
    /// A backend with `rows` logits that look random but are a function of the tokens: most within [-8, 8].
    #[must_use]
    pub fn new(rows: usize) -> Self {
        Self {
            rows,
            max_context: 4096,
            chunk: 16,
            logits: Box::new(hashed_logits),
            script: Box::new(|_| Fault::None),
            chooses: false,
        }
    }

    /// It chooses tokens itself, and consumes each before it is asked to where it may.
    #[must_use]
    pub fn choosing(mut self) -> Self {
        self.chooses = true;
        self
    }

    /// Another longest context than 4096.
    #[must_use]
    pub fn max_context(mut self, tokens: usize) -> Self {
        self.max_context = tokens;
        self
    }

    /// Another longest prefill call than 16.
    #[must_use]
    pub fn chunk(mut self, tokens: usize) -> Self {
        self.chunk = tokens;
        self
    }

    /// Other logits: `rule` is given the consumed tokens and a row of zeros.
    #[must_use]
    pub fn logits(mut self, rule: impl Fn(&[TokenId], &mut [f32]) + Send + 'static) -> Self {
        self.logits = Box::new(rule);
        self
    }

    /// After the consumed tokens, `next` says which token is by far the likeliest; where it says none, all are alike.
    #[must_use]
    pub fn saying(self, next: impl Fn(&[TokenId]) -> Option<TokenId> + Send + 'static) -> Self {
        self.logits(move |tokens, row| {
            if let Some(logit) = next(tokens).and_then(|id| row.get_mut(id.0 as usize)) {
                *logit = 50.0;
            }
        })
    }

    /// What each call does; it also sees every call.
    #[must_use]
    pub fn script(mut self, script: impl FnMut(&Call<'_>) -> Fault + Send + 'static) -> Self {
        self.script = Box::new(script);
        self
    }

    /// Asks the script; answers what the logits will suffer.
    fn play(&mut self, call: &Call<'_>) -> Result<Fault, BackendError> {
        match (self.script)(call) {
            Fault::Error(error) => Err(error),
            #[expect(clippy::panic, reason = "a panic was asked for")]
            Fault::Panic(message) => panic!("{message}"),
            Fault::Delay(time) => {
                std::thread::sleep(time);
                Ok(Fault::None)
            }
            fault => Ok(fault),
        }
    }

    fn write_logits(&self, tokens: &[TokenId], fault: &Fault, logits: &mut Vec<f32>) {
        logits.clear();
        logits.resize(self.rows, 0.0);
        (self.logits)(tokens, logits);
        match *fault {
            Fault::Logit(id, value) => logits[id.0 as usize] = value,
            Fault::Rows(rows) => logits.resize(rows, 0.0),
            _ => {}
        }
    }

    fn check(&self, state: &ScriptedState, tokens: &[TokenId]) -> Result<(), BackendError> {
        if let Some(id) = tokens.iter().find(|id| id.0 as usize >= self.rows) {
            return Err(BackendError::TokenOutOfRange { id: id.0, vocab: self.rows });
        }
        let wanted = state.tokens.len() + tokens.len();
        if wanted > self.max_context {
            return Err(BackendError::ContextFull { wanted, limit: self.max_context });
        }
        Ok(())
    }
}

impl Backend for ScriptedBackend {
    type State = ScriptedState;
    type Snapshot = ScriptedState;

    fn describe(&self) -> String {
        format!("a script with {} logits", self.rows)
    }

    fn vocab_size(&self) -> usize {
        self.rows
    }

    fn max_context(&self) -> usize {
        self.max_context
    }

    fn prefill_chunk(&self) -> usize {
        self.chunk
    }

    fn new_state(&mut self) -> Result<ScriptedState, BackendError> {
        self.play(&Call { kind: CallKind::NewState, sequences: vec![&[]], consumed: 0 })?;
        Ok(ScriptedState::default())
    }

    fn prefill(
        &mut self,
        state: &mut ScriptedState,
        tokens: &[TokenId],
        logits: LogitsWanted<'_>,
    ) -> Result<(), BackendError> {
        assert!((1..=self.chunk).contains(&tokens.len()), "a prefill of {} tokens", tokens.len());
        self.check(state, tokens)?;
        let start = state.tokens.len();
        state.choosing = None;
        state.tokens.extend_from_slice(tokens);
        let call = Call { kind: CallKind::Prefill, sequences: vec![&state.tokens], consumed: tokens.len() };
        let fault = self.play(&call)?;
        match logits {
            LogitsWanted::None => {}
            LogitsWanted::Last(row) => self.write_logits(&state.tokens, &fault, row),
            LogitsWanted::Each(each) => {
                let mut row = Vec::new();
                for index in 0..tokens.len() {
                    self.write_logits(&state.tokens[..=start + index], &fault, &mut row);
                    each(index, &row);
                }
            }
        }
        Ok(())
    }

    fn decode(&mut self, steps: &mut [DecodeStep<'_, ScriptedState>]) -> Result<(), BackendError> {
        assert!(!steps.is_empty(), "a decode step of no sequence");
        for step in &mut *steps {
            self.check(step.state, &[step.token])?;
            step.state.tokens.push(step.token);
        }
        let sequences = steps.iter().map(|step| step.state.tokens.as_slice()).collect();
        let fault = self.play(&Call { kind: CallKind::Decode, sequences, consumed: 1 })?;
        for step in steps {
            self.write_logits(&step.state.tokens, &fault, step.logits);
        }
        Ok(())
    }

    fn start_choosing(
        &mut self,
        state: &mut ScriptedState,
        plan: &ChoicePlan<'_>,
    ) -> Result<bool, BackendError> {
        if !self.chooses {
            return Ok(false);
        }
        let params = SamplingParams { seed: Some(plan.seed), ..plan.params.clone() };
        let mut sampler = Sampler::new(&params, plan.prompt, plan.tokens.clone().into(), plan.logprobs);
        plan.answer.iter().for_each(|&id| sampler.record(id));
        state.choosing = Some(Choosing { sampler, ahead: None });
        Ok(true)
    }

    fn choose(&mut self, step: ChoiceStep<'_, ScriptedState>) -> Result<Chosen, BackendError> {
        let ChoiceStep { state, token, mask, run_ahead } = step;
        assert!(!(run_ahead && mask.is_some()), "running ahead of a mask");
        let mut choosing = state.choosing.take().ok_or_else(not_choosing)?;
        match choosing.ahead.take() {
            Some(ahead) => assert_eq!(ahead, token, "another token than the one that was chosen"),
            None => {
                self.check(state, &[token])?;
                state.tokens.push(token);
            }
        }
        let call = Call { kind: CallKind::Choose, sequences: vec![&state.tokens], consumed: 1 };
        let fault = self.play(&call)?;
        let mut logits = Vec::new();
        self.write_logits(&state.tokens, &fault, &mut logits);
        let choice: Choice = match choosing.sampler.choose(&mut logits, mask) {
            Ok(choice) => choice,
            Err(GenerationError::BadLogits { what, .. }) => return Ok(Chosen::NotFinite(what)),
            Err(_) => return Ok(Chosen::NothingAllowed),
        };
        if run_ahead && state.tokens.len() < self.max_context {
            state.tokens.push(choice.id);
            choosing.ahead = Some(choice.id);
        }
        state.choosing = Some(choosing);
        Ok(Chosen::Token(choice))
    }

    fn snapshot(&mut self, state: &ScriptedState) -> Result<ScriptedState, BackendError> {
        self.play(&Call { kind: CallKind::Snapshot, sequences: vec![&state.tokens], consumed: 0 })?;
        Ok(state.clone())
    }

    fn restore(&mut self, snapshot: &ScriptedState) -> Result<ScriptedState, BackendError> {
        self.play(&Call { kind: CallKind::Restore, sequences: vec![&snapshot.tokens], consumed: 0 })?;
        Ok(snapshot.clone())
    }

    fn snapshot_bytes(&self, snapshot: &ScriptedState) -> usize {
        snapshot.bytes()
    }
}

fn not_choosing() -> BackendError {
    BackendError::Device("choose without start_choosing".to_owned())
}

/// Logits from a hash of all tokens so far (FNV-1a, then SplitMix64 per row).
fn hashed_logits(tokens: &[TokenId], row: &mut [f32]) {
    let hash = tokens
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, id| (hash ^ u64::from(id.0)).wrapping_mul(0x0100_0000_01b3));
    for (index, logit) in (1u64..).zip(row) {
        let mut z = hash.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        *logit = ((z >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * 8.0;
    }
}
