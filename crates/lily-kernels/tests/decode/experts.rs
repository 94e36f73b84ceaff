//! The mixture of experts of one token: router and shared expert, chosen experts in, all out; fused and in parts.

use crate::support::{Buffer, Kernel, Quantised, Random, Value, assert_close};
use lily_kernels::reference::{linear, rms_norm, route, sigmoid, silu};

const EPS: f32 = 1e-6;
const TOPK: usize = 8;

struct Case {
    hidden: usize,
    experts: usize,
    inner: usize,
    shared_inner: usize,
    x: Vec<f32>,
    gain: Vec<f32>,
    router: Quantised,
    gate: Quantised,
    up: Quantised,
    down: Quantised,
    shared_gate: Quantised,
    shared_up: Quantised,
    shared_down: Quantised,
}

/// What each step of the reference gives.
struct Wanted {
    logits: Vec<f32>,
    ids: Vec<u32>,
    weights: Vec<f32>,
    shared_weight: f32,
    /// `[8][inner]`, then `[shared_inner]`.
    h: Vec<f32>,
    y: Vec<f32>,
}

impl Case {
    fn new(hidden: usize, experts: usize, inner: usize, shared_inner: usize, bits: usize) -> Self {
        let mut r = Random::new(hidden as u64 + inner as u64);
        let mut matrix = |rows, cols, bits| Quantised::new(&mut r, rows, cols, bits, 64);
        let router = matrix(experts + 1, hidden, 8);
        let gate = matrix(experts * inner, hidden, bits);
        let up = matrix(experts * inner, hidden, bits);
        let down = matrix(experts * hidden, inner, bits);
        let shared_gate = matrix(shared_inner, hidden, 4);
        let shared_up = matrix(shared_inner, hidden, 4);
        let shared_down = matrix(hidden, shared_inner, 4);
        let (x, gain) = (r.vec(hidden, 2.0), r.gain(hidden));
        Self {
            hidden,
            experts,
            inner,
            shared_inner,
            x,
            gain,
            router,
            gate,
            up,
            down,
            shared_gate,
            shared_up,
            shared_down,
        }
    }

    fn wanted(&self) -> Wanted {
        let mut x = self.x.clone();
        rms_norm(&mut x, &self.gain, EPS);
        let logits = linear(&self.router.dense(), &x);
        let routes = route(&logits[..self.experts], TOPK, true);
        let gated = |gate: &[f32], up: &[f32]| -> Vec<f32> {
            gate.iter().zip(up).map(|(gate, up)| silu(*gate) * up).collect()
        };
        let (mut h, mut y) = (Vec::new(), self.x.clone());
        for route in &routes {
            let rows = |rows: usize| (route.expert * rows, (route.expert + 1) * rows);
            let (from, to) = rows(self.inner);
            let inner = gated(&linear(&self.gate.slice(from, to), &x), &linear(&self.up.slice(from, to), &x));
            let (from, to) = rows(self.hidden);
            for (y, out) in y.iter_mut().zip(linear(&self.down.slice(from, to), &inner)) {
                *y += route.weight * out;
            }
            h.extend(inner);
        }
        let shared = gated(&linear(&self.shared_gate.dense(), &x), &linear(&self.shared_up.dense(), &x));
        let shared_weight = sigmoid(logits[self.experts]);
        for (y, out) in y.iter_mut().zip(linear(&self.shared_down.dense(), &shared)) {
            *y += shared_weight * out;
        }
        h.extend(shared);
        Wanted {
            logits,
            ids: routes.iter().map(|route| route.expert as u32).collect(),
            weights: routes.iter().map(|route| route.weight).collect(),
            shared_weight,
            h,
            y,
        }
    }

    fn routes(wanted: &Wanted) -> Buffer {
        let mut words = wanted.ids.clone();
        words.extend(wanted.weights.iter().map(|weight| weight.to_bits()));
        words.push(wanted.shared_weight.to_bits());
        Buffer::u32(&words)
    }

    fn check_routes(routes: &Buffer, wanted: &Wanted) {
        let words = routes.to_u32();
        assert_eq!(words[..TOPK], wanted.ids);
        let weights: Vec<f32> = words[TOPK..2 * TOPK].iter().map(|&word| f32::from_bits(word)).collect();
        assert_close(&weights, &wanted.weights, 1e-5, "weights");
        assert!((f32::from_bits(words[2 * TOPK]) - wanted.shared_weight).abs() < 1e-5);
    }
}

fn side(width: usize) -> usize {
    32 / (width / 32).next_power_of_two().min(32)
}

