//! The engine on a device that chooses tokens itself, one step ahead of the host, says what it says on a device that hands out
//! logits: nano, in the emulator.
#![cfg(feature = "emulator")]

use lily_checkpoint::Checkpoint;
use lily_engine::{
    Backend, BackendError, CancelToken, ChoicePlan, ChoiceStep, Chosen, ConstraintError, DecodeStep, Engine,
    EngineOptions, Event, FinishReason, GenerationError, GenerationRequest, LogitsWanted, Metrics,
    SamplingParams, SequenceState, TokenConstraint, TokenId, TokenLogprob, TokenMask,
    testing::{byte_tokenizer, bytes},
};
use lily_gpu::{GpuBackend, GpuOptions, Optimisation, Switches, device::EmulatorDevice};
use lily_kernels::emulator::Checks;
use std::sync::Arc;

/// Long enough for the prefix cache.
const BEGINNING: &str = "Once upon a time there was";

fn backend(off: &[Optimisation]) -> GpuBackend {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    let checkpoint = Checkpoint::open(folder.as_ref()).unwrap();
    let options = GpuOptions {
        max_context: Some(2048),
        prefill_chunk: Some(64),
        switches: Switches::without(off),
        ..GpuOptions::default()
    };
    GpuBackend::new(Arc::new(EmulatorDevice::new(Checks::Bounds)), &checkpoint, &options).unwrap()
}

fn engine(off: &[Optimisation]) -> Engine {
    Engine::start(backend(off), byte_tokenizer(), EngineOptions::default())
}

fn on_device() -> Engine {
    engine(&[])
}

fn on_host() -> Engine {
    engine(&[Optimisation::DeviceLoop])
}

#[derive(Debug, Default, PartialEq)]
struct Answer {
    ids: Vec<TokenId>,
    text: String,
    end: Option<(FinishReason, Option<String>)>,
    cached: usize,
    error: Option<String>,
    logprobs: Vec<TokenLogprob>,
}

fn answer(events: impl Iterator<Item = Event>) -> Answer {
    let mut answer = Answer::default();
    for event in events {
        match event {
            Event::Token { id, text, logprob } => {
                answer.ids.push(id);
                answer.text += &text;
                answer.logprobs.extend(logprob);
            }
            Event::Finished { text, reason, stop, usage } => {
                answer.text += &text;
                answer.end = Some((reason, stop));
                answer.cached = usage.cached_tokens;
            }
            Event::Failed(error) => answer.error = Some(error.to_string()),
            _ => {}
        }
    }
    answer
}

fn run(engine: &Engine, request: GenerationRequest) -> Answer {
    answer(engine.generate(request).unwrap())
}

fn request(prompt: &str, tokens: usize) -> GenerationRequest {
    GenerationRequest { max_tokens: Some(tokens), ..GenerationRequest::new(bytes(prompt)) }
}

/// Equal but for the rounding of log-probabilities.
fn assert_same(mut found: Answer, mut wanted: Answer, what: &str) {
    let (ours, theirs) = (std::mem::take(&mut found.logprobs), std::mem::take(&mut wanted.logprobs));
    assert_eq!(found, wanted, "{what}");
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!((ours.id, ours.top.len()), (theirs.id, theirs.top.len()), "{what}");
        let pairs = ours.top.iter().zip(&theirs.top).map(|(a, b)| (a.1, b.1));
        for (a, b) in pairs.chain([(ours.logprob, theirs.logprob)]) {
            assert!((a - b).abs() < 1e-3, "{what}: {a} and {b}");
        }
        let ids = |top: &[(TokenId, f32)]| top.iter().map(|&(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(&ours.top), ids(&theirs.top), "{what}");
    }
}

/// Allows one token after the other.
#[derive(Clone)]
struct Fixed(Vec<TokenId>);

impl TokenConstraint for Fixed {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        mask.allow_none();
        self.0.first().into_iter().for_each(|&id| mask.allow(id));
        Ok(())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        assert_eq!(self.0.remove(0), token);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.0.is_empty()
    }

    fn clone_box(&self) -> Box<dyn TokenConstraint> {
        Box::new(self.clone())
    }
}

