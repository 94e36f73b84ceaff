//! Grouped products with the experts' weights: portable, on wgmma and on Metal's tensor operations; and the way back to token
//! order.

use crate::rows::{bf16_results, bf16_rows, in_order, permute, values};
use crate::support::{Buffer, Kernel, Quantised, Random, Value, assert_close};
use lily_kernels::reference::{linear, silu};

/// Rows per expert, and the tiles over them.
struct Routes {
    counts: Vec<usize>,
    token: Vec<u32>,
    tile_map: Vec<u32>,
}

impl Routes {
    /// `counts` rows to each expert, tokens at random, tiles of at most `tile` rows and two empty ones.
    fn new(r: &mut Random, counts: &[usize], tokens: usize, tile: usize) -> Self {
        let (mut tile_map, mut first) = (Vec::new(), 0);
        for (expert, &count) in counts.iter().enumerate() {
            for at in (0..count).step_by(tile) {
                tile_map.extend([expert as u32, (first + at) as u32, (count - at).min(tile) as u32, 0]);
            }
            first += count;
        }
        tile_map.extend([0; 8]);
        let token = (0..first).map(|_| r.word() % tokens as u32).collect();
        Self { counts: counts.to_vec(), token, tile_map }
    }

    fn rows(&self) -> usize {
        self.token.len()
    }

    fn tiles(&self) -> usize {
        self.tile_map.len() / 4
    }

    /// The expert of each sorted row.
    fn experts(&self) -> Vec<usize> {
        self.counts.iter().enumerate().flat_map(|(expert, &count)| vec![expert; count]).collect()
    }
}

/// Which files are under test: constants for both products, outputs per threadgroup, permuted rows.
struct Route<'a> {
    file: &'a str,
    constants: &'a [(&'a str, i64)],
    gate_up_columns: usize,
    down_columns: usize,
    permuted: bool,
}

