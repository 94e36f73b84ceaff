//! The engine on the real nano model: batches, seeds, snapshots and cancellation do not change an answer.

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, Precision};
use lily_engine::{
    Engine, EngineOptions, Event, FinishReason, GenerationRequest, SamplingParams, TokenId, Usage,
};
use lily_text::Tokenizer;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};

fn nano() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/nano")
}

static CHECKPOINT: LazyLock<Checkpoint> = LazyLock::new(|| Checkpoint::open(&nano()).expect("nano opens"));

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_json(&std::fs::read(nano().join("tokenizer.json")).expect("a file"))
        .expect("nano's tokenizer")
});

const QUESTIONS: [&str; 8] = [
    "Hello!",
    "Who are you?",
    "Say a random word.",
    "What is the colour of the sky? Answer in one short sentence, please.",
    "Count from one to ten.",
    "Tell me a short story about a small boat on a wide sea, and about the child who built it.",
    "Why?",
    "Anna has three red balls and two green ones. She gives one red ball to Ben. How many balls does she have now?",
];

fn engine(precision: Precision, options: EngineOptions) -> Engine {
    let cpu = CpuOptions { precision, threads: Some(1), ..CpuOptions::default() };
    let backend = CpuBackend::new(&CHECKPOINT, &cpu).expect("nano fits");
    Engine::start(backend, TOKENIZER.clone(), options)
}

/// A request with the turns of a chat, the last of which is to be answered.
fn request(turns: &[&str], max_tokens: usize) -> GenerationRequest {
    let mut text = String::new();
    for (index, turn) in turns.iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        text += &format!("<|im_start|>{role}\n{turn}<|im_end|>\n");
    }
    text += "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    GenerationRequest {
        max_tokens: Some(max_tokens),
        stop_ids: CHECKPOINT.generation.eos_token_ids.iter().copied().map(TokenId).collect(),
        ..GenerationRequest::new(TOKENIZER.encode(&text))
    }
}

#[derive(Debug, Default, PartialEq)]
struct Answer {
    ids: Vec<TokenId>,
    text: String,
    reason: Option<FinishReason>,
    usage: Usage,
}

impl Answer {
    fn take_in(&mut self, event: Event) {
        match event {
            Event::Prefill { .. } => {}
            Event::Token { id, text, .. } => {
                self.ids.push(id);
                self.text += &text;
            }
            Event::Finished { text, reason, usage, .. } => {
                self.text += &text;
                self.reason = Some(reason);
                self.usage = usage;
            }
            Event::Failed(error) => panic!("{error}"),
        }
    }
}

fn run(engine: &Engine, request: GenerationRequest) -> Answer {
    let mut answer = Answer::default();
    engine.generate(request).expect("taken").for_each(|event| answer.take_in(event));
    answer
}

fn most_tokens(i: usize) -> usize {
    97 - 11 * i
}

/// Submits question `i` for a share of its tokens, and when it has two of them the next question.
fn join(engine: &Engine, i: usize, share: usize, events: Sender<(usize, Event)>) {
    let (joining, mut tokens) = (engine.clone(), 0);
    let sink = move |event| {
        if let Event::Token { .. } = event {
            tokens += 1;
            if tokens == 2 && i < 7 {
                join(&joining, i + 1, share, events.clone());
            }
        }
        events.send((i, event)).expect("the test listens");
        ControlFlow::Continue(())
    };
    let request =
        GenerationRequest { ignore_eos: true, ..request(&QUESTIONS[i..=i], most_tokens(i) / share) };
    engine.submit(request, sink).expect("taken");
}

