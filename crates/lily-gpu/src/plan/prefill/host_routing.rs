//! Without `gpu-routing`: the host reads the router's logits after each layer's first half, chooses, sorts, and writes the
//! lists that the routing kernels would have left. The device waits for the host once per layer.

use super::{
    Chunk, On, PrefillTemporaries, Routes,
    moe::{Grouped, tiles_of},
};
use crate::{GpuError, GpuModel, Pass, Recorder, StateBuffers};

/// What the grouped products read.
struct Lists {
    token: Vec<u32>,
    weight: Vec<f32>,
    place: Vec<u32>,
    /// Four words a tile.
    tile_map: Vec<u32>,
}

/// Runs a chunk through all layers, as [`super::record_chunk`] records it.
///
/// # Errors
/// As there, and the device's.
pub fn run_chunk_routed_by_host(
    model: &GpuModel,
    state: &StateBuffers,
    temporaries: &PrefillTemporaries,
    chunk: Chunk,
    pass: Pass,
) -> Result<(), GpuError> {
    super::check(temporaries, state, chunk)?;
    let routes = Routes::new(model)?;
    let device = &*model.device;
    let mut recorder = Recorder::new();
    let on = On { model, temporaries, chunk, routes, capacity: state.capacity };
    on.pass(&mut recorder).embed()?;
    for (layer, layer_state) in model.weights.layers.iter().zip(&state.layers) {
        let mut first_half = on.pass(&mut recorder);
        first_half.mixer(layer, layer_state)?;
        let grouped = first_half.before_routing(&layer.post_norm, &layer.moe)?;
        device.run(&std::mem::take(&mut recorder).finish()?, pass)?;
        let logits = temporaries.router.of(chunk.rows);
        let mut bytes = vec![0; logits.bytes()];
        device.download(&logits, &mut bytes)?;
        let logits: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let lists = Lists::new(model, &logits, grouped);
        let slots = lists.token.len();
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let weights: Vec<u8> = lists.weight.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        device.upload(&temporaries.token.of(slots), &words(&lists.token))?;
        device.upload(&temporaries.weight.of(slots), &weights)?;
        device.upload(&temporaries.place.of(slots), &words(&lists.place))?;
        device.upload(&temporaries.tile_map.of(grouped.tiles), &words(&lists.tile_map))?;
        on.pass(&mut recorder).after_routing(&layer.moe, grouped)?;
    }
    device.run(&recorder.finish()?, pass)?;
    Ok(())
}

impl Lists {
    fn new(model: &GpuModel, logits: &[f32], grouped: Grouped) -> Self {
        let moe = &model.config.moe;
        let mut by_expert: Vec<Vec<(u32, f32)>> = vec![Vec::new(); moe.experts];
        for (row, logits) in logits.chunks_exact(moe.experts + 1).enumerate() {
            let chosen = choose(&logits[..moe.experts], moe.experts_per_token, moe.norm_topk_prob);
            for (place, (expert, weight)) in chosen.into_iter().enumerate() {
                by_expert[expert].push(((row * moe.experts_per_token + place) as u32, weight));
            }
        }
        let slots = by_expert.iter().map(Vec::len).sum();
        let (mut token, mut weight) = (Vec::with_capacity(slots), Vec::with_capacity(slots));
        let (mut place, mut tile_map) = (vec![0; slots], Vec::with_capacity(4 * grouped.tiles));
        for (expert, slots) in by_expert.iter().enumerate() {
            for tile in tiles_of(slots.len(), grouped.tile) {
                let first = (token.len() + tile.start) as u32;
                tile_map.extend([expert as u32, first, tile.len() as u32, 0]);
            }
            for &(slot, share) in slots {
                place[slot as usize] = token.len() as u32;
                token.push(slot / moe.experts_per_token as u32);
                weight.push(share);
            }
        }
        tile_map.resize(4 * grouped.tiles, 0);
        Self { token, weight, place, tile_map }
    }
}

/// The best experts with their weights, best first, the lower one on a tie.
fn choose(logits: &[f32], count: usize, renormalise: bool) -> Vec<(usize, f32)> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    let best = order.first().map_or(0.0, |&expert| logits[expert]);
    let share = |expert: usize| (logits[expert] - best).exp();
    let among = if renormalise { &order[..count.min(order.len())] } else { &order[..] };
    let sum: f32 = among.iter().map(|&expert| share(expert)).sum();
    order.iter().take(count).map(|&expert| (expert, share(expert) / sum)).collect()
}

#[cfg(test)]
mod tests {
    use super::{choose, tiles_of};

    #[test]
    fn the_best_come_first_and_their_weights_sum_to_one() {
        let logits = [0.0, 3.0_f32.ln(), 0.0, 5.0_f32.ln()];
        let (two, plain) = (choose(&logits, 2, true), choose(&logits, 2, false));
        assert_eq!((two[0].0, two[1].0), (3, 1));
        assert!((two[0].1 - 0.625).abs() < 1e-6 && (two[1].1 - 0.375).abs() < 1e-6);
        assert!((plain[0].1 - 0.5).abs() < 1e-6 && (plain[1].1 - 0.3).abs() < 1e-6);
        assert_eq!(choose(&[1.0; 4], 2, true).iter().map(|one| one.0).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn tiles_are_of_about_one_size() {
        let tiles = |rows| -> Vec<(usize, usize)> {
            tiles_of(rows, 128).into_iter().map(|tile| (tile.start, tile.end)).collect()
        };
        assert!(tiles(0).is_empty());
        assert_eq!(tiles(1), [(0, 1)]);
        assert_eq!(tiles(140), [(0, 80), (80, 140)]);
        assert_eq!(tiles(128), [(0, 128)]);
    }
}