#[test]
fn each_way_to_choose_gives_the_hosts_tokens() {
    let (device, host) = (on_device(), on_host());
    let family = SamplingParams {
        temperature: 1.0,
        top_k: 20,
        top_p: 0.95,
        seed: Some(5),
        ..SamplingParams::default()
    };
    let samplings = [
        ("greedy", SamplingParams::default()),
        ("the family's", family.clone()),
        ("all tokens", SamplingParams { top_k: 0, top_p: 1.0, min_p: 0.001, ..family.clone() }),
        ("a nucleus", SamplingParams { top_k: 0, top_p: 0.8, temperature: 1.3, ..family.clone() }),
        (
            "penalties and biases",
            SamplingParams {
                repetition_penalty: 1.3,
                repetition_window: 6,
                presence_penalty: 0.5,
                frequency_penalty: 0.3,
                logit_bias: vec![(TokenId(97), 5.0), (TokenId(98), -100.0)],
                ..family.clone()
            },
        ),
        ("forced", SamplingParams { logit_bias: vec![(TokenId(97), 100.0), (TokenId(98), 100.0)], ..family }),
    ];
    let mut tokens = 0;
    for (what, sampling) in samplings {
        let asked = GenerationRequest { sampling, logprobs: Some(3), ..request("The cat sat on the", 5) };
        let found = run(&device, asked.clone());
        assert_eq!((found.ids.len(), found.logprobs.len(), &found.error), (5, 5, &None), "{what}");
        assert_same(found, run(&host, asked), what);
        tokens += 4;
    }
    let chose = |engine: &Engine| engine.metrics().backend_tokens;
    assert_eq!((chose(&device), chose(&host)), (tokens, 0));
    // More log-probabilities than the device reports: the host's.
    let asked = GenerationRequest { logprobs: Some(100), ..request("The cat", 3) };
    assert_same(run(&device, asked.clone()), run(&host, asked), "many log-probabilities");
    assert_eq!(chose(&device), tokens);
}

