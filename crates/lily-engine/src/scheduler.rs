//! The engine's thread: who is read, who decodes, and in which order.

use crate::guarded_backend::{GuardedBackend, panic_message};
use crate::prefix_cache::PrefixCache;
use crate::queue::{Job, Queue};
use crate::sequence::{Ending, LEAST_SNAPSHOT, Route, Sequence, Vocabulary};
use crate::{
    Backend, BackendError, ChoiceStep, Chosen, DecodeStep, EngineOptions, Event, FinishReason,
    GenerationError, LogitsWanted, Metrics, SequenceState,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A sequence that was in so many failed batches decodes alone from then on.
const ALONE_FOR_GOOD: u32 = 2;

/// Runs generations until the queue is closed.
///
/// Each round: new requests take free places in the order of their arrival; at most one prefill chunk of prompts is read,
/// by turns; then every sequence that has been read decodes one token. So no stream waits longer than one chunk for
/// another's prompt, and sequences join and leave at any round.
///
/// Sequences that are sampled from logits are handed to the backend in one call, which it may compute as one batch or one
/// after the other. Where the backend chooses tokens itself, a sequence's step is one call of its own: the backend has begun
/// the step after it by the time it answers, so the machine computes while the engine turns the token into text.
pub(crate) struct Scheduler<B: Backend> {
    backend: GuardedBackend<B>,
    cache: PrefixCache<B::Snapshot>,
    queue: Arc<Queue>,
    vocabulary: Arc<Vocabulary>,
    snapshot_interval: usize,
    sequences: Vec<Sequence<B::State>>,
    metrics: Metrics,
    turns: u64,
}

impl<B: Backend> Scheduler<B> {
    pub(crate) fn new(
        backend: B,
        queue: Arc<Queue>,
        vocabulary: Arc<Vocabulary>,
        options: &EngineOptions,
    ) -> Self {
        Self {
            backend: GuardedBackend::new(backend),
            cache: PrefixCache::new(options.snapshot_budget),
            queue,
            vocabulary,
            snapshot_interval: options.snapshot_interval,
            sequences: Vec::new(),
            metrics: Metrics::default(),
            turns: 0,
        }
    }

    /// Until the end; says why if that is a fault.
    pub(crate) fn run(&mut self) -> Option<String> {
        loop {
            if self.queue.time_is_up() {
                self.fail_all(&GenerationError::ShuttingDown);
                return None;
            }
            self.admit();
            if self.sequences.is_empty() {
                if self.queue.wait_for_work() {
                    continue;
                }
                return None;
            }
            let streams = self.sequences.iter().any(Sequence::is_decoding);
            let (clock, before) = (Instant::now(), self.metrics.start_round());
            self.drop_unwanted();
            self.prefill_round();
            self.decode_round();
            self.sequences.retain(|sequence| !sequence.ended);
            if streams {
                self.metrics.end_round(&before, clock.elapsed());
            }
            self.publish();
            if let Some(reason) = self.backend.broken() {
                let reason = reason.to_owned();
                self.fail_all(&GenerationError::Internal(reason.clone()));
                return Some(reason);
            }
        }
    }

    /// Gives free places to those who waited longest.
    fn admit(&mut self) {
        let (admitted, rejected) = self.queue.admit();
        for (mut job, error) in rejected {
            self.count_end(Some(&error));
            job.reply.end(Event::Failed(error));
        }
        for job in admitted {
            self.start(job);
        }
    }

    fn start(&mut self, job: Job) {
        self.metrics.prompt_tokens += job.request.prompt.len() as u64;
        self.turns += 1;
        self.sequences.push(Sequence::start(job, &self.vocabulary, self.turns));
    }

    /// Ends what was cancelled or is too late.
    fn drop_unwanted(&mut self) {
        for index in 0..self.sequences.len() {
            if let Some(error) = self.sequences[index].verdict() {
                self.fail(index, error);
            }
        }
    }

    /// Reads at most one chunk of prompts, the sequence that has waited longest for a piece first.
    fn prefill_round(&mut self) {
        let mut left = self.backend.prefill_chunk();
        while left > 0 {
            let waiting = self.sequences.iter().enumerate().filter(|(_, sequence)| sequence.is_prefilling());
            let waiting = waiting.filter(|(_, sequence)| !self.is_read_by_another(sequence));
            let Some((index, _)) = waiting.min_by_key(|(_, sequence)| sequence.turn) else { return };
            self.turns += 1;
            self.sequences[index].turn = self.turns;
            match self.prefill_piece(index, left) {
                Ok(read) => left -= read.min(left),
                Err(error) => self.fail(index, error.into()),
            }
        }
    }

    /// True for a sequence that has read nothing yet while another is reading the same prompt (the choices of one
    /// request, above all): it waits, and begins from the other's snapshot. Where none was kept, it then reads for itself.
    fn is_read_by_another(&self, sequence: &Sequence<B::State>) -> bool {
        sequence.state.is_none()
            && sequence.is_reading_prompt()
            && sequence.prompt_len > LEAST_SNAPSHOT
            && !self.cache.is_off()
            && self.sequences.iter().any(|other| {
                !other.ended
                    && other.state.is_some()
                    && other.is_reading_prompt()
                    && other.is_prefilling()
                    && other.history == sequence.history
            })
    }

    /// Reads a piece of at most `most` tokens and answers how many it had.
    fn prefill_piece(&mut self, index: usize, most: usize) -> Result<usize, BackendError> {
        if self.sequences[index].state.is_none() {
            self.give_state(index)?;
            if self.sequences[index].ended {
                return Ok(0);
            }
        }
        let sequence = &mut self.sequences[index];
        let start = sequence.position();
        let end = sequence.piece_end(most);
        let last = end == sequence.history.len();
        let wants_token = sequence.wants_token();
        let Some(state) = &mut sequence.state else { return Ok(0) };
        let wanted =
            if last && wants_token { LogitsWanted::Last(&mut sequence.logits) } else { LogitsWanted::None };
        let clock = Instant::now();
        let result = self.backend.prefill(state, &sequence.history[start..end], wanted);
        self.metrics.prefill_time += clock.elapsed();
        result?;
        self.metrics.prefilled_tokens += (end - start) as u64;
        if sequence.is_reading_prompt() {
            let total = sequence.prompt_len;
            if last {
                sequence.prompt_is_read();
            }
            if !sequence.reply.send(Event::Prefill { done: end, total }) {
                self.leave(index);
                return Ok(end - start);
            }
        }
        if self.sequences[index].borders.binary_search(&end).is_ok() {
            self.keep_snapshot(index);
        }
        if last {
            if wants_token {
                self.choose(index);
            } else {
                self.finish(index, Ending::new(FinishReason::Length));
            }
        }
        Ok(end - start)
    }

    /// A state that has consumed as much of the history as a snapshot allows.
    fn give_state(&mut self, index: usize) -> Result<(), BackendError> {
        let sequence = &mut self.sequences[index];
        let mut state = None;
        if let Some((len, snapshot)) = self.cache.deepest(&sequence.history) {
            match self.backend.restore(&snapshot) {
                Ok(restored) if restored.position() == len => state = Some(restored),
                Ok(_) => tracing::warn!("a snapshot of {len} tokens gave another position"),
                Err(error) => tracing::warn!("a snapshot of {len} tokens was not restored: {error}"),
            }
        }
        let state = match state {
            Some(state) => state,
            None => self.new_state()?,
        };
        let sequence = &mut self.sequences[index];
        (sequence.state, sequence.route) = (Some(state), None);
        if !sequence.is_reading_prompt() {
            return Ok(());
        }
        let done = sequence.position();
        sequence.usage.cached_tokens = done;
        self.metrics.cached_tokens += done as u64;
        if done > 0 {
            self.metrics.cache_hits += 1;
        } else {
            self.metrics.cache_misses += 1;
        }
        if !self.cache.is_off() {
            sequence.choose_borders(self.snapshot_interval);
        }
        let total = sequence.prompt_len;
        if !sequence.reply.send(Event::Prefill { done, total }) {
            self.leave(index);
        }
        Ok(())
    }

    /// An empty state; snapshots give way to it.
    fn new_state(&mut self) -> Result<B::State, BackendError> {
        loop {
            match self.backend.new_state() {
                Err(BackendError::OutOfMemory(_)) if self.cache.evict() => {}
                result => return result,
            }
        }
    }

    /// Keeps the state of a sequence for later prompts.
    fn keep_snapshot(&mut self, index: usize) {
        let sequence = &self.sequences[index];
        let Some(state) = &sequence.state else { return };
        let len = sequence.position();
        if self.cache.touch(&sequence.history[..len]) {
            return;
        }
        match self.backend.snapshot(state) {
            Ok(snapshot) => {
                let bytes = self.backend.snapshot_bytes(&snapshot);
                self.cache.insert(&sequence.history[..len], snapshot, bytes);
            }
            Err(error) => tracing::warn!("no snapshot was kept of {len} tokens: {error}"),
        }
    }

    /// Decodes one token in every sequence that has been read.
    fn decode_round(&mut self) {
        let decoding: Vec<usize> =
            (0..self.sequences.len()).filter(|&index| self.sequences[index].is_decoding()).collect();
        let (chosen, sampled): (Vec<usize>, Vec<usize>) =
            decoding.into_iter().partition(|&index| self.route(index) == Route::Backend);
        for index in chosen {
            self.decode_and_choose(index);
        }
        let (alone, together): (Vec<usize>, Vec<usize>) =
            sampled.into_iter().partition(|&index| self.sequences[index].alone);
        for index in alone {
            self.decode(&[index]);
        }
        if !together.is_empty() {
            self.decode(&together);
        }
    }

    /// Who chooses the next token of a sequence that decodes; the backend is asked once per state.
    fn route(&mut self, index: usize) -> Route {
        let sequence = &mut self.sequences[index];
        if let Some(route) = sequence.route {
            return route;
        }
        let asked = match sequence.choice_plan(&self.vocabulary) {
            Some((state, plan)) => self.backend.start_choosing(state, &plan),
            None => Ok(false),
        };
        let route = match asked {
            Ok(true) => Route::Backend,
            Ok(false) => Route::Engine,
            Err(error) => {
                tracing::warn!("tokens are sampled from logits, the backend does not choose: {error}");
                Route::Engine
            }
        };
        tracing::debug!(?route, "who chooses the tokens after the first");
        self.sequences[index].route = Some(route);
        route
    }

    /// One token of a sequence whose tokens the backend chooses.
    fn decode_and_choose(&mut self, index: usize) {
        let clock = Instant::now();
        // A constraint is foreign code.
        let narrowed = guarded(|| self.sequences[index].narrow());
        self.metrics.sampling_time += clock.elapsed();
        if let Err(error) = narrowed {
            return self.fail(index, error);
        }
        let sequence = &mut self.sequences[index];
        let consumed = sequence.history.len();
        let Some((state, token, mask, run_ahead)) = sequence.choice_step() else { return };
        let clock = Instant::now();
        let chosen = self.backend.choose(ChoiceStep { state, token, mask, run_ahead }, consumed);
        self.metrics.decode_time += clock.elapsed();
        self.metrics.decode_steps += 1;
        self.metrics.decoded_sequences += 1;
        match chosen {
            Ok(chosen) => {
                self.metrics.backend_tokens += u64::from(matches!(chosen, Chosen::Token(_)));
                let clock = Instant::now();
                let taken = guarded(|| self.sequences[index].take_chosen(chosen));
                self.metrics.sampling_time += clock.elapsed();
                self.answer(index, taken);
            }
            Err(error) => self.fail(index, error.into()),
        }
    }

    /// Decodes one token in the given sequences together.
    fn decode(&mut self, indices: &[usize]) {
        let mut steps = Vec::with_capacity(indices.len());
        for (index, sequence) in self.sequences.iter_mut().enumerate() {
            if let (true, Some(state), Some(&token)) =
                (indices.contains(&index), &mut sequence.state, sequence.history.last())
            {
                steps.push(DecodeStep { state, token, logits: &mut sequence.logits });
            }
        }
        let clock = Instant::now();
        let result = self.backend.decode(&mut steps);
        self.metrics.decode_time += clock.elapsed();
        self.metrics.decode_steps += 1;
        self.metrics.decoded_sequences += indices.len() as u64;
        match result {
            Ok(()) => {
                for &index in indices {
                    let sequence = &mut self.sequences[index];
                    sequence.alone = sequence.rebuilds >= ALONE_FOR_GOOD;
                    self.choose(index);
                }
            }
            Err(error) if indices.len() == 1 => self.fail(indices[0], error.into()),
            Err(error) => {
                tracing::warn!(
                    "a decode step of {} sequences failed, each goes on alone: {error}",
                    indices.len()
                );
                for &index in indices {
                    self.rebuild(index);
                }
            }
        }
    }

    /// After a fault in a batch no state of it can be trusted: the sequence's history is read again, and its next
    /// step is made alone, so that the fault meets only the sequence it belongs to.
    fn rebuild(&mut self, index: usize) {
        let sequence = &mut self.sequences[index];
        sequence.state = None;
        sequence.alone = true;
        sequence.rebuilds += 1;
    }

    /// Chooses the next token of a sequence from its logits.
    fn choose(&mut self, index: usize) {
        let rows = self.vocabulary.tokens.len();
        let sequence = &mut self.sequences[index];
        if sequence.logits.len() != rows {
            let error = format!("the backend gave {} logits, not {rows}", sequence.logits.len());
            return self.fail(index, BackendError::Device(error).into());
        }
        let clock = Instant::now();
        // A constraint is foreign code.
        let taken = guarded(|| sequence.next_token());
        self.metrics.sampling_time += clock.elapsed();
        self.answer(index, taken);
    }

    /// Tells what was chosen, and ends what is at its end.
    fn answer(&mut self, index: usize, taken: Result<(Event, Option<Ending>), GenerationError>) {
        match taken {
            Ok((event, ending)) => {
                self.metrics.generated_tokens += 1;
                if !self.sequences[index].reply.send(event) {
                    self.leave(index);
                } else if let Some(ending) = ending {
                    self.finish(index, ending);
                }
            }
            Err(error) => self.fail(index, error),
        }
    }

    /// An answer has come to its end.
    fn finish(&mut self, index: usize, ending: Ending) {
        let event = self.sequences[index].finished(ending);
        self.metrics.finished += 1;
        self.give_back_place(index);
        self.sequences[index].reply.end(event);
        if !self.cache.is_off() && self.sequences[index].position() >= LEAST_SNAPSHOT {
            self.keep_snapshot(index);
        }
        self.sequences[index].state = None;
    }

    /// A generation has failed or was cancelled from outside.
    fn fail(&mut self, index: usize, error: GenerationError) {
        self.count_end(Some(&error));
        self.sequences[index].state = None;
        self.give_back_place(index);
        self.sequences[index].reply.end(Event::Failed(error));
    }

    /// Nobody listens any more.
    fn leave(&mut self, index: usize) {
        self.count_end(None);
        self.sequences[index].state = None;
        self.give_back_place(index);
    }

    fn give_back_place(&mut self, index: usize) {
        self.sequences[index].ended = true;
        self.queue.release();
        self.publish();
    }

    fn count_end(&mut self, error: Option<&GenerationError>) {
        match error {
            None | Some(GenerationError::Cancelled | GenerationError::DeadlinePassed) => {
                self.metrics.cancelled += 1;
            }
            Some(_) => self.metrics.failed += 1,
        }
    }

    fn fail_all(&mut self, error: &GenerationError) {
        for index in 0..self.sequences.len() {
            if !self.sequences[index].ended {
                self.fail(index, error.clone());
            }
        }
        self.sequences.clear();
    }

    fn publish(&mut self) {
        self.metrics.snapshots = self.cache.len();
        self.metrics.snapshot_bytes = self.cache.bytes();
        self.queue.publish(&self.metrics);
    }
}

/// Calls what may be foreign code: a panic fails one generation.
fn guarded<T>(call: impl FnOnce() -> Result<T, GenerationError>) -> Result<T, GenerationError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let what = format!("choosing a token panicked: {}", panic_message(&*payload));
        Err(GenerationError::Internal(what))
    })
}
