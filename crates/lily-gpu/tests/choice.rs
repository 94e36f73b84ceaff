//! The choice on the device is the engine's choice, over several tokens of a request.
#![cfg(feature = "emulator")]

use lily_checkpoint::Checkpoint;
use lily_engine::{Sampler, SamplingParams, TokenId, TokenMask};
use lily_gpu::{
    Device, GpuModel, Pass, Recorder, StateBuffers, Switches,
    device::EmulatorDevice,
    plan::{
        choice::{self, Choice, ChoiceRequest, ChoiceRoute},
        decode::DecodeTemporaries,
    },
    weights::WeightPlan,
};
use lily_kernels::step;
use std::sync::Arc;

fn logits(vocab: usize, seed: u32) -> Vec<f32> {
    let mut state = u64::from(seed) << 8 | 1;
    (0..vocab)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let x = (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0;
            9.0 * x * x * x
        })
        .collect()
}

fn bytes(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn a_request_gets_the_engines_tokens() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    let checkpoint = Checkpoint::open(folder.as_ref()).expect("nano opens");
    let config = checkpoint.config.clone();
    let vocab = config.vocab_size;
    let device: Arc<dyn Device> = Arc::new(EmulatorDevice::default());
    let weights = WeightPlan::new(&checkpoint).expect("placed").load(&*device).expect("loaded");
    let model = GpuModel::new(device.clone(), config.clone(), weights, Switches::default());
    let state = StateBuffers::new(&*device, &config, 64).expect("a state");
    let temporaries = DecodeTemporaries::new(&*device, &config, 64).expect("temporaries");
    let mut on_device = Choice::new(&*device, &config).expect("a choice");

    let mut tokens = TokenMask::all(vocab);
    (5089..vocab as u32).for_each(|id| tokens.forbid(TokenId(id)));
    let tokens = Arc::new(tokens);
    let prompt: Vec<TokenId> = [5, 9, 700, 9].map(TokenId).to_vec();
    let family = SamplingParams { temperature: 1.0, top_k: 20, top_p: 0.95, ..SamplingParams::default() };
    let requests = [
        (ChoiceRoute::Greedy, SamplingParams::default()),
        (ChoiceRoute::Bounded { candidates: 20 }, family.clone()),
        (
            ChoiceRoute::Bounded { candidates: 8 },
            SamplingParams {
                top_k: 8,
                repetition_penalty: 1.2,
                repetition_window: 3,
                presence_penalty: 0.3,
                frequency_penalty: 0.2,
                logit_bias: vec![(TokenId(9), 4.0), (TokenId(10), -100.0), (TokenId(9), 1.0)],
                ..family.clone()
            },
        ),
        (ChoiceRoute::Whole { ranked: true }, SamplingParams { top_k: 0, min_p: 0.02, ..family.clone() }),
        (
            ChoiceRoute::Whole { ranked: false },
            SamplingParams {
                top_k: 0,
                top_p: 1.0,
                logit_bias: vec![(TokenId(77), 100.0), (TokenId(78), 100.0)],
                ..family
            },
        ),
    ];
    for (route, params) in requests {
        let params = SamplingParams { seed: Some(0xfeed_f00d_1234), ..params };
        let seed = params.seed.unwrap_or_default();
        let history = on_device
            .set(
                &*device,
                &ChoiceRequest {
                    params: &params,
                    seed,
                    prompt: &prompt,
                    answer: &[],
                    tokens: &tokens,
                    logprobs: 4,
                },
            )
            .expect("set");
        assert_eq!(on_device.key().route, route);
        let mut sampler = Sampler::new(&params, &prompt, tokens.clone(), Some(4));
        let mut words = [0; step::WORDS];
        (words[step::POSITION], words[step::HISTORY]) = (prompt.len() as u32, history);
        device.upload(&state.step, &bytes(words)).expect("written");
        for index in 0..5 {
            let mut logits = logits(vocab, index / 2);
            device.upload(&temporaries.logits, &bytes(logits.iter().map(|l| l.to_bits()))).expect("written");
            let mut recorder = Recorder::new();
            choice::record(&mut recorder, &model, &state, &temporaries, &on_device).expect("recorded");
            device.run(&recorder.finish().expect("complete"), Pass::default()).expect("runs");
            let found = on_device.report(&*device, prompt.len() + index as usize).expect("read");
            let wanted = sampler.choose(&mut logits, None).expect("a choice");
            assert_eq!((found.status, found.token), (step::STATUS_OK, wanted.id), "{route:?}, token {index}");
            let logprob = wanted.logprob.expect("asked for");
            assert!((found.logprob - logprob.logprob).abs() < 1e-4, "{route:?}");
            let ids = |top: &[(TokenId, f32)]| top.iter().map(|&(id, _)| id).collect::<Vec<TokenId>>();
            assert_eq!(ids(&found.top), ids(&logprob.top), "{route:?}, token {index}");
        }
    }
}
