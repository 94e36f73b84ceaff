//! The step of Gated DeltaNet, fused and in parts, over enough tokens that the ring of the convolution comes round.

use crate::support::{Buffer, Kernel, Random, Value, assert_close};
use lily_kernels::reference::{causal_conv, decay, gated_delta_rule, gated_norm, l2_norm, sigmoid};

const EPS: f32 = 1e-6;
const D: usize = 128;
const TAPS: usize = 4;
const TOKENS: usize = 6;

struct Case {
    key_heads: usize,
    value_heads: usize,
    qkv: Vec<Vec<f32>>,
    a: Vec<Vec<f32>>,
    b: Vec<Vec<f32>>,
    conv: Vec<f32>,
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
    state: Vec<f32>,
}

impl Case {
    fn new(key_heads: usize, value_heads: usize) -> Self {
        let mut r = Random::new(value_heads as u64);
        let channels = (2 * key_heads + value_heads) * D;
        Self {
            key_heads,
            value_heads,
            qkv: (0..TOKENS).map(|_| r.vec(channels, 1.0)).collect(),
            a: (0..TOKENS).map(|_| r.vec(value_heads, 2.0)).collect(),
            b: (0..TOKENS).map(|_| r.vec(value_heads, 2.0)).collect(),
            conv: r.vec(channels * TAPS, 0.7),
            a_log: r.vec(value_heads, 1.0),
            dt_bias: r.vec(value_heads, 1.0),
            state: r.vec(value_heads * D * D, 0.5),
        }
    }

    fn channels(&self) -> usize {
        self.conv.len() / TAPS
    }

