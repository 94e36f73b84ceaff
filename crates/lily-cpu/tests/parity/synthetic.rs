//! Four layers of the full shapes, random weights: `LILY_SYNTHETIC4_DIR` names the folder
//! (`tools/gen_synthetic.py --layers 4`, then `tools/parity/make_goldens.py activations`). Without it, these tests say
//! that they were skipped.

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, Precision, reference_model};
use lily_engine::{Backend, DecodeStep, LogitsWanted, TokenId, evaluation::ExpertChoices};
use lily_kernels::reference::{Probe, route};
use safetensors::SafeTensors;
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

/// Relative distance of the reference to mlx-lm: of logits, router logits and layer outputs, position by position.
const REFERENCE_BOUND: f64 = 1e-4;

struct Synthetic {
    checkpoint: Checkpoint,
    tokens: Vec<u32>,
    /// mlx-lm's, `[layers][tokens][experts]`.
    router_logits: Vec<Vec<Vec<f32>>>,
    /// mlx-lm's, `[layers][tokens][hidden]`.
    layer_outputs: Vec<Vec<Vec<f32>>>,
    /// mlx-lm's, `[tokens][vocab]`.
    logits: Vec<Vec<f32>>,
}

fn synthetic() -> Option<&'static Synthetic> {
    static OPENED: OnceLock<Option<Synthetic>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| Some(open(&PathBuf::from(std::env::var_os("LILY_SYNTHETIC4_DIR")?))));
    if opened.is_none() {
        eprintln!("skipped: LILY_SYNTHETIC4_DIR is not set");
    }
    opened.as_ref()
}

fn open(folder: &std::path::Path) -> Synthetic {
    let checkpoint = Checkpoint::open(folder).expect("the synthetic checkpoint opens");
    let path = folder.join("lily-activations.safetensors");
    let bytes = std::fs::read(&path).unwrap_or_else(|e| {
        panic!("{}: {e}\nhint: tools/parity/make_goldens.py activations FOLDER makes it", path.display())
    });
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let tensor = |name: &str| file.tensor(name).expect("a tensor of the golden");
    // `[.., rows, cols]` as rows.
    let rows = |name: &str| -> Vec<Vec<f32>> {
        let (tensor, values) = (tensor(name), tensor(name).data().chunks_exact(4));
        let values: Vec<f32> = values.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        values.chunks_exact(*tensor.shape().last().expect("a shape")).map(<[f32]>::to_vec).collect()
    };
    let words = tensor("tokens").data().chunks_exact(4);
    let tokens: Vec<u32> = words.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let by_layer = |rows: Vec<Vec<f32>>| rows.chunks_exact(tokens.len()).map(<[_]>::to_vec).collect();
    Synthetic {
        checkpoint,
        router_logits: by_layer(rows("router_logits")),
        layer_outputs: by_layer(rows("layer_outputs")),
        logits: rows("logits"),
        tokens,
    }
}

/// What the reference did: the same things, and its experts.
#[derive(Default)]
struct Recorded {
    router_logits: Vec<Vec<Vec<f32>>>,
    layer_outputs: Vec<Vec<Vec<f32>>>,
    logits: Vec<Vec<f32>>,
    hidden: usize,
}

impl Probe for Recorded {
    fn router_logits(&mut self, layer: usize, _: usize, logits: &[f32]) {
        self.router_logits.resize(self.router_logits.len().max(layer + 1), Vec::new());
        self.router_logits[layer].push(logits.to_vec());
    }

    fn layer_output(&mut self, _: usize, _: usize, hidden: &[f32]) {
        self.layer_outputs.push(hidden.chunks_exact(self.hidden).map(<[f32]>::to_vec).collect());
    }
}

impl Recorded {
    /// The experts of each position and layer, best first.
    fn choices(&self, per_token: usize) -> ExpertChoices {
        let positions = self.router_logits[0].len();
        let experts = (0..positions)
            .flat_map(|t| self.router_logits.iter().flat_map(move |layer| route(&layer[t], per_token, true)))
            .map(|route| route.expert);
        ExpertChoices::new(self.router_logits.len(), per_token, experts.collect())
    }
}

fn reference(s: &'static Synthetic) -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let model = reference_model(&s.checkpoint);
        let mut recorded = Recorded { hidden: model.shape.hidden, ..Recorded::default() };
        let x = model.forward(&mut model.new_state(), &s.tokens, &mut recorded);
        let vocab = s.checkpoint.config.vocab_size;
        recorded.logits = model.logits(&x).chunks_exact(vocab).map(<[f32]>::to_vec).collect();
        recorded
    })
}

