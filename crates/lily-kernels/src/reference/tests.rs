//! The mixers, the mixture of experts and the whole model on small random weights.

use super::*;

/// The same numbers every time, in [-1, 1).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn vec(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.next()).collect()
    }

    fn gain(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| 1.0 + 0.2 * self.next()).collect()
    }

    fn rows(&mut self, rows: usize, cols: usize) -> Rows {
        let scale = (3.0 / cols as f32).sqrt();
        Rows::new(rows, cols, (0..rows * cols).map(|_| scale * self.next()).collect())
    }

    fn boxed(&mut self, rows: usize, cols: usize) -> Box<dyn RowSource> {
        Box::new(self.rows(rows, cols))
    }
}

const HIDDEN: usize = 24;
const VOCAB: usize = 40;

fn gdn_shape() -> GatedDeltaNetShape {
    GatedDeltaNetShape { key_heads: 2, value_heads: 4, key_dim: 8, value_dim: 6, conv_width: 4, eps: 1e-6 }
}

fn attention_shape() -> AttentionShape {
    let rotary = Rotary { dim: 4, theta: 1e7 };
    AttentionShape { heads: 4, kv_heads: 2, head_dim: 16, rotary, eps: 1e-6 }
}

fn gdn_weights(r: &mut Random) -> GatedDeltaNetWeights {
    let s = gdn_shape();
    let values = s.value_heads * s.value_dim;
    GatedDeltaNetWeights {
        in_proj_qkv: r.boxed(s.channels(), HIDDEN),
        in_proj_z: r.boxed(values, HIDDEN),
        in_proj_b: r.boxed(s.value_heads, HIDDEN),
        in_proj_a: r.boxed(s.value_heads, HIDDEN),
        out_proj: r.boxed(HIDDEN, values),
        conv1d: r.vec(s.channels() * s.conv_width),
        a_log: r.vec(s.value_heads),
        dt_bias: r.gain(s.value_heads),
        norm: r.gain(s.value_dim),
    }
}

fn attention_weights(r: &mut Random) -> AttentionWeights {
    let s = attention_shape();
    AttentionWeights {
        q_proj: r.boxed(s.heads * 2 * s.head_dim, HIDDEN),
        k_proj: r.boxed(s.kv_heads * s.head_dim, HIDDEN),
        v_proj: r.boxed(s.kv_heads * s.head_dim, HIDDEN),
        o_proj: r.boxed(HIDDEN, s.heads * s.head_dim),
        q_norm: r.gain(s.head_dim),
        k_norm: r.gain(s.head_dim),
    }
}

fn moe_shape() -> MoeShape {
    MoeShape { experts: 6, experts_per_token: 3, renormalise: true }
}

fn expert(r: &mut Random, inner: usize) -> ExpertWeights {
    ExpertWeights {
        gate_proj: r.boxed(inner, HIDDEN),
        up_proj: r.boxed(inner, HIDDEN),
        down_proj: r.boxed(HIDDEN, inner),
    }
}

fn moe_weights(r: &mut Random) -> MoeWeights {
    MoeWeights {
        gate: r.boxed(6, HIDDEN),
        experts: (0..6).map(|_| expert(r, 10)).collect(),
        shared_expert: expert(r, 12),
        shared_expert_gate: r.boxed(1, HIDDEN),
    }
}

fn model() -> Model {
    let r = &mut Random(7);
    let layers = (0..4).map(|i| Layer {
        input_layernorm: r.gain(HIDDEN),
        post_attention_layernorm: r.gain(HIDDEN),
        mixer: match i {
            3 => Mixer::Attention(attention_weights(r)),
            _ => Mixer::GatedDeltaNet(gdn_weights(r)),
        },
        moe: moe_weights(r),
    });
    let layers = layers.collect();
    Model {
        shape: Shape {
            hidden: HIDDEN,
            eps: 1e-6,
            attention: attention_shape(),
            gated_delta_net: gdn_shape(),
            moe: moe_shape(),
        },
        embed_tokens: r.boxed(VOCAB, HIDDEN),
        layers,
        norm: r.gain(HIDDEN),
        lm_head: r.boxed(VOCAB, HIDDEN),
    }
}

