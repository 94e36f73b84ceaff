//! A model made ready to answer.

use crate::{
    backend::{self, Profiled, Visitor},
    cli::GlobalOptions,
    model::{ModelSource, TextModel},
    progress,
    terminal::Terminal,
};
use anyhow::{Result, anyhow};
use lily_checkpoint::Checkpoint;
use lily_engine::{Engine, EngineOptions, GenerationRequest, SamplingParams, TokenId};
use std::{
    thread::ScopedJoinHandle,
    time::{Duration, Instant},
};

/// A running engine, with all that turns messages into requests.
pub(crate) struct Loaded {
    /// Short name of the model.
    pub(crate) name: String,
    /// Where it came from.
    pub(crate) place: String,
    pub(crate) text: TextModel,
    pub(crate) engine: Engine,
    /// Sampling defaults of the checkpoint.
    pub(crate) defaults: SamplingParams,
    pub(crate) stop_ids: Vec<TokenId>,
    /// How long loading took.
    pub(crate) took: Duration,
    /// Dropped last.
    _end: EndOfEngine,
}

/// Ends an engine and waits until its backend is gone: a GPU must be given back before the process ends, for its driver
/// does not outlive the end of `main`.
struct EndOfEngine(Engine);

impl Drop for EndOfEngine {
    fn drop(&mut self) {
        self.0.shut_down(Duration::ZERO);
    }
}

impl Loaded {
    /// A request with the model's stop ids.
    pub(crate) fn request(&self, prompt: Vec<TokenId>, sampling: SamplingParams) -> GenerationRequest {
        GenerationRequest { sampling, stop_ids: self.stop_ids.clone(), ..GenerationRequest::new(prompt) }
    }
}

/// Loads the model that the user asked for. Tokenizer and weights are read side by side.
pub(crate) fn load(options: &GlobalOptions, engine: EngineOptions, terminal: &Terminal) -> Result<Loaded> {
    let start = Instant::now();
    let source = ModelSource::locate(options.model.as_deref())?;
    progress::spin(terminal, &format!("loading {}", source.name()), || {
        std::thread::scope(|scope| {
            let text = scope.spawn(|| source.text());
            let checkpoint = open(&source, options);
            let opened = start.elapsed();
            // A folder that is no model at all is best told by its config, not by its tokenizer.
            let checkpoint = checkpoint?;
            let defaults = SamplingParams::from_generation_config(&checkpoint.generation);
            let starter = StartEngine { text, checkpoint: &checkpoint, options: engine };
            let (text, stop_ids, engine) = backend::visit(options, &checkpoint, starter)??;
            let took = start.elapsed();
            tracing::info!(?opened, ?took, model = source.place(), backend = engine.describe(), "loaded");
            let _end = EndOfEngine(engine.clone());
            Ok(Loaded {
                name: source.name(),
                place: source.place(),
                text,
                engine,
                defaults,
                stop_ids,
                took,
                _end,
            })
        })
    })
}

/// Opens a model's checkpoint for a backend, and tells what is odd about it.
pub(crate) fn open(source: &ModelSource, options: &GlobalOptions) -> Result<Checkpoint> {
    let mut checkpoint = source.checkpoint()?;
    for warning in &checkpoint.warnings {
        tracing::warn!("{warning}");
    }
    backend::limit_context(options, &mut checkpoint)?;
    Ok(checkpoint)
}

struct StartEngine<'scope, 'a> {
    /// Still reading the tokenizer.
    text: ScopedJoinHandle<'scope, Result<TextModel>>,
    checkpoint: &'a Checkpoint,
    options: EngineOptions,
}

impl Visitor for StartEngine<'_, '_> {
    type Output = Result<(TextModel, Vec<TokenId>, Engine)>;

    fn visit<B: Profiled>(self, backend: B) -> Self::Output {
        let text = self.text.join().unwrap_or_else(|_| Err(anyhow!("the tokenizer's thread panicked")))?;
        let stop_ids = text.stop_ids(self.checkpoint)?;
        let engine = Engine::start(backend, text.tokenizer.clone(), self.options);
        Ok((text, stop_ids, engine))
    }
}
