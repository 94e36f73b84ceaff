//! The attention mixer of a chunk.

use super::{
    Chunk, ChunkPass,
    products::{Into, Strided, parts},
};
use crate::{GpuError, KvState, View, weights::AttentionWeights};
use std::ops::Range;

/// Floating-point operations of `rows` rows of queries, `queries` elements each, from `position` on: two products with
/// every position up to each row's own.
fn attention_operations(rows: usize, position: usize, queries: usize) -> u64 {
    let pairs = rows as u64 * (position as u64 + 1) + rows as u64 * (rows as u64 - 1) / 2;
    4 * queries as u64 * pairs
}

/// A chunk's rows in runs of at most `most` operations, each a multiple of `block` rows but the last; never less than a
/// block.
fn row_parts(chunk: Chunk, block: usize, queries: usize, most: Option<u64>) -> Vec<Range<usize>> {
    let Some(most) = most else { return std::iter::once(0..chunk.rows).collect() };
    let (mut parts, mut first) = (Vec::new(), 0);
    while first < chunk.rows {
        let fits = |blocks: usize| {
            let rows = (blocks * block).min(chunk.rows - first);
            attention_operations(rows, chunk.position + first, queries) <= most
        };
        // The number that fits is at most what fits without the rows' own positions.
        let each = attention_operations(block, chunk.position + first, queries);
        let mut blocks = (most / each.max(1)).clamp(1, (chunk.rows - first).div_ceil(block) as u64) as usize;
        while blocks > 1 && !fits(blocks) {
            blocks -= 1;
        }
        let end = (first + blocks * block).min(chunk.rows);
        parts.push(first..end);
        first = end;
    }
    parts
}