/// Ends in every way, each with a step under way that nobody wants; the conversation then goes on from the right state.
#[test]
fn what_ran_ahead_of_an_end_leaves_no_trace() {
    let (device, host) = (on_device(), on_host());
    // Letters only, so that each token is text.
    let letters = SamplingParams {
        logit_bias: (97..123).map(|letter| (TokenId(letter), 100.0)).collect(),
        ..SamplingParams::default()
    };
    let asked = || GenerationRequest { sampling: letters.clone(), ..request(BEGINNING, 6) };
    let free = run(&host, asked());
    let third = free.text[2..3].to_owned();
    let mut grammar = free.ids[..3].to_vec();
    grammar.reverse();
    type Edit<'a> = Box<dyn Fn(&mut GenerationRequest) + 'a>;
    let cases: [(&str, Edit<'_>); 4] = [
        ("a stop id", Box::new(|asked| asked.stop_ids = vec![free.ids[3]])),
        ("a stop string", Box::new(|asked| asked.stop = vec![third.clone()])),
        ("a length", Box::new(|asked| asked.max_tokens = Some(3))),
        ("a grammar", Box::new(|asked| asked.constraint = Some(Box::new(Fixed(grammar.clone()))))),
    ];
    for (what, edit) in cases {
        let mut asked = asked();
        edit(&mut asked);
        let (found, wanted) = (run(&device, asked.clone()), run(&host, asked.clone()));
        let ids = found.ids.clone();
        assert!((1..6).contains(&ids.len()), "{what}: {ids:?}");
        assert_same(Answer { cached: 0, ..found }, Answer { cached: 0, ..wanted }, what);

        let mut prompt = asked.prompt.clone();
        prompt.extend(&ids);
        prompt.extend(bytes(" and then"));
        let next = GenerationRequest { max_tokens: Some(4), ..GenerationRequest::new(prompt) };
        let (found, wanted) = (run(&device, next.clone()), run(&host, next));
        assert!(found.cached + 1 >= wanted.cached, "{what}: {} and {}", found.cached, wanted.cached);
        assert_same(Answer { cached: 0, ..found }, Answer { cached: 0, ..wanted }, &format!("after {what}"));
    }
    assert!(device.metrics().backend_tokens > 10 && device.metrics().cache_hits > 0);
}

#[test]
fn two_at_once_and_one_cancelled() {
    let (device, host) = (on_device(), on_host());
    let sampled = |seed| GenerationRequest {
        sampling: SamplingParams {
            temperature: 1.0,
            top_k: 20,
            seed: Some(seed),
            ..SamplingParams::default()
        },
        ..request("In the morning", 6)
    };
    let wanted: Vec<Answer> = (0..2).map(|seed| run(&host, sampled(seed))).collect();
    let cancel = CancelToken::default();
    let endless = GenerationRequest {
        cancel: cancel.clone(),
        max_tokens: None,
        ignore_eos: true,
        ..request("Round and round", 1)
    };
    let endless = device.generate(endless).unwrap();
    let both: Vec<_> = (0..2).map(|seed| device.generate(sampled(seed)).unwrap()).collect();
    for (generation, wanted) in both.into_iter().zip(wanted) {
        let found = answer(generation);
        assert_same(Answer { cached: 0, ..found }, Answer { cached: 0, ..wanted }, "beside others");
    }
    cancel.cancel();
    assert!(matches!(endless.last(), Some(Event::Failed(GenerationError::Cancelled))));
    let Metrics { running, backend_tokens, .. } = device.metrics();
    assert!(running == 0 && backend_tokens >= 10, "{backend_tokens}");
    assert_same(
        Answer { cached: 0, ..run(&device, sampled(0)) },
        Answer { cached: 0, ..run(&host, sampled(0)) },
        "afterwards",
    );
}

/// The seam itself: positions, what is refused, and that a state which ran ahead has consumed exactly what it says.
#[test]
fn a_state_counts_the_step_ahead() {
    let mut backend = backend(&[]);
    let vocab = backend.vocab_size();
    let prompt: Vec<TokenId> = (40..45).map(TokenId).collect();
    let (params, tokens) = (SamplingParams::default(), TokenMask::all(vocab));
    let plan = ChoicePlan {
        params: &params,
        seed: 0,
        prompt: &prompt,
        answer: &[TokenId(7)],
        tokens: &tokens,
        logprobs: None,
    };
    let mut state = backend.new_state().unwrap();
    let mut logits = Vec::new();
    backend.prefill(&mut state, &prompt, LogitsWanted::Last(&mut logits)).unwrap();
    let refused =
        backend.choose(ChoiceStep { state: &mut state, token: TokenId(7), mask: None, run_ahead: true });
    assert!(matches!(refused, Err(BackendError::Device(what)) if what.contains("not started")));

    assert!(backend.start_choosing(&mut state, &plan).unwrap());
    let mut history = prompt.clone();
    history.push(TokenId(7));
    for run_ahead in [false, true, true, false] {
        let token = history[history.len() - 1];
        let step = ChoiceStep { state: &mut state, token, mask: None, run_ahead };
        let Chosen::Token(choice) = backend.choose(step).unwrap() else { panic!("nothing chosen") };
        assert_eq!(state.position(), history.len() + usize::from(run_ahead));
        history.push(choice.id);
    }
    let wrong = TokenId((history[history.len() - 1].0 + 1) % vocab as u32);
    let step = ChoiceStep { state: &mut state, token: wrong, mask: None, run_ahead: false };
    assert!(
        matches!(backend.choose(step), Err(BackendError::Device(what)) if what.contains("another token"))
    );

    // A state that has run ahead goes on as one that was given the same tokens.
    let mut ahead = backend.new_state().unwrap();
    backend.prefill(&mut ahead, &prompt, LogitsWanted::None).unwrap();
    assert!(backend.start_choosing(&mut ahead, &plan).unwrap());
    let step = ChoiceStep { state: &mut ahead, token: TokenId(7), mask: None, run_ahead: true };
    let Chosen::Token(choice) = backend.choose(step).unwrap() else { panic!("nothing chosen") };
    let snapshot = backend.snapshot(&ahead).unwrap();
    let mut restored = backend.restore(&snapshot).unwrap();
    let mut plain = backend.new_state().unwrap();
    backend.prefill(&mut plain, &prompt, LogitsWanted::None).unwrap();
    let mut found = [Vec::new(), Vec::new(), Vec::new()];
    let mut decode = |state: &mut _, token, logits: &mut Vec<f32>| {
        backend.decode(&mut [DecodeStep { state, token, logits }]).unwrap();
    };
    decode(&mut plain, TokenId(7), &mut Vec::new());
    decode(&mut plain, choice.id, &mut Vec::new());
    for (state, logits) in [&mut ahead, &mut restored, &mut plain].into_iter().zip(&mut found) {
        decode(state, TokenId(11), logits);
    }
    assert_eq!(found[0], found[2]);
    assert_eq!(found[1], found[2]);
}