/// `‖found - wanted‖ / ‖wanted‖`: of all positions together, and of the worst one.
fn distances(found: &[Vec<f32>], wanted: &[Vec<f32>]) -> (f64, f64) {
    assert_eq!(found.len(), wanted.len(), "positions");
    let square = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>();
    let (mut off_sum, mut wanted_sum, mut worst) = (0.0, 0.0, 0.0);
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found.len(), wanted.len(), "elements");
        let off = square(&mut found.iter().zip(wanted).map(|(a, b)| f64::from(a - b)));
        let of = square(&mut wanted.iter().map(|&x| f64::from(x)));
        let distance = (off / of).sqrt();
        worst = if distance.is_nan() || distance > worst { distance } else { worst };
        (off_sum, wanted_sum) = (off_sum + off, wanted_sum + of);
    }
    ((off_sum / wanted_sum).sqrt(), worst)
}

/// As [`distances`], of the worst position.
fn relative(found: &[Vec<f32>], wanted: &[Vec<f32>]) -> f64 {
    distances(found, wanted).1
}

#[test]
fn the_reference_is_mlx_lm() {
    let Some(s) = synthetic() else { return };
    let r = reference(s);
    let per_token = s.checkpoint.config.moe.experts_per_token;
    let mlx = Recorded { router_logits: s.router_logits.clone(), ..Recorded::default() };
    assert_eq!(r.choices(per_token), mlx.choices(per_token), "the experts differ");
    let mut distances = vec![("logits".to_owned(), relative(&r.logits, &s.logits))];
    for layer in 0..r.layer_outputs.len() {
        let routers = relative(&r.router_logits[layer], &s.router_logits[layer]);
        distances.push((format!("router logits of layer {layer}"), routers));
        let outputs = relative(&r.layer_outputs[layer], &s.layer_outputs[layer]);
        distances.push((format!("output of layer {layer}"), outputs));
    }
    for (what, distance) in distances {
        eprintln!("{what}: {distance:.2e}");
        assert!(distance <= REFERENCE_BOUND, "{what}: relative distance {distance:.2e}");
    }
}

/// Through prefill and decode, with the reference's experts forced: `bound` is the relative distance of all positions'
/// logits together; no position may lie beyond one and a half times that.
fn hold(precision: Precision, bound: f64) {
    let Some(s) = synthetic() else { return };
    let r = reference(s);
    let choices = Arc::new(r.choices(s.checkpoint.config.moe.experts_per_token));
    let options = CpuOptions { precision, ..CpuOptions::default() };
    let mut backend =
        CpuBackend::new(&s.checkpoint, &options).expect("a backend").with_forced_experts(choices);
    let tokens: Vec<TokenId> = s.tokens.iter().copied().map(TokenId).collect();

    let (mut state, mut prefill) = (backend.new_state().expect("a state"), Vec::new());
    let mut each = |_: usize, logits: &[f32]| prefill.push(logits.to_vec());
    backend.prefill(&mut state, &tokens, LogitsWanted::Each(&mut each)).expect("runs");

    let (mut state, mut decode) = (backend.new_state().expect("a state"), Vec::new());
    for &token in &tokens {
        let mut logits = Vec::new();
        backend.decode(&mut [DecodeStep { state: &mut state, token, logits: &mut logits }]).expect("runs");
        decode.push(logits);
    }
    for (how, found) in [("prefill", prefill), ("decode", decode)] {
        let (distance, worst) = distances(&found, &r.logits);
        eprintln!("{precision}, {how}: {distance:.2e}, worst position {worst:.2e}");
        assert!(
            distance <= bound,
            "{precision}, {how}: relative distance {distance:.2e}, at most {bound:.0e}"
        );
        assert!(
            worst <= 1.5 * bound,
            "{precision}, {how}: relative distance {worst:.2e} at the worst position, at most 1.5 * {bound:.0e}"
        );
    }
}

#[test]
fn f32_path() {
    hold(Precision::F32, REFERENCE_BOUND);
}

#[test]
fn bf16_path() {
    hold(Precision::Bf16, 3e-2);
}

#[test]
fn int8_path() {
    hold(Precision::Int8, 8e-2);
}
