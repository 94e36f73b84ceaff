//! Kernels that choose the next token, against the plain reference.

use crate::support::{Buffer, Kernel, Random};
use lily_kernels::reference::{Sampling, adjust_logits, choose};
use lily_kernels::sampling::{self, BLOCK, slot_words};
use lily_kernels::step;

const RING: usize = 64;

#[derive(Clone, Copy, PartialEq)]
enum Route {
    Greedy,
    Bounded(usize),
    Whole { ranked: bool },
}

/// A request and where it stands.
struct Request {
    sampling: Sampling,
    route: Route,
    adjust: bool,
    window_len: usize,
    logprobs: usize,
    bias: Vec<f32>,
    allowed: Vec<bool>,
    in_window: Vec<u32>,
    generated: Vec<u32>,
    window: Vec<u32>,
    step: [u32; step::WORDS],
}

struct Answer {
    token: u32,
    status: u32,
    logprob: f32,
    top: Vec<(u32, f32)>,
}

impl Request {
    fn new(vocab: usize, sampling: Sampling, route: Route) -> Self {
        Self {
            sampling,
            route,
            adjust: false,
            window_len: 0,
            logprobs: 0,
            bias: vec![0.0; vocab],
            allowed: vec![true; vocab],
            in_window: vec![0; vocab],
            generated: vec![0; vocab],
            window: vec![0; 8],
            step: [7, 11, 5, 0, 0, 0, 0, 0],
        }
    }

    fn words(&self) -> Buffer {
        let s = &self.sampling;
        let mut words = [0; sampling::WORDS];
        words[sampling::TEMPERATURE] = s.temperature.to_bits();
        words[sampling::TOP_K] = s.top_k as u32;
        words[sampling::TOP_P] = s.top_p.to_bits();
        words[sampling::MIN_P] = s.min_p.to_bits();
        words[sampling::REPETITION] = s.repetition.to_bits();
        words[sampling::PRESENCE] = s.presence.to_bits();
        words[sampling::FREQUENCY] = s.frequency.to_bits();
        words[sampling::SEED_LOW] = s.seed as u32;
        words[sampling::SEED_HIGH] = (s.seed >> 32) as u32;
        words[sampling::WINDOW] = self.window_len as u32;
        words[sampling::LOGPROBS] = self.logprobs as u32;
        Buffer::u32(&words)
    }

    /// One choice by the kernels; the request moves on as they moved it.
    fn choose(&mut self, logits: &[f32]) -> Answer {
        let vocab = logits.len();
        let blocks = vocab.div_ceil(BLOCK);
        let (route, candidates) = match self.route {
            Route::Greedy => (0, self.logprobs.max(1)),
            Route::Bounded(most) => (1, most.max(self.logprobs)),
            Route::Whole { .. } => (2, self.logprobs.max(1)),
        };
        let constant = |value: bool| i64::from(value);
        let first = Kernel::new(
            "sample_blocks",
            &[
                ("VOCAB", vocab as i64),
                ("CANDIDATES", candidates as i64),
                ("ADJUST", constant(self.adjust)),
                ("KEEP", constant(route == 2)),
            ],
        );
        let mask: Vec<u32> = self
            .allowed
            .chunks(32)
            .map(|bits| bits.iter().enumerate().fold(0, |word, (i, &bit)| word | u32::from(bit) << i))
            .collect();
        let counts: Vec<u32> =
            self.in_window.iter().zip(&self.generated).flat_map(|(&w, &g)| [w, g]).collect();
        let mut logits = Buffer::f32(logits);
        let (mut words, mut counts) = (self.words(), Buffer::u32(&counts));
        let mut found = Buffer::zeros(blocks * candidates * 8);
        let mut statistics = Buffer::floats(blocks * sampling::STATISTICS);
        first.run(
            "sample_blocks",
            [blocks, 1, 1],
            &mut [
                ("logits", &mut logits),
                ("mask", &mut Buffer::u32(&mask)),
                ("bias", &mut Buffer::f32(&self.bias)),
                ("counts", &mut counts),
                ("sampling", &mut words),
                ("candidates", &mut found),
                ("statistics", &mut statistics),
            ],
            &[],
        );
        let mut draws = Buffer::zeros(blocks * 8);
        let mut step_words = Buffer::u32(&self.step);
        if let Route::Whole { ranked } = self.route {
            let whole = Kernel::new(
                "sample_whole",
                &[("VOCAB", vocab as i64), ("BLOCKS", blocks as i64), ("RANKED", constant(ranked))],
            );
            let mut cut = Buffer::zeros(8);
            whole.run(
                "sample_cut",
                [1, 1, 1],
                &mut [
                    ("logits", &mut logits),
                    ("statistics", &mut statistics),
                    ("sampling", &mut words),
                    ("cut", &mut cut),
                ],
                &[],
            );
            whole.run(
                "sample_draw",
                [blocks, 1, 1],
                &mut [
                    ("logits", &mut logits),
                    ("statistics", &mut statistics),
                    ("cut", &mut cut),
                    ("sampling", &mut words),
                    ("step", &mut step_words),
                    ("draws", &mut draws),
                ],
                &[],
            );
        }
        let last = Kernel::new(
            "sample_choose",
            &[
                ("VOCAB", vocab as i64),
                ("BLOCKS", blocks as i64),
                ("CANDIDATES", candidates as i64),
                ("ROUTE", route),
                ("PENALISE", constant(self.adjust)),
                ("REPORT", self.logprobs as i64),
            ],
        );
        let slot = slot_words(self.logprobs);
        let mut ring = Buffer::zeros(RING * slot * 4);
        let mut window = Buffer::u32(&self.window);
        last.run(
            "sample_choose",
            [1, 1, 1],
            &mut [
                ("candidates", &mut found),
                ("statistics", &mut statistics),
                ("draws", &mut draws),
                ("logits", &mut logits),
                ("sampling", &mut words),
                ("step", &mut step_words),
                ("counts", &mut counts),
                ("window", &mut window),
                ("ring", &mut ring),
            ],
            &[],
        );
        let position = self.step[step::POSITION] as usize;
        let slot = ring.to_u32()[position % RING * slot..][..slot].to_vec();
        self.step = step_words.to_u32().try_into().expect("the step's words");
        self.window = window.to_u32();
        let counts = counts.to_u32();
        self.in_window = counts.iter().step_by(2).copied().collect();
        self.generated = counts.iter().skip(1).step_by(2).copied().collect();
        assert_eq!(slot[3] as usize, self.logprobs.min(self.allowed.iter().filter(|&&a| a).count()));
        let top = (0..slot[3] as usize).map(|i| (slot[4 + 2 * i], f32::from_bits(slot[5 + 2 * i]))).collect();
        Answer { token: slot[0], status: slot[1], logprob: f32::from_bits(slot[2]), top }
    }