impl ChunkPass<'_> {
    /// `residual += out_proj(mixer(norm(residual)))`; appends the chunk's keys and values.
    pub(super) fn attention(
        &mut self,
        norm: &View,
        w: &AttentionWeights,
        state: &KvState,
    ) -> Result<(), GpuError> {
        let (config, t, rows) = (&self.model.config, self.temporaries, self.chunk.rows);
        let (shape, hidden) = (&config.attention, config.hidden_size);
        let (heads, kv_heads, dim) = (shape.heads, shape.kv_heads, shape.head_dim);
        let (queries, wide) = (heads * dim, 2 * (heads + kv_heads) * dim);
        let permuted = self.routes.are_register_operands(&w.in_proj);
        self.norm(norm, permuted, "attention.norm")?;

        let (normed, projected) = (t.normed.of(rows), t.projected.of(rows).slice(0, 2 * wide * rows));
        let x = (Strided { view: &normed, ld: hidden }, permuted);
        for (first, matrix) in parts(&w.in_proj, 0..wide) {
            let y = projected.slice(2 * first, 2 * (wide * rows - first));
            self.product(x, &matrix, Strided { view: &y, ld: wide }, Into::Bf16, "attention.in_proj")?;
        }

        let shape_constants = [("HEADS", heads as i64), ("KV_HEADS", kv_heads as i64), ("HEAD", dim as i64)];
        let (kv_head, kv_row) = (self.capacity * dim, dim);
        let q = t.q.of(rows).slice(0, 2 * queries * rows);
        let mut constants = shape_constants.to_vec();
        constants.push(("ROTARY", shape.rotary_dim as i64));
        let kernel = self.model.kernel("qk_rows", &constants, "qk_rows")?;
        let written = 2 * rows * kv_heads * dim;
        self.recorder
            .dispatch(&kernel, [((heads + 2 * kv_heads) * rows).div_ceil(4) as u32, 1, 1])
            .bind("x", &projected)
            .traffic("x", 2 * (heads + 2 * kv_heads) * dim * rows, 0)
            .bind("q_gain", &w.q_norm)
            .bind("k_gain", &w.k_norm)
            .bind("turns", &self.model.weights.rotary)
            .bind("q", &q)
            .bind("keys", &state.keys)
            .traffic("keys", 0, written)
            .bind("values", &state.values)
            .traffic("values", 0, written)
            .param("rows", rows)
            .param("ldx", wide)
            .param("position", self.chunk.position)
            .param("kv_head", kv_head)
            .param("kv_row", kv_row)
            .param("eps", config.rms_norm_eps)
            .label("attention.qk");

        let out_permuted = self.routes.is_register_operand(&w.out_proj);
        let mut constants = shape_constants.to_vec();
        constants.push(("PERMUTED", i64::from(out_permuted)));
        let (file, block) = if self.routes.has_attention_override(dim) {
            ("attention_rows_wgmma", 128)
        } else {
            (self.routes.attention_file(dim), 32)
        };
        let kernel = self.model.kernel(file, &constants, "attention_rows")?;
        let mixed = t.mixed.of(rows).slice(0, 2 * queries * rows);
        for part in row_parts(self.chunk, block, queries, self.model.operations) {
            let (first, rows, position) = (part.start, part.len(), self.chunk.position + part.start);
            let of = |view: &View, ld: usize| view.slice(2 * first * ld, view.bytes() - 2 * first * ld);
            let context = 2 * kv_heads * dim * (position + rows);
            self.recorder
                .dispatch(&kernel, [rows.div_ceil(block) as u32, heads as u32, 1])
                .bind("q", &q.slice(2 * first * queries, 2 * rows * queries))
                .bind("keys", &state.keys)
                .traffic("keys", context, 0)
                .bind("values", &state.values)
                .traffic("values", context, 0)
                .bind("x", &of(&projected, wide))
                .traffic("x", 2 * queries * rows, 0)
                .bind("y", &mixed.slice(2 * first * queries, 2 * rows * queries))
                .param("rows", rows)
                .param("ldx", wide)
                .param("position", position)
                .param("kv_head", kv_head)
                .param("kv_row", kv_row)
                .param("scale", (dim as f32).powf(-0.5))
                .operations(attention_operations(rows, position, queries))
                .label("attention.attend");
        }

        let residual = t.residual.of(rows);
        self.product(
            (Strided { view: &mixed, ld: queries }, out_permuted),
            &w.out_proj,
            Strided { view: &residual, ld: hidden },
            Into::Residual,
            "attention.out_proj",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(feature = "emulator")]
    use crate::GpuModel;

    #[test]
    fn rows_are_parted_where_there_is_a_limit() {
        let chunk = |rows, position| Chunk { rows, position };
        let whole = row_parts(chunk(4096, 131_072), 32, 4096, None);
        assert!(whole.len() == 1 && whole[0] == (0..4096), "{whole:?}");
        for (rows, position, most) in [
            (4096, 126_976, 160_000_000_000),
            (4096, 0, 160_000_000_000),
            (33, 5, 1),
            (1, 0, 1),
            (100, 7, u64::MAX),
        ] {
            let parts = row_parts(chunk(rows, position), 32, 4096, Some(most));
            let mut end = 0;
            for part in &parts {
                assert!(part.start == end && part.end > part.start, "{parts:?}");
                let operations = attention_operations(part.len(), position + part.start, 4096);
                assert!(operations <= most || part.len() <= 32, "{part:?}: {operations}");
                assert!(part.len().is_multiple_of(32) || part.end == rows, "{part:?}");
                end = part.end;
            }
            assert_eq!(end, rows);
        }
        let parts = |rows, position| row_parts(chunk(rows, position), 32, 4096, Some(160_000_000_000)).len();
        assert_eq!((parts(512, 0), parts(4096, 4096), parts(4096, 258_048)), (1, 3, 128));
    }

    #[test]
    fn operations_are_counted_by_pairs() {
        // Rows at positions 3 and 4 look at 4 and 5 positions.
        assert_eq!(attention_operations(2, 3, 10), 4 * 10 * 9);
        assert_eq!(attention_operations(1, 0, 1), 4);
    }

    /// The first attention layer of nano over rows after others, launched whole and in parts: the same bits.
    #[cfg(feature = "emulator")]
    #[test]
    fn parts_compute_what_the_whole_computes() {
        use crate::{
            Device, LayerState, Pass, Recorder, StateBuffers, Switches,
            device::EmulatorDevice,
            plan::prefill::{PrefillTemporaries, routes::Routes},
            weights::{MixerWeights, WeightPlan},
        };
        use lily_kernels::emulator::Checks;
        use std::sync::Arc;

        let chunk = Chunk { rows: 70, position: 5 };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
        let checkpoint = lily_checkpoint::Checkpoint::open(folder.as_ref()).unwrap();
        let device: Arc<dyn Device> = Arc::new(EmulatorDevice::new(Checks::Full));
        let config = &checkpoint.config;
        let weights = WeightPlan::new(&checkpoint).unwrap().load(&*device).unwrap();
        let mut model = GpuModel::new(device.clone(), config.clone(), weights, Switches::default());
        let temporaries = PrefillTemporaries::new(&*device, config, chunk.rows, 1).unwrap();
        let residual = temporaries.residual.of(chunk.rows);
        let start: Vec<u8> = (0..residual.bytes() as u32 / 4)
            .flat_map(|i| ((i.wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0 - 0.5).to_le_bytes())
            .collect();
        let mut run = |most: Option<u64>| {
            model.operations = most;
            let state = StateBuffers::new(&*device, config, 128).unwrap();
            let routes = Routes::new(&model).unwrap();
            let mut recorder = Recorder::new();
            let mut pass = ChunkPass {
                recorder: &mut recorder,
                model: &model,
                temporaries: &temporaries,
                chunk,
                routes,
                capacity: state.capacity,
            };
            let layers = model.weights.layers.iter().zip(&state.layers);
            let (layer, kv) = layers
                .filter_map(|(layer, state)| match state {
                    LayerState::Attention(kv) => Some((layer, kv)),
                    LayerState::Gdn(_) => None,
                })
                .next()
                .unwrap();
            let MixerWeights::Attention(attention) = &layer.mixer else { panic!("another mixer") };
            pass.attention(&layer.input_norm, attention, kv).unwrap();
            let recording = recorder.finish().unwrap();
            let launches =
                recording.dispatches().iter().filter(|one| one.label == "attention.attend").count();
            device.upload(&residual, &start).unwrap();
            let ticket = device.run(&recording, Pass::Concurrent).unwrap();
            device.wait(ticket).unwrap();
            let mut found = vec![0; residual.bytes()];
            device.download(&residual, &mut found).unwrap();
            (launches, recording.levels(), found)
        };
        let (whole, parted) = (run(None), run(Some(1)));
        assert_eq!((whole.0, parted.0, whole.1), (1, 3, parted.1));
        assert!(whole.2 == parted.2 && whole.2 != start);
    }
}
