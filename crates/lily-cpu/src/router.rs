//! Which experts each row goes to, and the rows of each expert.

use crate::{
    input::Input,
    machine::Machine,
    model::Moe,
    pool::{Chunks, Columns},
    simd::GEMM_ROWS,
};
use lily_checkpoint::MoeConfig;
use lily_engine::evaluation::ExpertChoices;
use std::ops::Range;

/// One row's way through one expert.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Route {
    /// The expert.
    pub expert: u32,
    /// The row.
    pub row: u32,
    /// What the expert's output is multiplied by.
    pub weight: f32,
}

/// Routes of all rows, grouped by expert.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    logits: Vec<f32>,
    chosen: Vec<Route>,
    /// Sorted by expert, then row.
    pub entries: Vec<Route>,
    /// The row of each entry.
    pub rows: Vec<u32>,
    /// The entries of each expert that has any.
    pub groups: Vec<Range<usize>>,
    counts: Vec<usize>,
}

/// Experts forced from outside: the choices, this layer, and the position of each row.
pub(crate) type Forced<'a> = Option<(&'a ExpertChoices, usize, &'a [usize])>;

impl Routing {
    /// Routes the first `rows` rows of `input`: f32 logits, softmax over all experts, the best by logit (the lower
    /// expert on a tie), renormalised.
    pub(crate) fn route(
        &mut self,
        machine: &mut Machine,
        dims: &MoeConfig,
        moe: &Moe,
        input: &Input,
        rows: usize,
        forced: Forced<'_>,
    ) {
        let (experts, count) = (dims.experts, dims.experts_per_token);
        self.logits.resize(rows * experts, 0.0);
        self.chosen.resize(rows * count, Route::default());
        let kernels = machine.kernels;
        let block = machine.units_per_task(experts, moe.router.bytes()).next_multiple_of(GEMM_ROWS);
        let parts = Columns::new(&mut self.logits, experts, block);
        machine.pool.for_each(parts, &mut machine.scratch, |index, mut tile, scratch| {
            let [sums] = scratch.take([rows * GEMM_ROWS]);
            for at in (0..tile.width()).step_by(GEMM_ROWS) {
                let count = GEMM_ROWS.min(tile.width() - at);
                let start = index * block + at;
                input.products_exact(kernels, &moe.router, start..start + count, 0..rows, sums);
                for (row, sums) in sums.chunks_exact(GEMM_ROWS).enumerate() {
                    tile.row_mut(row)[at..at + count].copy_from_slice(&sums[..count]);
                }
            }
        });
        let choose = |row: usize, logits: &mut [f32], chosen: &mut [Route]| {
            match forced.and_then(|(choices, layer, positions)| choices.of(layer, positions[row])) {
                Some(experts) => {
                    for (route, &expert) in chosen.iter_mut().zip(experts) {
                        route.expert = expert as u32;
                    }
                }
                None => top(logits, chosen),
            }
            kernels.softmax(logits);
            let sum: f32 = chosen.iter().map(|route| logits[route.expert as usize]).sum();
            let scale = if dims.norm_topk_prob { sum } else { 1.0 };
            for route in chosen {
                route.weight = logits[route.expert as usize] / scale;
                route.row = row as u32;
            }
        };
        if rows < 8 {
            let rows = self.logits.chunks_exact_mut(experts).zip(self.chosen.chunks_exact_mut(count));
            for (row, (logits, chosen)) in rows.enumerate() {
                choose(row, logits, chosen);
            }
        } else {
            let parts = (Chunks::new(&mut self.logits, experts), Chunks::new(&mut self.chosen, count));
            machine.pool.for_each_part(parts, |row, (logits, chosen)| choose(row, logits, chosen));
        }
        self.group(experts);
    }

    /// The expert of a group.
    pub(crate) fn expert(&self, group: &Range<usize>) -> usize {
        self.entries[group.start].expert as usize
    }

    /// Counting sort of the chosen routes by expert.
    fn group(&mut self, experts: usize) {
        self.counts.clear();
        self.counts.resize(experts + 1, 0);
        for route in &self.chosen {
            self.counts[route.expert as usize + 1] += 1;
        }
        for expert in 0..experts {
            self.counts[expert + 1] += self.counts[expert];
        }
        self.groups.clear();
        self.groups
            .extend(self.counts.windows(2).map(|pair| pair[0]..pair[1]).filter(|range| !range.is_empty()));
        self.entries.resize(self.chosen.len(), Route::default());
        for route in &self.chosen {
            let place = &mut self.counts[route.expert as usize];
            self.entries[*place] = *route;
            *place += 1;
        }
        self.rows.clear();
        self.rows.extend(self.entries.iter().map(|route| route.row));
    }
}

/// The `chosen.len()` largest logits, best first, the lower expert on a tie.
fn top(logits: &[f32], chosen: &mut [Route]) {
    let mut held = 0;
    for (expert, &logit) in logits.iter().enumerate() {
        let better = |other: u32| logit.total_cmp(&logits[other as usize]).is_gt();
        if held == chosen.len() && !better(chosen[held - 1].expert) {
            continue;
        }
        let place = chosen[..held].iter().position(|route| better(route.expert)).unwrap_or(held);
        held = (held + 1).min(chosen.len());
        chosen[place..held].rotate_right(1);
        chosen[place].expert = expert as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lily_kernels::reference::route;

    #[test]
    fn the_choice_is_the_references() {
        let mut seed = 1u32;
        for round in 0..200 {
            let logits: Vec<f32> = (0..64)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Coarse, so that ties are common.
                    (seed >> 28) as f32 * if round % 2 == 0 { 1.0 } else { 1e-4 }
                })
                .collect();
            let mut chosen = vec![Route::default(); 8];
            top(&logits, &mut chosen);
            let expected: Vec<u32> =
                route(&logits, 8, true).iter().map(|route| route.expert as u32).collect();
            assert_eq!(chosen.iter().map(|route| route.expert).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn groups_hold_every_route_once() {
        let mut routing = Routing::default();
        let route = |expert, row| Route { expert, row, weight: 1.0 };
        routing.chosen = vec![route(3, 0), route(1, 0), route(3, 1), route(0, 1)];
        routing.group(5);
        assert_eq!(routing.entries, [route(0, 1), route(1, 0), route(3, 0), route(3, 1)]);
        assert_eq!(routing.groups, [0..1, 1..2, 2..4]);
    }
}
