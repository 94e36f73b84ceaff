//! Attention of one token over the cache, its routes and both sides of their block edges.

use crate::support::{Buffer, Kernel, Random, Value, assert_close, bf16, from_bf16};
use lily_kernels::reference::{KvRows, Rotary, attend, rms_norm, sigmoid};
use lily_kernels::rotary_table;

const EPS: f32 = 1e-6;
const DIM: usize = 256;
const ROTARY: Rotary = Rotary { dim: 64, theta: 1e7 };
const SCALE: f32 = 0.0625;
const BOUND: f64 = 1e-4;

struct Case {
    heads: usize,
    kv_heads: usize,
    position: usize,
    capacity: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    q_gain: Vec<f32>,
    k_gain: Vec<f32>,
    /// `[kv head][capacity][256]`, NaN from the position on.
    keys: Vec<u16>,
    values: Vec<u16>,
}

impl Case {
    fn new(heads: usize, kv_heads: usize, position: usize) -> Self {
        let mut r = Random::new(position as u64 + 1);
        let capacity = position + 3;
        let cache = |r: &mut Random| -> Vec<u16> {
            let row = |i: usize| i / DIM % capacity < position;
            (0..kv_heads * capacity * DIM).map(|i| if row(i) { bf16(r.float()) } else { 0x7fc0 }).collect()
        };
        let (keys, values) = (cache(&mut r), cache(&mut r));
        Self {
            heads,
            kv_heads,
            position,
            capacity,
            q: r.vec(heads * 2 * DIM, 1.0),
            k: r.vec(kv_heads * DIM, 1.0),
            v: r.vec(kv_heads * DIM, 1.0),
            q_gain: r.gain(DIM).iter().map(|gain| 2.0 * gain).collect(),
            k_gain: r.gain(DIM),
            keys,
            values,
        }
    }

    fn rotated(&self, head: &[f32], gain: &[f32]) -> Vec<f32> {
        let mut head = head.to_vec();
        rms_norm(&mut head, gain, EPS);
        ROTARY.rotate(&mut head, self.position);
        head
    }

    /// Output after the gate, and the newest rows of the cache.
    fn wanted(&self) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let round = |x: &f32| from_bf16(bf16(*x));
        let newest_keys: Vec<f32> = self
            .k
            .chunks_exact(DIM)
            .flat_map(|head| self.rotated(head, &self.k_gain).iter().map(round).collect::<Vec<_>>())
            .collect();
        let newest_values: Vec<f32> = self.v.iter().map(round).collect();
        // The reference's rows are [position][kv head][256].
        let mut kv = KvRows::default();
        for p in 0..self.position {
            for h in 0..self.kv_heads {
                let at = (h * self.capacity + p) * DIM;
                kv.keys.extend(self.keys[at..at + DIM].iter().map(|&word| from_bf16(word)));
                kv.values.extend(self.values[at..at + DIM].iter().map(|&word| from_bf16(word)));
            }
        }
        kv.keys.extend(&newest_keys);
        kv.values.extend(&newest_values);
        let mut out = Vec::new();
        for (h, head) in self.q.chunks_exact(2 * DIM).enumerate() {
            let (query, gate) = head.split_at(DIM);
            let mut o = vec![0.0; DIM];
            let query = self.rotated(query, &self.q_gain);
            attend(&query, &kv, self.kv_heads, h / (self.heads / self.kv_heads), self.position + 1, &mut o);
            out.extend(o.iter().zip(gate).map(|(o, gate)| o * sigmoid(*gate)));
        }
        (out, newest_keys, newest_values)
    }

    fn step(&self) -> Buffer {
        Buffer::u32(&[0, self.position as u32, 0, 0, 0, 0, 0, 0])
    }

    fn rotary() -> Buffer {
        Buffer::u32(&rotary_table(ROTARY.dim, ROTARY.theta))
    }

    fn heads(&self) -> [(&'static str, i64); 2] {
        [("HEADS", self.heads as i64), ("KV_HEADS", self.kv_heads as i64)]
    }

    /// Row `position` of each head of a cache.
    fn newest(&self, cache: &Buffer) -> Vec<f32> {
        let words = cache.to_u16();
        let row = |h: usize| (h * self.capacity + self.position) * DIM;
        (0..self.kv_heads)
            .flat_map(|h| words[row(h)..row(h) + DIM].iter().map(|&w| from_bf16(w)).collect::<Vec<_>>())
            .collect()
    }

    fn combine(&self, block: usize, partial: &mut Buffer, ml: &mut Buffer) -> Vec<f32> {
        let kernel = Kernel::new("attention_combine", &[self.heads()[0], ("BLOCK", block as i64)]);
        let mut y = Buffer::floats(self.heads * DIM);
        let blocks = partial.to_u32().len() / (self.heads * DIM);
        kernel.run(
            "attention_combine",
            [self.heads, 4, 1],
            &mut [
                ("partial", partial),
                ("partial_ml", ml),
                ("q", &mut Buffer::f32(&self.q)),
                ("step", &mut self.step()),
                ("next", &mut Buffer::u32(&[0; 40])),
                ("y", &mut y),
            ],
            &[("ahead", Value::U(40)), ("blocks", Value::U(blocks))],
        );
        y.to_f32()
    }

    fn check(&self, found: &[f32], keys: &Buffer, values: &Buffer, bound: f64, what: &str) {
        let (wanted, newest_keys, newest_values) = self.wanted();
        let name = format!("{what}, {} heads, position {}", self.heads, self.position);
        assert_close(found, &wanted, bound, &name);
        assert_close(&self.newest(keys), &newest_keys, 3e-3, &format!("{name}: key"));
        assert_eq!(self.newest(values), newest_values, "{name}: value");
    }
}