/// With how many simdgroups share a row.
fn cases() -> Vec<(Case, i64)> {
    vec![
        (Case::new(320, 32, 64, 64, 4), 1),
        (Case::new(320, 32, 64, 64, 8), 2),
        (Case::new(2048, 11, 64, 128, 4), 1),
        (Case::new(2048, 9, 64, 64, 4), 4),
        (Case::new(320, 40, 512, 64, 6), 1),
        (Case::new(64, 256, 128, 512, 4), 1),
    ]
}

fn bits_of(case: &Case) -> i64 {
    (case.gate.codes.to_u32().len() * 32 / case.gate.values.len()) as i64
}

#[test]
fn router_and_shared_expert() {
    for (mut case, split) in cases() {
        let wanted = case.wanted();
        let (simdgroups, rows) = (4, 2);
        let kernel =
            Kernel::new("router_shared", &[("K", case.hidden as i64), ("SPLIT", split), ("ROWS", rows)]);
        let tile = (simdgroups / split * rows) as usize * side(case.hidden);
        let router_groups = (case.experts + 1).div_ceil(tile);
        let (mut logits, mut h) = (Buffer::floats(case.experts + 1), Buffer::floats(case.shared_inner));
        kernel.run(
            "router_shared",
            [router_groups + case.shared_inner.div_ceil(tile), 1, 1],
            &mut [
                ("rw", &mut case.router.codes),
                ("rs", &mut case.router.scales),
                ("rb", &mut case.router.biases),
                ("gw", &mut case.shared_gate.codes),
                ("gs", &mut case.shared_gate.scales),
                ("gb", &mut case.shared_gate.biases),
                ("uw", &mut case.shared_up.codes),
                ("us", &mut case.shared_up.scales),
                ("ub", &mut case.shared_up.biases),
                ("x", &mut Buffer::f32(&case.x)),
                ("gain", &mut Buffer::f32(&case.gain)),
                ("next", &mut Buffer::u32(&[0; 4000])),
                ("logits", &mut logits),
                ("h", &mut h),
            ],
            &[
                ("router_rows", Value::U(case.experts + 1)),
                ("router_groups", Value::U(router_groups)),
                ("inner", Value::U(case.shared_inner)),
                ("eps", Value::F(EPS)),
                ("ahead", Value::U(4000)),
            ],
        );
        assert_close(&logits.to_f32(), &wanted.logits, 2e-5, "logits");
        assert_close(&h.to_f32(), &wanted.h[TOPK * case.inner..], 4e-5, "shared");
    }
}

#[test]
fn chosen_experts_in_and_all_out() {
    for (mut case, split) in cases() {
        let wanted = case.wanted();
        let bits = bits_of(&case);
        let kernel = Kernel::new(
            "expert_gate_up",
            &[
                ("K", case.hidden as i64),
                ("EXPERTS", case.experts as i64),
                ("INNER", case.inner as i64),
                ("BITS", bits),
                ("SPLIT", split),
            ],
        );
        let tile = (4 / split * 2) as usize * side(case.hidden);
        let (mut h, mut routes) = (Buffer::floats(TOPK * case.inner), Buffer::zeros(4 * (2 * TOPK + 1)));
        kernel.run(
            "expert_gate_up",
            [case.inner.div_ceil(tile), TOPK, 1],
            &mut [
                ("logits", &mut Buffer::f32(&wanted.logits)),
                ("gw", &mut case.gate.codes),
                ("gs", &mut case.gate.scales),
                ("gb", &mut case.gate.biases),
                ("uw", &mut case.up.codes),
                ("us", &mut case.up.scales),
                ("ub", &mut case.up.biases),
                ("x", &mut Buffer::f32(&case.x)),
                ("gain", &mut Buffer::f32(&case.gain)),
                ("down", &mut case.down.codes),
                ("down_scales", &mut case.down.scales),
                ("down_biases", &mut case.down.biases),
                ("h", &mut h),
                ("routes", &mut routes),
            ],
            &[
                ("eps", Value::F(EPS)),
                ("down_words", Value::U(case.hidden * case.inner * bits as usize / 32)),
                ("down_scale_words", Value::U(case.hidden * case.inner / 64 / 2)),
            ],
        );
        assert_close(&h.to_f32(), &wanted.h[..TOPK * case.inner], 4e-5, "inner");
        Case::check_routes(&routes, &wanted);

        let kernel = Kernel::new(
            "expert_down",
            &[("INNER", case.inner as i64), ("SHARED_INNER", case.shared_inner as i64), ("BITS", bits)],
        );
        let mut y = Buffer::f32(&case.x);
        kernel.run(
            "expert_down",
            [case.hidden.div_ceil(4 * side(case.inner)), 1, 1],
            &mut [
                ("w", &mut case.down.codes),
                ("scales", &mut case.down.scales),
                ("biases", &mut case.down.biases),
                ("shared_w", &mut case.shared_down.codes),
                ("shared_scales", &mut case.shared_down.scales),
                ("shared_biases", &mut case.shared_down.biases),
                ("h", &mut Buffer::f32(&wanted.h)),
                ("routes", &mut Case::routes(&wanted)),
                ("next", &mut Buffer::u32(&[0; 33])),
                ("y", &mut y),
            ],
            &[("rows", Value::U(case.hidden)), ("ahead", Value::U(33))],
        );
        assert_close(&y.to_f32(), &wanted.y, 2e-5, "out");
    }
}

