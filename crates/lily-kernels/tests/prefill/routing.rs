//! Top-k, counts, scan, scatter: exact whole numbers.

use crate::support::{Buffer, Kernel, Random, Value, assert_close};
use lily_kernels::reference::route;

const TOP_K: usize = 8;

/// What the four kernels make of logits.
pub(crate) struct Routed {
    pub(crate) ids: Vec<u32>,
    pub(crate) weights: Vec<f32>,
    pub(crate) token: Vec<u32>,
    pub(crate) weight: Vec<f32>,
    pub(crate) place: Vec<u32>,
    pub(crate) tile_map: Vec<u32>,
}

pub(crate) fn routed(logits: &[f32], rows: usize, experts: usize, ld: usize, tile: usize) -> Routed {
    let kernel =
        Kernel::new("route", &[("EXPERTS", experts as i64), ("TOP_K", TOP_K as i64), ("TILE", tile as i64)]);
    let (slots, blocks) = (rows * TOP_K, rows.div_ceil(32));
    let tiles = slots.div_ceil(tile) + experts;
    let params = [
        ("rows", Value::U(rows)),
        ("ld", Value::U(ld)),
        ("blocks", Value::U(blocks)),
        ("tiles", Value::U(tiles)),
    ];
    let words = |len: usize| Buffer::u32(&vec![u32::MAX; len]);
    let (mut ids, mut weights) = (words(slots), Buffer::floats(slots));
    kernel.run(
        "route_top_k",
        [rows.div_ceil(4), 1, 1],
        &mut [("logits", &mut Buffer::f32(logits)), ("ids", &mut ids), ("weights", &mut weights)],
        &params,
    );
    let (mut counts, mut offsets) = (words(blocks * experts), words(blocks * experts));
    kernel.run("route_count", [blocks, 1, 1], &mut [("ids", &mut ids), ("counts", &mut counts)], &params);
    let mut tile_map = words(4 * tiles);
    kernel.run(
        "route_scan",
        [1, 1, 1],
        &mut [("counts", &mut counts), ("offsets", &mut offsets), ("tile_map", &mut tile_map)],
        &params,
    );
    let (mut token, mut weight, mut place) = (words(slots), Buffer::floats(slots), words(slots));
    kernel.run(
        "route_scatter",
        [blocks, 1, 1],
        &mut [
            ("ids", &mut ids),
            ("weights", &mut weights),
            ("offsets", &mut offsets),
            ("token", &mut token),
            ("weight", &mut weight),
            ("place", &mut place),
        ],
        &params,
    );
    Routed {
        ids: ids.to_u32(),
        weights: weights.to_f32(),
        token: token.to_u32(),
        weight: weight.to_f32(),
        place: place.to_u32(),
        tile_map: tile_map.to_u32(),
    }
}

fn check(logits: &[f32], rows: usize, experts: usize, ld: usize, tile: usize) {
    let found = routed(logits, rows, experts, ld, tile);
    let mut by_expert: Vec<Vec<usize>> = vec![Vec::new(); experts];
    for row in 0..rows {
        let wanted = route(&logits[row * ld..row * ld + experts], TOP_K, true);
        let slots = row * TOP_K..(row + 1) * TOP_K;
        let ids: Vec<u32> = wanted.iter().map(|route| route.expert as u32).collect();
        assert_eq!(found.ids[slots.clone()], ids, "row {row}");
        let weights: Vec<f32> = wanted.iter().map(|route| route.weight).collect();
        assert_close(&found.weights[slots.clone()], &weights, 1e-5, "weights");
        wanted.iter().zip(slots).for_each(|(route, slot)| by_expert[route.expert].push(slot));
    }
    let sorted: Vec<usize> = by_expert.concat();
    for (at, &slot) in sorted.iter().enumerate() {
        assert_eq!(found.place[slot], at as u32, "place of slot {slot}");
        assert_eq!(found.token[at], (slot / TOP_K) as u32, "token at {at}");
        assert_eq!(found.weight[at], found.weights[slot], "weight at {at}");
    }
    // Tiles cover each expert's rows in order, none longer than allowed.
    let mut tiles = found.tile_map.chunks_exact(4);
    let mut first = 0;
    for (expert, slots) in by_expert.iter().enumerate() {
        let end = first + slots.len() as u32;
        while first < end {
            let tile_of = tiles.next().expect("a tile");
            assert_eq!(tile_of[..2], [expert as u32, first]);
            assert!(tile_of[2] > 0 && tile_of[2] <= tile as u32 && first + tile_of[2] <= end, "{tile_of:?}");
            first += tile_of[2];
        }
    }
    assert!(tiles.all(|tile| tile == [0; 4]), "the map ends with empty tiles");
}

#[test]
fn random_logits() {
    for (rows, experts, tile) in [(1, 32, 16), (31, 32, 64), (33, 256, 16), (65, 256, 128), (64, 40, 32)] {
        let ld = experts + 1;
        check(&Random::new(rows as u64).vec(rows * ld, 3.0), rows, experts, ld, tile);
    }
}

#[test]
fn all_rows_to_the_same_experts_and_ties_to_the_lower_one() {
    let (rows, experts) = (40, 32);
    let mut logits = vec![0.0; rows * experts];
    check(&logits, rows, experts, experts, 64);
    for row in logits.chunks_exact_mut(experts) {
        row[31] = 5.0;
    }
    check(&logits, rows, experts, experts, 16);
}

#[test]
fn logits_that_differ_in_the_last_digits_are_told_apart() {
    let logits: Vec<f32> = (0..256).map(|e| 3.0 - ((e * 37) % 256) as f32 * 1e-4).collect();
    check(&logits, 1, 256, 256, 16);
}

/// A broken model's logits break its answer, and nothing else: every slot has an expert, every place a slot.
#[test]
fn logits_that_are_no_numbers_lead_to_experts_all_the_same() {
    let (rows, experts, tile) = (5, 32, 16);
    let mut logits = Random::new(9).vec(rows * experts, 3.0);
    logits[..experts].fill(f32::NAN);
    logits[experts..2 * experts].fill(f32::NEG_INFINITY);
    logits[2 * experts + 3..3 * experts].fill(f32::NAN);
    logits[3 * experts + 7] = f32::INFINITY;
    let found = routed(&logits, rows, experts, experts, tile);
    for (row, ids) in found.ids.chunks_exact(TOP_K).enumerate() {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        assert!(ids.len() == TOP_K && ids.iter().all(|&id| id < experts as u32), "row {row}: {ids:?}");
    }
    let mut places = found.place;
    places.sort_unstable();
    assert!(places.iter().enumerate().all(|(at, &place)| place == at as u32), "{places:?}");
}