/// Staggered arrivals in batches of up to 1, 2, 3, 4 and 8: the greedy tokens are those of each question alone.
#[test]
fn batches_give_the_tokens_of_single_sequences() {
    // Plain f32 is slow: a few tokens, all at once.
    for (precision, share, sizes) in [(Precision::Int8, 1, &[1, 2, 3, 4, 8][..]), (Precision::F32, 8, &[8])] {
        let single = engine(precision, EngineOptions::default());
        let alone: Vec<Answer> = (0..8)
            .map(|i| {
                let request = request(&QUESTIONS[i..=i], most_tokens(i) / share);
                run(&single, GenerationRequest { ignore_eos: true, ..request })
            })
            .collect();
        for &max_running in sizes {
            let engine = engine(precision, EngineOptions { max_running, ..EngineOptions::default() });
            let (sender, events) = channel();
            join(&engine, 0, share, sender);
            let mut answers: Vec<Answer> = (0..8).map(|_| Answer::default()).collect();
            events.iter().for_each(|(i, event)| answers[i].take_in(event));
            for (i, (answer, alone)) in answers.iter().zip(&alone).enumerate() {
                assert_eq!(answer.ids, alone.ids, "question {i} of {max_running} at once, {precision}");
                assert_eq!(answer.text, alone.text);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_text_under_load() {
    let sampling = SamplingParams { seed: Some(42), temperature: 0.7, ..SamplingParams::default() };
    let seeded = || GenerationRequest { sampling: sampling.clone(), ..request(&["Say a random word."], 32) };
    let engine =
        engine(Precision::default(), EngineOptions { snapshot_budget: 0, ..EngineOptions::default() });
    let alone = run(&engine, seeded());
    assert!(!alone.text.is_empty());
    for _ in 0..3 {
        let load: Vec<_> = (0..4)
            .map(|i| {
                let sampling = SamplingParams { temperature: 1.0, ..SamplingParams::default() };
                let request =
                    GenerationRequest { sampling, ignore_eos: true, ..request(&QUESTIONS[i..=i], 60) };
                engine.generate(request).expect("taken")
            })
            .collect();
        assert_eq!(run(&engine, seeded()).ids, alone.ids);
        drop(load);
    }
    let other = SamplingParams { seed: Some(43), temperature: 1.5, ..sampling };
    let other = GenerationRequest { sampling: other, ..request(&["Say a random word."], 32) };
    assert_ne!(run(&engine, other).ids, alone.ids);
}

/// A conversation with snapshots reads only what is new, and answers as one without.
#[test]
fn a_conversation_goes_on_from_its_snapshots() {
    let without = engine(Precision::F32, EngineOptions { snapshot_budget: 0, ..EngineOptions::default() });
    let with = engine(Precision::F32, EngineOptions::default());
    let mut turns: Vec<String> = Vec::new();
    for question in [QUESTIONS[3], QUESTIONS[0], QUESTIONS[7]] {
        turns.push(question.to_owned());
        let turns_so_far: Vec<&str> = turns.iter().map(String::as_str).collect();
        // The history repeats answers without their thinking, so it shares the prompt before that up to there.
        let border =
            request(&turns_so_far, 24).prompt.len() - TOKENIZER.encode("<think>\n\n</think>\n\n").len();
        let ask = || GenerationRequest { snapshot_at: vec![border], ..request(&turns_so_far, 24) };
        let (answer, expected) = (run(&with, ask()), run(&without, ask()));
        assert_eq!((&answer.text, answer.reason), (&expected.text, expected.reason));
        assert_eq!(answer.usage.cached_tokens > 0, turns.len() > 1, "{:?}", answer.usage);
        assert_eq!(run(&with, ask()).usage.cached_tokens, answer.usage.prompt_tokens - 1, "the same again");
        turns.push(answer.text);
    }
}

/// The model is trained: it answers a greeting and ends the answer itself.
#[test]
fn nano_greets_and_ends_its_answer() {
    let answer = run(&engine(Precision::default(), EngineOptions::default()), request(&["Hello!"], 200));
    assert_eq!(answer.reason, Some(FinishReason::EndOfText), "{answer:?}");
    assert!(answer.text.len() > 3 && answer.text.is_char_boundary(1), "{answer:?}");
    assert_eq!(answer.ids.len(), answer.usage.completion_tokens);
}