    fn constants(&self) -> [(&'static str, i64); 2] {
        [("KEY_HEADS", self.key_heads as i64), ("VALUE_HEADS", self.value_heads as i64)]
    }

    /// Read-outs of each token, and the state after them.
    fn wanted(&self) -> (Vec<Vec<f32>>, Vec<f32>) {
        let keys = self.key_heads * D;
        let mut state = self.state.clone();
        let mut window = vec![0.0; (TAPS - 1) * self.channels()];
        let mut outs = Vec::new();
        for t in 0..TOKENS {
            let mut u = self.qkv[t].clone();
            causal_conv(&mut window, &self.conv, TAPS, &mut u);
            for (head, qk) in u[..2 * keys].chunks_exact_mut(D).enumerate() {
                l2_norm(qk, EPS);
                if head < self.key_heads {
                    qk.iter_mut().for_each(|q| *q *= (D as f32).powf(-0.5));
                }
            }
            let mut out = vec![0.0; self.value_heads * D];
            for (h, (state, o)) in state.chunks_exact_mut(D * D).zip(out.chunks_exact_mut(D)).enumerate() {
                let hk = h / (self.value_heads / self.key_heads);
                let (q, k) = (&u[hk * D..][..D], &u[keys + hk * D..][..D]);
                let v = &u[2 * keys + h * D..][..D];
                let g = decay(self.a[t][h], self.a_log[h], self.dt_bias[h]);
                gated_delta_rule(state, (q, k, v), g, sigmoid(self.b[t][h]), o);
            }
            outs.push(out);
        }
        (outs, state)
    }
}

fn step_at(position: usize) -> Buffer {
    Buffer::u32(&[0, position as u32, 0, 0, 0, 0, 0, 0])
}

#[test]
fn a_fused_step() {
    for (key_heads, value_heads, simdgroups, columns) in
        [(1, 2, 4, 4), (2, 4, 2, 8), (2, 2, 4, 2), (1, 4, 8, 16)]
    {
        let case = Case::new(key_heads, value_heads);
        let [heads, values] = case.constants();
        let kernel = Kernel::new(
            "gdn_step",
            &[heads, values, ("SIMDGROUPS", simdgroups as i64), ("COLUMNS", columns as i64)],
        );
        let (outs, state_after) = case.wanted();
        let mut ring = Buffer::zeros(4 * TAPS * case.channels());
        let mut state = Buffer::f32(&case.state);
        for (t, wanted) in outs.iter().enumerate() {
            let mut o = Buffer::floats(value_heads * D);
            kernel.run(
                "gdn_step",
                [D / (simdgroups * columns), value_heads, 1],
                &mut [
                    ("qkv", &mut Buffer::f32(&case.qkv[t])),
                    ("a", &mut Buffer::f32(&case.a[t])),
                    ("b", &mut Buffer::f32(&case.b[t])),
                    ("conv", &mut Buffer::f32(&case.conv)),
                    ("a_log", &mut Buffer::f32(&case.a_log)),
                    ("dt_bias", &mut Buffer::f32(&case.dt_bias)),
                    ("step", &mut step_at(t)),
                    ("next", &mut Buffer::u32(&[0; 77])),
                    ("ring", &mut ring),
                    ("state", &mut state),
                    ("o", &mut o),
                ],
                &[("eps", Value::F(EPS)), ("ahead", Value::U(77))],
            );
            assert_close(&o.to_f32(), wanted, 2e-5, &format!("{value_heads} heads, token {t}"));
        }
        assert_close(&state.to_f32(), &state_after, 2e-5, "state");
        let ring = ring.to_f32();
        for t in TOKENS - TAPS..TOKENS {
            let slot = &ring[t % TAPS * case.channels()..][..case.channels()];
            assert_eq!(slot, case.qkv[t], "the ring keeps what came in");
        }
    }
}

#[test]
fn the_same_in_parts() {
    let case = Case::new(2, 4);
    let kernel = Kernel::new("gdn_parts", &case.constants());
    let (outs, state_after) = case.wanted();
    let channels = case.channels();
    let mut ring = Buffer::zeros(4 * TAPS * channels);
    let mut state = Buffer::f32(&case.state);
    let mut r = Random::new(9);
    let (z, gain) = (r.vec(4 * D, 2.0), r.gain(D));
    for (t, wanted) in outs.iter().enumerate() {
        let (mut u, mut gates) = (Buffer::floats(channels), Buffer::floats(8));
        let (mut o, mut y) = (Buffer::floats(4 * D), Buffer::floats(4 * D));
        kernel.run(
            "gdn_conv_step",
            [channels.div_ceil(256), 1, 1],
            &mut [
                ("qkv", &mut Buffer::f32(&case.qkv[t])),
                ("conv", &mut Buffer::f32(&case.conv)),
                ("step", &mut step_at(t)),
                ("ring", &mut ring),
                ("u", &mut u),
            ],
            &[],
        );
        kernel.run(
            "gdn_gates",
            [1, 1, 1],
            &mut [
                ("a", &mut Buffer::f32(&case.a[t])),
                ("b", &mut Buffer::f32(&case.b[t])),
                ("a_log", &mut Buffer::f32(&case.a_log)),
                ("dt_bias", &mut Buffer::f32(&case.dt_bias)),
                ("gates", &mut gates),
            ],
            &[],
        );
        kernel.run("gdn_qk_norm", [4, 1, 1], &mut [("u", &mut u)], &[("eps", Value::F(EPS))]);
        kernel.run(
            "gdn_state_step",
            [D / 4, 4, 1],
            &mut [("u", &mut u), ("gates", &mut gates), ("state", &mut state), ("o", &mut o)],
            &[],
        );
        assert_close(&o.to_f32(), wanted, 2e-5, &format!("token {t}"));
        kernel.run(
            "gdn_gated_norm",
            [4, 1, 1],
            &mut [
                ("o", &mut o),
                ("z", &mut Buffer::f32(&z)),
                ("gain", &mut Buffer::f32(&gain)),
                ("y", &mut y),
            ],
            &[("eps", Value::F(EPS))],
        );
        let mut wanted = wanted.clone();
        for (o, z) in wanted.chunks_exact_mut(D).zip(z.chunks_exact(D)) {
            gated_norm(o, &gain, z, EPS);
        }
        assert_close(&y.to_f32(), &wanted, 2e-5, "gated norm");
    }
    assert_close(&state.to_f32(), &state_after, 2e-5, "state");
}
