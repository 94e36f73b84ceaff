//! The plain f32 reference against mlx-lm, and against itself.

use crate::goldens::{golden, greedy_answers, nano};
use lily_cpu::ReferenceBackend;
use lily_engine::{
    Backend, BackendError, DecodeStep, LogitsWanted, SequenceState, TokenId,
    evaluation::{Bounds, Feed, evaluate},
};

/// Log-probabilities within this of mlx-lm's, in nats, everywhere.
const LOGPROB_BOUND: f64 = 1e-3;

fn backend() -> ReferenceBackend {
    ReferenceBackend::new(&nano())
}

fn best(logits: &[f32]) -> TokenId {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)));
    TokenId(best.expect("logits") as u32)
}

#[test]
fn log_probabilities_are_those_of_mlx_lm() {
    let file = golden("nano.safetensors");
    let report = evaluate(&mut backend(), &file, Feed::Prefill(256), |_, _| {}).expect("runs");
    eprintln!("{report}");
    assert!(report.all.positions >= Bounds::MIN_POSITIONS);
    assert!(report.all.max_logprob_difference <= LOGPROB_BOUND, "{}", report.all.max_logprob_difference);
    assert_eq!(report.all.top1_clear.share(), 1.0);
    Bounds::F32.check(&report).expect("an f32 path");
}

/// The golden also holds each position's log-sum-exp, which log-probabilities do not show.
#[test]
fn logits_are_those_of_mlx_lm_not_only_up_to_a_shift() {
    let (file, mut backend) = (golden("nano.safetensors"), backend());
    let sequence = &file.sequences()[file.sequences().len() - 1];
    let mut state = backend.new_state().expect("a state");
    let (mut worst, mut whole_rows) = (0.0_f64, 0);
    let mut each = |i: usize, logits: &[f32]| {
        let row = file.row(sequence, i);
        let found = lily_engine::evaluation::log_sum_exp(logits);
        worst = worst.max((found - f64::from(row.log_sum_exp)).abs());
        for (found, wanted) in logits.iter().zip(row.logits.unwrap_or_default()) {
            worst = worst.max(f64::from((found - wanted).abs()));
        }
        whole_rows += usize::from(row.logits.is_some());
    };
    backend.prefill(&mut state, file.tokens(sequence), LogitsWanted::Each(&mut each)).expect("runs");
    eprintln!("largest difference {worst:.2e}, {whole_rows} whole rows");
    assert!(whole_rows > 0 && worst <= LOGPROB_BOUND, "{worst} over {whole_rows} whole rows");
}

#[test]
fn greedy_answers_are_those_of_mlx_lm() {
    let mut backend = backend();
    for golden in greedy_answers() {
        let (mut state, mut logits) = (backend.new_state().expect("a state"), Vec::new());
        for part in golden.prompt.chunks(backend.prefill_chunk()) {
            backend.prefill(&mut state, part, LogitsWanted::Last(&mut logits)).expect("runs");
        }
        let mut answer = vec![best(&logits)];
        while answer.len() < golden.answer.len() {
            let token = answer[answer.len() - 1];
            backend
                .decode(&mut [DecodeStep { state: &mut state, token, logits: &mut logits }])
                .expect("runs");
            answer.push(best(&logits));
        }
        assert_eq!(answer, golden.answer, "{}, smallest margin {}", golden.name, golden.min_margin);
    }
}

/// NUM-12: the best token at 10, 200 and 2,000 tokens is the golden's: mlx-lm's and transformers'.
#[test]
fn long_prompts_keep_the_best_token() {
    let (file, mut backend) = (golden("nano-long.safetensors"), backend());
    let sequence = &file.sequences()[0];
    let (mut state, mut logits) = (backend.new_state().expect("a state"), Vec::new());
    for length in [10, 200, 2000] {
        let rest = &file.tokens(sequence)[state.position()..length];
        for part in rest.chunks(backend.prefill_chunk()) {
            backend.prefill(&mut state, part, LogitsWanted::Last(&mut logits)).expect("runs");
        }
        let row = file.row(sequence, length - 1);
        assert_eq!(best(&logits), row.top_ids[0], "after {length} tokens");
        let logprob =
            f64::from(logits[row.top_ids[0].0 as usize]) - lily_engine::evaluation::log_sum_exp(&logits);
        let off = (logprob - f64::from(row.top_logprobs[0])).abs();
        assert!(off <= LOGPROB_BOUND, "after {length} tokens the log-probability is off by {off}");
    }
}