    /// What the reference says of the same, before the request moves on.
    fn wanted(&self, logits: &[f32]) -> (Option<usize>, Vec<f32>) {
        let mut logits = logits.to_vec();
        let counts = (&self.in_window[..], &self.generated[..]);
        adjust_logits(&mut logits, &self.sampling, &self.bias, counts, &self.allowed);
        let step = u64::from(self.step[step::CHOICE_LOW]) | u64::from(self.step[step::CHOICE_HIGH]) << 32;
        (choose(&logits, &self.sampling, step), logits)
    }

    fn check(&mut self, logits: &[f32], what: &str) -> u32 {
        let (wanted, adjusted) = self.wanted(logits);
        let before = self.step;
        let answer = self.choose(logits);
        assert_eq!(answer.status, step::STATUS_OK, "{what}");
        assert_eq!(Some(answer.token as usize), wanted, "{what}");
        let best = adjusted.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = adjusted.iter().map(|&l| f64::from(l - best).exp()).sum();
        let logprob = |id: u32| (f64::from(adjusted[id as usize] - best) - sum.ln()) as f32;
        assert!((answer.logprob - logprob(answer.token)).abs() < 1e-4, "{what}: {}", answer.logprob);
        let mut order: Vec<u32> = (0..adjusted.len() as u32).filter(|&i| self.allowed[i as usize]).collect();
        order.sort_by(|&a, &b| adjusted[b as usize].total_cmp(&adjusted[a as usize]).then(a.cmp(&b)));
        for ((id, found), wanted) in answer.top.iter().zip(order) {
            assert_eq!(*id, wanted, "{what}");
            assert!((found - logprob(wanted)).abs() < 1e-4, "{what}: {found}");
        }
        assert_eq!(self.step[step::TOKEN], answer.token);
        assert_eq!(self.step[step::POSITION], before[step::POSITION] + 1);
        assert_eq!(self.step[step::CHOICE_LOW], before[step::CHOICE_LOW].wrapping_add(1));
        answer.token
    }
}

fn plain(temperature: f32) -> Sampling {
    Sampling {
        temperature,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repetition: 1.0,
        presence: 0.0,
        frequency: 0.0,
        seed: 0x1234_5678_9abc_def0,
    }
}

/// Peaked enough that bounds cut somewhere interesting.
fn logits(vocab: usize, seed: u64) -> Vec<f32> {
    let mut r = Random::new(seed);
    (0..vocab)
        .map(|_| {
            let x = r.float();
            9.0 * x * x * x
        })
        .collect()
}