/// Blocks more than the context has, as a launch for a longer context would have them.
const SPARE: usize = 2;

fn fused(case: &Case, constants: &[(&str, i64)], pack: usize, block: usize) {
    let mut all = case.heads().to_vec();
    all.extend([("PACK", pack as i64), ("BLOCK", block as i64)]);
    all.extend(constants);
    blocks_of("attention_step", case, &all, pack, block);
}

fn blocks_of(file: &str, case: &Case, all: &[(&str, i64)], pack: usize, block: usize) {
    let kernel = Kernel::new(file, all);
    let blocks = case.position / block + 1 + SPARE;
    let (mut partial, mut ml) =
        (Buffer::floats(blocks * case.heads * DIM), Buffer::floats(blocks * case.heads * 2));
    let (mut keys, mut values) = (Buffer::u16(&case.keys), Buffer::u16(&case.values));
    kernel.run(
        "attention_step",
        [blocks, case.heads / pack, 1],
        &mut [
            ("q", &mut Buffer::f32(&case.q)),
            ("k", &mut Buffer::f32(&case.k)),
            ("v", &mut Buffer::f32(&case.v)),
            ("q_gain", &mut Buffer::f32(&case.q_gain)),
            ("k_gain", &mut Buffer::f32(&case.k_gain)),
            ("rotary", &mut Case::rotary()),
            ("step", &mut case.step()),
            ("keys", &mut keys),
            ("values", &mut values),
            ("partial", &mut partial),
            ("partial_ml", &mut ml),
        ],
        &[("capacity", Value::U(case.capacity)), ("scale", Value::F(SCALE)), ("eps", Value::F(EPS))],
    );
    let found = case.combine(block, &mut partial, &mut ml);
    // On tensor cores queries and shares are bf16.
    let bound = if file == "attention_tensor" { 5e-3 } else { BOUND };
    case.check(&found, &keys, &values, bound, &format!("{file} {all:?}"));
}

#[test]
fn general_blocks_of_eight_heads() {
    for position in [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 200] {
        fused(&Case::new(8, 1, position), &[], 8, 64);
    }
}

#[test]
fn the_full_models_heads() {
    for position in [5, 64, 150] {
        fused(&Case::new(16, 2, position), &[], 8, 64);
        fused(&Case::new(16, 2, position), &[("POSITIONS", 8)], 4, 64);
    }
}

#[test]
fn fixed_blocks_on_both_sides_of_an_edge() {
    for position in [0, 63, 64, 65, 191, 192, 193] {
        fused(&Case::new(8, 1, position), &[("FIXED", 1)], 8, 64);
    }
}