/// NUM-09: prompts of any length, at once or token by token, are finite and the same to the bit.
#[test]
fn prefill_equals_single_steps() {
    let (file, mut backend) = (golden("nano-long.safetensors"), backend());
    let tokens = &file.tokens(&file.sequences()[0])[..129];
    let mut state = backend.new_state().expect("a state");
    let steps: Vec<Vec<f32>> = tokens
        .iter()
        .map(|&token| {
            let mut logits = Vec::new();
            backend
                .decode(&mut [DecodeStep { state: &mut state, token, logits: &mut logits }])
                .expect("runs");
            assert!(logits.iter().all(|x| x.is_finite()));
            logits
        })
        .collect();
    for length in (1..=20).chain([63, 64, 65, 127, 128, 129]) {
        let (mut state, mut logits) = (backend.new_state().expect("a state"), Vec::new());
        backend.prefill(&mut state, &tokens[..length], LogitsWanted::Last(&mut logits)).expect("runs");
        assert!(logits == steps[length - 1], "a prompt of {length} tokens differs from single steps");
    }
}

/// Rule 5: state is a value. A batch is its sequences one by one.
#[test]
fn snapshots_and_batches_change_nothing() {
    let (file, mut backend) = (golden("nano-long.safetensors"), backend());
    let tokens = &file.tokens(&file.sequences()[0])[..40];
    let (mut state, mut wanted) = (backend.new_state().expect("a state"), Vec::new());
    backend.prefill(&mut state, &tokens[..30], LogitsWanted::None).expect("runs");
    let snapshot = backend.snapshot(&state).expect("a snapshot");
    assert_eq!(backend.snapshot_bytes(&snapshot), state.bytes());
    backend.prefill(&mut state, &tokens[30..], LogitsWanted::Last(&mut wanted)).expect("runs");

    let mut restored = backend.restore(&snapshot).expect("restored");
    let mut other = backend.new_state().expect("a state");
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for i in 30..40 {
        let steps = &mut [
            DecodeStep { state: &mut restored, token: tokens[i], logits: &mut a },
            DecodeStep { state: &mut other, token: tokens[i - 30], logits: &mut b },
        ];
        backend.decode(steps).expect("runs");
    }
    assert!(a == wanted && restored == state, "a restored sequence in a batch went another way");
    let mut alone = Vec::new();
    let mut state = backend.new_state().expect("a state");
    backend.prefill(&mut state, &tokens[..10], LogitsWanted::Last(&mut alone)).expect("runs");
    assert!(b == alone, "the batch's other sequence went another way");
}

#[test]
fn bad_calls_change_nothing() {
    let mut backend = backend();
    let vocab = backend.vocab_size();
    let mut state = backend.new_state().expect("a state");
    backend.prefill(&mut state, &[TokenId(1)], LogitsWanted::None).expect("runs");
    let before = state.clone();
    let outside = [TokenId(2), TokenId(vocab as u32)];
    assert!(matches!(
        backend.prefill(&mut state, &outside, LogitsWanted::None),
        Err(BackendError::TokenOutOfRange { id, .. }) if id == vocab as u32
    ));
    let too_many = vec![TokenId(1); backend.prefill_chunk() + 1];
    assert!(backend.prefill(&mut state, &too_many, LogitsWanted::None).is_err());
    assert!(backend.prefill(&mut state, &[], LogitsWanted::None).is_err());
    let mut logits = Vec::new();
    let step = DecodeStep { state: &mut state, token: TokenId(u32::MAX), logits: &mut logits };
    assert!(backend.decode(&mut [step]).is_err());
    assert_eq!(state, before);
}