#[test]
fn greedy_takes_the_lowest_of_the_best() {
    for vocab in [5120, 2048, 5000, 33] {
        let mut logits = logits(vocab, 3);
        let mut request = Request::new(vocab, plain(0.0), Route::Greedy);
        request.check(&logits, "one best");
        let last = vocab - 1;
        (logits[last], logits[vocab / 2], logits[vocab / 3]) = (20.0, 20.0, 20.0);
        assert_eq!(request.check(&logits, "three best") as usize, vocab / 3);
        request.allowed[vocab / 3] = false;
        assert_eq!(request.check(&logits, "the first of them banned") as usize, vocab / 2);
        request.logprobs = 5;
        request.check(&logits, "with log-probabilities");
    }
}

#[test]
fn bounded_draws_are_the_references() {
    let vocab = 5000;
    let cases = [
        Sampling { top_k: 20, ..plain(1.0) },
        Sampling { top_k: 20, top_p: 0.95, ..plain(1.0) },
        Sampling { top_k: 20, top_p: 0.6, min_p: 0.05, ..plain(0.7) },
        Sampling { top_k: 1, ..plain(1.3) },
        Sampling { top_k: 7, min_p: 0.2, ..plain(1.0) },
    ];
    for sampling in cases {
        let what = format!("{sampling:?}");
        let mut request = Request::new(vocab, sampling, Route::Bounded(20));
        request.logprobs = 3;
        let tokens: Vec<u32> = (0..6).map(|i| request.check(&logits(vocab, i / 3), &what)).collect();
        assert!(request.sampling.top_k == 1 || tokens.windows(2).any(|t| t[0] != t[1]), "{what}: {tokens:?}");
    }
}

#[test]
fn draws_from_the_whole_vocabulary_are_the_references() {
    let vocab = 5000;
    let cases = [
        (plain(1.0), false),
        (Sampling { min_p: 0.05, ..plain(1.0) }, false),
        (Sampling { top_p: 0.9, ..plain(1.0) }, true),
        (Sampling { top_p: 0.5, min_p: 0.01, ..plain(0.6) }, true),
        (Sampling { top_k: 100, ..plain(1.0) }, true),
        (Sampling { top_k: 300, top_p: 0.8, ..plain(1.5) }, true),
    ];
    for (sampling, ranked) in cases {
        let what = format!("{sampling:?}");
        let mut request = Request::new(vocab, sampling, Route::Whole { ranked });
        request.allowed[4990..].fill(false);
        for i in 0..4 {
            request.check(&logits(vocab, i), &what);
        }
    }
}

#[test]
fn bias_penalties_and_the_sliding_window() {
    let vocab = 300;
    let sampling = Sampling { repetition: 1.3, presence: 0.4, frequency: 0.3, ..plain(0.0) };
    for (route, temperature, top_k) in
        [(Route::Greedy, 0.0, 0), (Route::Bounded(8), 0.8, 8), (Route::Whole { ranked: false }, 0.8, 0)]
    {
        let mut request = Request::new(vocab, Sampling { temperature, top_k, ..sampling.clone() }, route);
        request.adjust = true;
        request.window_len = 3;
        request.bias = Random::new(5).vec(vocab, 2.0);
        // A prompt that ends in 1, 2.
        request.window[..2].copy_from_slice(&[1, 2]);
        (request.in_window[1], request.in_window[2]) = (1, 1);
        request.step[step::HISTORY] = 2;
        let logits = logits(vocab, 9);
        let mut answer = vec![1, 2];
        for i in 0..7 {
            answer.push(request.check(&logits, &format!("token {i}")));
            let seen = &answer[answer.len().saturating_sub(3)..];
            for id in 0..vocab {
                let in_window = seen.iter().filter(|&&token| token as usize == id).count();
                assert_eq!(request.in_window[id] as usize, in_window, "token {id} after {answer:?}");
            }
            let generated: u32 = request.generated.iter().sum();
            assert_eq!(generated, i + 1);
        }
    }
}

#[test]
fn broken_logits_and_empty_masks_are_told() {
    let vocab = 4100;
    for (value, at, status) in [
        (f32::NAN, 4099, step::STATUS_NAN),
        (f32::INFINITY, 5, step::STATUS_INFINITE),
        (f32::NEG_INFINITY, 2050, step::STATUS_INFINITE),
    ] {
        let mut request = Request::new(vocab, plain(0.0), Route::Greedy);
        request.allowed[at] = false;
        let mut logits = logits(vocab, 1);
        logits[at] = value;
        let answer = request.choose(&logits);
        assert_eq!(answer.status, status, "{value}");
        assert_eq!(request.step[step::STATUS], status);
        assert_eq!(request.step[step::TOKEN], 7, "the token stays");
    }
    for route in [Route::Greedy, Route::Bounded(4), Route::Whole { ranked: false }] {
        let mut request = Request::new(vocab, Sampling { top_k: 4, ..plain(1.0) }, route);
        request.allowed.fill(false);
        assert_eq!(request.choose(&logits(vocab, 1)).status, step::STATUS_NOTHING);
    }
}