/// Without the fusions: the choice, each projection, the activation and the sum as launches of their own.
#[test]
fn the_same_in_parts() {
    let mut case = Case::new(320, 32, 64, 128, 4);
    let wanted = case.wanted();
    let mut normed = case.x.clone();
    rms_norm(&mut normed, &case.gain, EPS);
    let norm = Kernel::new("rms_norm_row", &[("K", 320)]);
    let mut x = Buffer::floats(320);
    norm.run(
        "rms_norm_row",
        [1, 1, 1],
        &mut [("x", &mut Buffer::f32(&case.x)), ("gain", &mut Buffer::f32(&case.gain)), ("y", &mut x)],
        &[("eps", Value::F(EPS))],
    );
    assert_close(&x.to_f32(), &normed, 1e-5, "norm");

    let parts = Kernel::new("expert_parts", &[("K", 320), ("EXPERTS", 32)]);
    let mut routes = Buffer::zeros(4 * (2 * TOPK + 1));
    parts.run(
        "top_experts",
        [1, 1, 1],
        &mut [("logits", &mut Buffer::f32(&wanted.logits)), ("routes", &mut routes)],
        &[],
    );
    Case::check_routes(&routes, &wanted);
    let (mut gate, mut up) = (Buffer::floats(TOPK * 64), Buffer::floats(TOPK * 64));
    for (w, y) in [(&mut case.gate, &mut gate), (&mut case.up, &mut up)] {
        parts.run(
            "expert_rows",
            [64_usize.div_ceil(4 * 4 * side(320)), TOPK, 1],
            &mut [
                ("w", &mut w.codes),
                ("scales", &mut w.scales),
                ("biases", &mut w.biases),
                ("x", &mut x),
                ("routes", &mut routes),
                ("y", y),
            ],
            &[("rows", Value::U(64)), ("stride", Value::U(0))],
        );
    }
    let mut h = Buffer::floats(TOPK * 64);
    parts.run(
        "silu_product",
        [2, 1, 1],
        &mut [("gate", &mut gate), ("up", &mut up), ("h", &mut h)],
        &[("length", Value::U(TOPK * 64))],
    );
    assert_close(&h.to_f32(), &wanted.h[..TOPK * 64], 4e-5, "inner");

    let down_parts = Kernel::new("expert_parts", &[("K", 64), ("EXPERTS", 32)]);
    let mut down = Buffer::floats(TOPK * 320);
    down_parts.run(
        "expert_rows",
        [320_usize.div_ceil(4 * 4 * side(64)), TOPK, 1],
        &mut [
            ("w", &mut case.down.codes),
            ("scales", &mut case.down.scales),
            ("biases", &mut case.down.biases),
            ("x", &mut h),
            ("routes", &mut routes),
            ("y", &mut down),
        ],
        &[("rows", Value::U(320)), ("stride", Value::U(64))],
    );
    let shared = linear(&case.shared_down.dense(), &wanted.h[TOPK * 64..]);
    let mut y = Buffer::f32(&case.x);
    parts.run(
        "mix_experts",
        [2, 1, 1],
        &mut [
            ("down", &mut down),
            ("shared", &mut Buffer::f32(&shared)),
            ("routes", &mut routes),
            ("y", &mut y),
        ],
        &[("length", Value::U(320))],
    );
    assert_close(&y.to_f32(), &wanted.y, 2e-5, "out");
}

/// Equal logits go to the lowest ids, and without renormalisation the weights are shares of the whole softmax.
#[test]
fn ties_and_plain_shares() {
    let parts = Kernel::new("expert_parts", &[("K", 64), ("EXPERTS", 40), ("TOPK", 3), ("RENORMALISE", 0)]);
    let mut logits = vec![0.5; 41];
    logits[37] = 1.0;
    let mut routes = Buffer::zeros(4 * 7);
    parts.run(
        "top_experts",
        [1, 1, 1],
        &mut [("logits", &mut Buffer::f32(&logits)), ("routes", &mut routes)],
        &[],
    );
    let words = routes.to_u32();
    assert_eq!(words[..3], [37, 0, 1]);
    let wanted: Vec<f32> = route(&logits[..40], 3, false).iter().map(|route| route.weight).collect();
    let found: Vec<f32> = words[3..6].iter().map(|&word| f32::from_bits(word)).collect();
    assert_close(&found, &wanted, 1e-5, "shares");
}