fn assert_close(found: &[f32], wanted: &[f32], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!(
            (found - wanted).abs() <= 1e-5 * (1.0 + wanted.abs()),
            "{what}: element {i} is {found}, not {wanted}"
        );
    }
}

/// The recurrent outputs before `out_proj`, per head, with one row of `in_proj_qkv` changed or not.
fn head_outputs(changed_row: Option<usize>) -> Vec<f32> {
    let r = &mut Random(3);
    let s = gdn_shape();
    let mut w = gdn_weights(r);
    let values = s.value_heads * s.value_dim;
    let mut qkv = r.rows(s.channels(), HIDDEN);
    if let Some(row) = changed_row {
        qkv.values_mut()[row * HIDDEN..(row + 1) * HIDDEN].fill(1.0);
    }
    w.in_proj_qkv = Box::new(qkv);
    // The identity, so that heads stay apart: HIDDEN == value_heads * value_dim.
    assert_eq!(values, HIDDEN);
    let identity = (0..HIDDEN * HIDDEN).map(|i| f32::from(i / HIDDEN == i % HIDDEN)).collect();
    w.out_proj = Box::new(Rows::new(HIDDEN, HIDDEN, identity));
    gated_delta_net(&s, &w, &mut s.new_state(), &r.vec(3 * HIDDEN))
}

/// CKPT-18: the rows of `in_proj_qkv` are all q, then all k, then all v; value head `h` uses key head `h / 2`. One row
/// changed moves exactly the heads that read it.
#[test]
fn qkv_is_flat_by_type_and_two_value_heads_share_a_key_head() {
    let s = gdn_shape();
    let base = head_outputs(None);
    for row in 0..s.channels() {
        let keys = s.key_heads * s.key_dim;
        let wanted: Vec<usize> = match row {
            _ if row < 2 * keys => {
                let key_head = row % keys / s.key_dim;
                vec![2 * key_head, 2 * key_head + 1]
            }
            _ => vec![(row - 2 * keys) / s.value_dim],
        };
        let changed = head_outputs(Some(row));
        let moved = |h: usize| {
            let head =
                |t: usize| (t * s.value_heads + h) * s.value_dim..(t * s.value_heads + h + 1) * s.value_dim;
            (0..3).any(|t| base[head(t)] != changed[head(t)])
        };
        let moved: Vec<usize> = (0..s.value_heads).filter(|&h| moved(h)).collect();
        assert_eq!(moved, wanted, "row {row} of in_proj_qkv");
    }
}