fn portable<'a>(constants: &'a [(&'a str, i64)]) -> Route<'a> {
    Route { file: "expert_gemm", constants, gate_up_columns: 64, down_columns: 64, permuted: false }
}

/// `routed`: experts, and the most rows that one token is sent to; nothing for one expert of all rows.
fn tensor<'a>(constants: &'a [(&'a str, i64)]) -> Route<'a> {
    Route { file: "expert_gemm_tensor", ..portable(constants) }
}

fn kernel(route: &Route<'_>, width: usize, outputs: usize, routed: Option<(usize, usize)>) -> Kernel {
    let mut constants = vec![("K", width as i64), ("OUTPUTS", outputs as i64)];
    constants.push(("ROUTED", i64::from(routed.is_some())));
    let (experts, per_token) = routed.unwrap_or((1, 1));
    constants.extend([("EXPERTS", experts as i64), ("TOP_K", per_token as i64)]);
    constants.extend_from_slice(route.constants);
    Kernel::new(route.file, &constants)
}

/// `silu(x Wg) * (x Wu)` of one row.
fn gate_up(gate: &Quantised, up: &Quantised, expert: usize, inner: usize, x: &[f32]) -> Vec<f32> {
    let rows = expert * inner..(expert + 1) * inner;
    let g = linear(&gate.slice(rows.start, rows.end), x);
    let u = linear(&up.slice(rows.start, rows.end), x);
    g.iter().zip(u).map(|(g, u)| silu(*g) * u).collect()
}

fn check(
    route: &Route<'_>,
    counts: &[usize],
    tile: usize,
    (hidden, inner): (usize, usize),
    (bits, group): (usize, usize),
) {
    let what = format!("{}, rows {counts:?}, {hidden} x {inner}, {bits} bits", route.file);
    let (tokens, experts) = (9, counts.len());
    let mut r = Random::new((hidden + inner + tile) as u64);
    let routes = Routes::new(&mut r, counts, tokens, tile);
    let mut gate = Quantised::new(&mut r, experts * inner, hidden, bits, group);
    let mut up = Quantised::new(&mut r, experts * inner, hidden, bits, group);
    let (x, plain) = bf16_rows(&mut r, tokens * hidden, 1.0);
    let mut x = if route.permuted { Buffer::bf16(&permute(&plain, hidden)) } else { x };
    let mut h = bf16_results(routes.rows() * inner);
    let params = [("rows", Value::U(tokens))];
    let routed = Some((experts, routes.rows().div_ceil(tokens)));
    kernel(route, hidden, inner, routed).run(
        "expert_gate_up",
        [inner.div_ceil(route.gate_up_columns), routes.tiles(), 1],
        &mut [
            ("x", &mut x),
            ("token", &mut Buffer::u32(&routes.token)),
            ("tile_map", &mut Buffer::u32(&routes.tile_map)),
            ("wg", &mut gate.codes),
            ("gate_scales", &mut gate.scales),
            ("gate_biases", &mut gate.biases),
            ("wu", &mut up.codes),
            ("up_scales", &mut up.scales),
            ("up_biases", &mut up.biases),
            ("h", &mut h),
        ],
        &params,
    );
    let wanted: Vec<f32> = routes
        .experts()
        .iter()
        .zip(&routes.token)
        .flat_map(|(&expert, &token)| {
            gate_up(&gate, &up, expert, inner, &plain[token as usize * hidden..][..hidden])
        })
        .collect();
    let found = if route.permuted { in_order(&values(&h), inner) } else { values(&h) };
    assert_close(&found, &wanted, 6e-3, &format!("{what}: gate and up"));

    let mut down = Quantised::new(&mut r, experts * hidden, inner, bits, group.min(inner));
    let weight = r.vec(routes.rows(), 1.0);
    let mut y = bf16_results(routes.rows() * hidden);
    kernel(route, inner, hidden, routed).run(
        "expert_down",
        [hidden.div_ceil(route.down_columns), routes.tiles(), 1],
        &mut [
            ("h", &mut h),
            ("weight", &mut Buffer::f32(&weight)),
            ("tile_map", &mut Buffer::u32(&routes.tile_map)),
            ("w", &mut down.codes),
            ("scales", &mut down.scales),
            ("biases", &mut down.biases),
            ("y", &mut y),
        ],
        &params,
    );
    let wanted: Vec<f32> = routes
        .experts()
        .iter()
        .enumerate()
        .flat_map(|(row, &expert)| {
            let y = linear(
                &down.slice(expert * hidden, (expert + 1) * hidden),
                &found[row * inner..(row + 1) * inner],
            );
            y.into_iter().map(|y| weight[row] * y).collect::<Vec<f32>>()
        })
        .collect();
    assert_close(&values(&y), &wanted, 6e-3, &format!("{what}: down"));
}

#[test]
fn empty_experts_tile_edges_and_all_rows_to_one() {
    let tile = |tile: i64| [("BM", tile)];
    check(&portable(&tile(16)), &[1, 0, 17, 16], 16, (320, 64), (4, 64));
    check(&portable(&[("BM", 32), ("GROUP", 32)]), &[0, 33, 0], 32, (64, 64), (4, 32));
    check(&portable(&tile(64)), &[0, 0, 70], 64, (128, 64), (4, 64));
}

#[test]
fn other_widths_of_codes() {
    for bits in [2, 3, 5, 6, 8, 16] {
        check(&portable(&[("BM", 16), ("BITS", bits)]), &[3, 2], 16, (128, 64), (bits as usize, 64));
    }
}

#[test]
fn full_model_widths() {
    check(&portable(&[("BM", 16)]), &[2, 1], 16, (2048, 512), (4, 64));
}

#[test]
fn tensor_operations() {
    let tile = |tile: i64| [("BM", tile)];
    check(&tensor(&tile(16)), &[1, 0, 17, 16], 16, (320, 64), (4, 64));
    check(&tensor(&[("BM", 32), ("GROUP", 32)]), &[0, 33, 0], 32, (64, 64), (4, 32));
    check(&tensor(&tile(64)), &[0, 0, 70], 64, (128, 64), (4, 64));
    check(&tensor(&[("BM", 16), ("BITS", 6)]), &[3, 2], 16, (128, 64), (6, 64));
    check(&tensor(&tile(32)), &[2, 1], 32, (2048, 512), (4, 64));
}

#[test]
fn wgmma() {
    let route = Route {
        file: "expert_gemm_wgmma",
        constants: &[],
        gate_up_columns: 64,
        down_columns: 128,
        permuted: true,
    };
    check(&route, &[1, 0, 17], 128, (256, 128), (4, 64));
    check(&route, &[50, 75], 128, (128, 128), (4, 64));
    check(&route, &[129], 128, (128, 128), (4, 64));
    let small = Route { constants: &[("LIMIT", 32), ("SHARED", 24_576)], ..route };
    check(&small, &[1, 0, 17, 33], 32, (256, 128), (4, 64));
}

/// The shared expert: no tile map, no list of tokens.
fn check_one_expert(file: &str, rows: usize, tile: usize, permuted: bool) {
    let (hidden, inner) = (128, 128);
    let mut r = Random::new(rows as u64);
    let mut gate = Quantised::new(&mut r, inner, hidden, 4, 64);
    let mut up = Quantised::new(&mut r, inner, hidden, 4, 64);
    let (x, plain) = bf16_rows(&mut r, rows * hidden, 1.0);
    let mut x = if permuted { Buffer::bf16(&permute(&plain, hidden)) } else { x };
    let mut h = bf16_results(rows * inner);
    let constants: &[(&str, i64)] = if permuted { &[] } else { &[("BM", 16)] };
    let route = Route { file, constants, gate_up_columns: 64, down_columns: 64, permuted };
    kernel(&route, hidden, inner, None).run(
        "expert_gate_up",
        [inner.div_ceil(64), rows.div_ceil(tile), 1],
        &mut [
            ("x", &mut x),
            ("token", &mut Buffer::u32(&[0])),
            ("tile_map", &mut Buffer::u32(&[0; 4])),
            ("wg", &mut gate.codes),
            ("gate_scales", &mut gate.scales),
            ("gate_biases", &mut gate.biases),
            ("wu", &mut up.codes),
            ("up_scales", &mut up.scales),
            ("up_biases", &mut up.biases),
            ("h", &mut h),
        ],
        &[("rows", Value::U(rows))],
    );
    let wanted: Vec<f32> =
        plain.chunks_exact(hidden).flat_map(|x| gate_up(&gate, &up, 0, inner, x)).collect();
    let found = if permuted { in_order(&values(&h), inner) } else { values(&h) };
    assert_close(&found, &wanted, 6e-3, file);
}

#[test]
fn one_expert_for_all_rows() {
    check_one_expert("expert_gemm", 17, 16, false);
}

#[test]
fn one_expert_on_tensor_operations() {
    check_one_expert("expert_gemm_tensor", 17, 16, false);
}

#[test]
fn one_expert_on_wgmma() {
    check_one_expert("expert_gemm_wgmma", 130, 128, true);
}

#[test]
fn results_return_to_their_rows() {
    for (rows, dim) in [(3, 320), (1, 64), (2, 2048)] {
        let mut r = Random::new(dim as u64);
        let slots = rows * 8;
        let (mut y, plain) = bf16_rows(&mut r, slots * dim, 1.0);
        // Some permutation: 5 has no factor in common with 8 n for these n.
        let place: Vec<u32> = (0..slots).map(|slot| ((slot * 5 + 3) % slots) as u32).collect();
        let before = r.vec(rows * dim, 1.0);
        let mut x = Buffer::f32(&before);
        Kernel::new("combine_experts", &[("DIM", dim as i64), ("TOP_K", 8)]).run(
            "combine_experts",
            [rows, 1, 1],
            &mut [("y", &mut y), ("place", &mut Buffer::u32(&place)), ("x", &mut x)],
            &[("rows", Value::U(rows))],
        );
        let wanted: Vec<f32> = (0..rows * dim)
            .map(|i| {
                let (row, k) = (i / dim, i % dim);
                let parts = (0..8).map(|slot| plain[place[row * 8 + slot] as usize * dim + k]);
                before[i] + parts.sum::<f32>()
            })
            .collect();
        assert_close(&x.to_f32(), &wanted, 1e-6, "combined");
    }
}