/// The override, its warp instructions emulated.
#[test]
fn tensor_cores() {
    for (heads, kv_heads, position) in
        [(8, 1, 0), (8, 1, 1), (16, 2, 15), (8, 1, 63), (8, 1, 64), (16, 2, 200)]
    {
        let case = Case::new(heads, kv_heads, position);
        let mut all = case.heads().to_vec();
        all.extend([("BLOCK", 64), ("SIMDGROUPS", 2)]);
        blocks_of("attention_tensor", &case, &all, 8, 64);
    }
}

#[test]
fn without_packing() {
    for position in [0, 40, 64, 99] {
        fused(&Case::new(4, 2, position), &[], 1, 64);
        fused(&Case::new(4, 2, position), &[("SIMDGROUPS", 2)], 2, 64);
    }
}

/// Norm, rotation and cache writes as launches of their own, then attention that finds all in the cache.
#[test]
fn prepared_and_strided() {
    for position in [0, 1, 63, 64, 130] {
        let case = Case::new(8, 2, position);
        let block = 64;
        let parts = Kernel::new("qk_step", &case.heads());
        let params = [("capacity", Value::U(case.capacity)), ("eps", Value::F(EPS))];
        let (mut keys, mut values) = (Buffer::u16(&case.keys), Buffer::u16(&case.values));
        let mut q = Buffer::floats(case.heads * DIM);
        parts.run(
            "q_norm_rotary",
            [case.heads, 1, 1],
            &mut [
                ("q", &mut Buffer::f32(&case.q)),
                ("gain", &mut Buffer::f32(&case.q_gain)),
                ("rotary", &mut Case::rotary()),
                ("step", &mut case.step()),
                ("y", &mut q),
            ],
            &params,
        );
        parts.run(
            "k_norm_rotary",
            [case.kv_heads, 1, 1],
            &mut [
                ("k", &mut Buffer::f32(&case.k)),
                ("gain", &mut Buffer::f32(&case.k_gain)),
                ("rotary", &mut Case::rotary()),
                ("step", &mut case.step()),
                ("keys", &mut keys),
            ],
            &params,
        );
        parts.run(
            "v_write",
            [case.kv_heads, 1, 1],
            &mut [("v", &mut Buffer::f32(&case.v)), ("step", &mut case.step()), ("values", &mut values)],
            &params,
        );
        let blocks = position / block + 1;
        let partials =
            || (Buffer::floats(blocks * case.heads * DIM), Buffer::floats(blocks * case.heads * 2));

        let mut all = case.heads().to_vec();
        all.extend([("PACK", 4), ("BLOCK", 64), ("PREPARED", 1)]);
        let kernel = Kernel::new("attention_step", &all);
        let (mut partial, mut ml) = partials();
        kernel.run(
            "attention_step",
            [blocks, case.heads / 4, 1],
            &mut [
                ("q", &mut q),
                ("k", &mut Buffer::f32(&case.k)),
                ("v", &mut Buffer::f32(&case.v)),
                ("q_gain", &mut Buffer::f32(&case.q_gain)),
                ("k_gain", &mut Buffer::f32(&case.k_gain)),
                ("rotary", &mut Case::rotary()),
                ("step", &mut case.step()),
                ("keys", &mut keys),
                ("values", &mut values),
                ("partial", &mut partial),
                ("partial_ml", &mut ml),
            ],
            &[("capacity", Value::U(case.capacity)), ("scale", Value::F(SCALE)), ("eps", Value::F(EPS))],
        );
        let found = case.combine(block, &mut partial, &mut ml);
        case.check(&found, &keys, &values, BOUND, "prepared");

        let mut all = case.heads().to_vec();
        // One simdgroup, so that it goes round twice.
        all.extend([("BLOCK", 64), ("SIMDGROUPS", 1)]);
        let kernel = Kernel::new("attention_strided", &all);
        let (mut partial, mut ml) = partials();
        kernel.run(
            "attention_strided",
            [blocks, case.heads, 1],
            &mut [
                ("q", &mut q),
                ("step", &mut case.step()),
                ("keys", &mut keys),
                ("values", &mut values),
                ("partial", &mut partial),
                ("partial_ml", &mut ml),
            ],
            &[("capacity", Value::U(case.capacity)), ("scale", Value::F(SCALE))],
        );
        let found = case.combine(block, &mut partial, &mut ml);
        case.check(&found, &keys, &values, BOUND, "strided");
    }
}