/// The Gated DeltaNet mixer again, in f64 and written out as in docs/model.md, token by token.
#[test]
fn gated_delta_net_is_the_formula() {
    let (r, s) = (&mut Random(11), gdn_shape());
    let w = gdn_weights(r);
    let x = r.vec(6 * HIDDEN);
    let found = gated_delta_net(&s, &w, &mut s.new_state(), &x);

    let project = |w: &dyn RowSource, x: &[f64]| -> Vec<f64> {
        let mut row = vec![0.0; w.cols()];
        (0..w.rows())
            .map(|i| {
                w.row(i, &mut row);
                row.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum()
            })
            .collect()
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let silu = |x: f64| x * sigmoid(x);
    let (dk, dv, keys) = (s.key_dim, s.value_dim, s.key_heads * s.key_dim);
    let mut inputs: Vec<Vec<f64>> = vec![vec![0.0; s.channels()]; 3];
    let mut memory = vec![vec![vec![0.0_f64; dk]; dv]; s.value_heads];
    for (t, x) in x.chunks_exact(HIDDEN).enumerate() {
        let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        inputs.push(project(&*w.in_proj_qkv, &x));
        let (z, a, b) = (project(&*w.in_proj_z, &x), project(&*w.in_proj_a, &x), project(&*w.in_proj_b, &x));
        let u: Vec<f64> = (0..s.channels())
            .map(|c| silu((0..4).map(|j| f64::from(w.conv1d[c * 4 + j]) * inputs[t + j][c]).sum()))
            .collect();
        let norm = |v: &[f64]| (v.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        let mut out = Vec::new();
        for h in 0..s.value_heads {
            let q = &u[h / 2 * dk..][..dk];
            let k = &u[keys + h / 2 * dk..][..dk];
            let v = &u[2 * keys + h * dv..][..dv];
            let (nq, nk) = (norm(q) * (dk as f64).sqrt(), norm(k));
            let g = -f64::from(w.a_log[h]).exp() * (a[h] + f64::from(w.dt_bias[h])).exp().ln_1p();
            let o: Vec<f64> = (0..dv)
                .map(|i| {
                    let row = &mut memory[h][i];
                    row.iter_mut().for_each(|s| *s *= g.exp());
                    let read: f64 = row.iter().zip(k).map(|(s, k)| s * k / nk).sum();
                    let d = sigmoid(b[h]) * (v[i] - read);
                    row.iter_mut().zip(k).for_each(|(s, k)| *s += d * k / nk);
                    row.iter().zip(q).map(|(s, q)| s * q / nq).sum()
                })
                .collect();
            let rms = (o.iter().map(|o| o * o).sum::<f64>() / dv as f64 + f64::from(s.eps)).sqrt();
            out.extend((0..dv).map(|i| o[i] / rms * f64::from(w.norm[i]) * silu(z[h * dv + i])));
        }
        let wanted: Vec<f32> = project(&*w.out_proj, &out).into_iter().map(|y| y as f32).collect();
        assert_close(&found[t * HIDDEN..(t + 1) * HIDDEN], &wanted, "gated delta net");
    }
}

/// Attention again, in f64 and head by head.
#[test]
fn attention_is_the_formula() {
    let (r, s) = (&mut Random(5), attention_shape());
    let w = attention_weights(r);
    let tokens = 5;
    let x = r.vec(tokens * HIDDEN);
    let mut kv = KvRows::default();
    let found = attention(&s, &w, &mut kv, &x);

    let head = |w: &dyn RowSource, x: &[f32], from: usize| -> Vec<f32> {
        linear(w, x)[from..from + s.head_dim].to_vec()
    };
    let rotated = |mut v: Vec<f32>, gain: &[f32], position: usize| {
        rms_norm(&mut v, gain, s.eps);
        s.rotary.rotate(&mut v, position);
        v
    };
    let x = |t: usize| &x[t * HIDDEN..(t + 1) * HIDDEN];
    for t in 0..tokens {
        let mut out = Vec::new();
        for h in 0..s.heads {
            // Per head its query, then its gate; two query heads share a kv head.
            let query = rotated(head(&*w.q_proj, x(t), 2 * h * s.head_dim), &w.q_norm, t);
            let gate = head(&*w.q_proj, x(t), (2 * h + 1) * s.head_dim);
            let kv_from = h / 2 * s.head_dim;
            let scores: Vec<f64> = (0..=t)
                .map(|p| {
                    let key = rotated(head(&*w.k_proj, x(p), kv_from), &w.k_norm, p);
                    let dot: f64 = query.iter().zip(&key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                    (dot / (s.head_dim as f64).sqrt()).exp()
                })
                .collect();
            let sum: f64 = scores.iter().sum();
            out.extend((0..s.head_dim).map(|i| {
                let o: f64 =
                    (0..=t).map(|p| scores[p] / sum * f64::from(head(&*w.v_proj, x(p), kv_from)[i])).sum();
                o as f32 * sigmoid(gate[i])
            }));
        }
        assert_close(&found[t * HIDDEN..(t + 1) * HIDDEN], &linear(&*w.o_proj, &out), "attention");
    }
    assert_eq!(kv.keys.len(), tokens * s.kv_heads * s.head_dim);
}

#[test]
fn the_mixture_is_its_experts_and_the_shared_one() {
    let r = &mut Random(13);
    let w = moe_weights(r);
    let x = r.vec(7 * HIDDEN);
    let found = moe(&moe_shape(), &w, &x, (0, 0), &mut NoProbe);
    for (t, x) in x.chunks_exact(HIDDEN).enumerate() {
        let mut wanted = vec![0.0; HIDDEN];
        for route in route(&linear(&*w.gate, x), 3, true) {
            let e = &w.experts[route.expert];
            let inner: Vec<f32> = linear(&*e.gate_proj, x)
                .iter()
                .zip(linear(&*e.up_proj, x))
                .map(|(gate, up)| silu(*gate) * up)
                .collect();
            let y = linear(&*e.down_proj, &inner);
            wanted.iter_mut().zip(y).for_each(|(w, y)| *w += route.weight * y);
        }
        let gate = sigmoid(linear(&*w.shared_expert_gate, x)[0]);
        let shared = w.shared_expert.apply(x);
        wanted.iter_mut().zip(shared).for_each(|(w, y)| *w += gate * y);
        assert_close(&found[t * HIDDEN..(t + 1) * HIDDEN], &wanted, "mixture");
    }
}

/// Records router logits and forces the experts that it is given.
#[derive(Default)]
struct Recorder {
    force: Option<Vec<usize>>,
    heard: Vec<(usize, usize)>,
    outputs: Vec<(usize, usize, usize)>,
}

impl Probe for Recorder {
    fn forced_experts(&mut self, _: usize, _: usize) -> Option<&[usize]> {
        self.force.as_deref()
    }

    fn router_logits(&mut self, layer: usize, position: usize, logits: &[f32]) {
        assert_eq!(logits.len(), 6);
        self.heard.push((layer, position));
    }

    fn layer_output(&mut self, layer: usize, first: usize, hidden: &[f32]) {
        self.outputs.push((layer, first, hidden.len() / HIDDEN));
    }
}

#[test]
fn a_probe_hears_every_layer_and_steers_the_experts() {
    let model = model();
    let mut state = model.new_state();
    let mut recorder = Recorder::default();
    let own = model.forward(&mut state, &[1, 2], &mut recorder);
    model.forward(&mut state, &[3], &mut recorder);
    assert_eq!(
        recorder.outputs,
        [(0, 0, 2), (1, 0, 2), (2, 0, 2), (3, 0, 2), (0, 2, 1), (1, 2, 1), (2, 2, 1), (3, 2, 1)]
    );
    assert_eq!(recorder.heard[..4], [(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(recorder.heard.len(), 12);
    recorder.force = Some(vec![0, 1, 2]);
    assert!(
        model.forward(&mut model.new_state(), &[1, 2], &mut recorder) != own,
        "other experts, other output"
    );
}

/// NUM-09 on the reference itself: however a prompt is cut, the same bits come out, and the same state stays behind.
#[test]
fn prefill_in_any_chunks_is_single_steps() {
    let model = model();
    let tokens: Vec<u32> = (0..129).map(|i| (i * i + 3 * i) % VOCAB as u32).collect();
    let mut state = model.new_state();
    let mut steps = Vec::new();
    let mut states = vec![state.clone()];
    for &token in &tokens {
        steps.extend(model.forward(&mut state, &[token], &mut NoProbe));
        states.push(state.clone());
    }
    assert!(steps.iter().all(|x| x.is_finite()));
    for length in (1..=20).chain([63, 64, 65, 127, 128, 129]) {
        let mut state = model.new_state();
        let whole = model.forward(&mut state, &tokens[..length], &mut NoProbe);
        assert!(whole == steps[..length * HIDDEN], "{length} tokens at once");
        assert!(state == states[length], "the state after {length} tokens");
        assert_eq!(state.position, length);
    }
    for chunk in [2, 3, 7, 64] {
        let mut state = model.new_state();
        let parts: Vec<f32> =
            tokens.chunks(chunk).flat_map(|part| model.forward(&mut state, part, &mut NoProbe)).collect();
        assert!(parts == steps && state == states[129], "chunks of {chunk}");
    }
    assert_eq!(
        states[2].bytes(),
        states[1].bytes() + 2 * 2 * 16 * 4,
        "one KV row of two heads, twice, in f32"
    );
}

#[test]
fn logits_are_the_head_of_the_normed_stream() {
    let model = model();
    let x = Random(17).vec(2 * HIDDEN);
    let found = model.logits(&x);
    let mut second = x[HIDDEN..].to_vec();
    rms_norm(&mut second, &model.norm, 1e-6);
    assert_eq!(found.len(), 2 * VOCAB);
    assert!(found[VOCAB..] == linear(&*model.lm_head, &second));
}
