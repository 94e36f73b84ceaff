//! What a chunk's launches hand to each other: one arena, sized by the longest chunk and never by the prompt.

use crate::{Buffer, Device, GpuError, View};
use lily_checkpoint::ModelConfig;
use std::sync::Mutex;

/// Rows of a chunk that one threadgroup of the routing kernels takes.
pub(super) const ROUTE_ROWS: usize = 32;
/// Rows of a block of the recurrence's matrix form.
pub(super) const SCAN_BLOCK: usize = 64;
/// The smallest row tile of a grouped product: bounds the length of the tile map.
const LEAST_TILE: usize = 16;

/// Rows of one kind: a place for the longest chunk, of which a shorter one takes the front.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    view: View,
    row_bytes: usize,
}

impl Rows {
    /// The first `rows` of them.
    pub(super) fn of(&self, rows: usize) -> View {
        self.view.slice(0, rows * self.row_bytes)
    }
}

/// Buffers of prefill, for chunks of up to so many rows.
pub struct PrefillTemporaries {
    /// Ids of the chunk, u32 `[rows]`: the host writes them.
    pub tokens: View,
    /// f32 `[rows of logits, vocab]`.
    pub logits: View,
    /// Where whole matrices go without `fused-dequant`: two places, made when first needed.
    pub(super) dequantised: Mutex<Option<[View; 2]>>,
    /// Most rows of a chunk.
    pub(super) limit: usize,
    /// Most rows of logits at a time.
    pub(super) logit_rows: usize,
    /// The residual stream, f32 `[rows, hidden]`.
    pub(super) residual: Rows,
    /// Normed, bf16 `[rows, hidden]`.
    pub(super) normed: Rows,
    /// 1 / rms of each row, f32.
    pub(super) scale: Rows,
    /// Results of the input projection, bf16.
    pub(super) projected: Rows,
    /// `[b | a]` of Gated DeltaNet, f32 `[rows, 2 value_heads]`.
    pub(super) gates: Rows,
    /// bf16 `[rows, heads, dim]`.
    pub(super) q: Rows,
    /// bf16 `[rows, key_heads, dim]`.
    pub(super) k: Rows,
    /// bf16 `[rows, value_heads, dim]`.
    pub(super) v: Rows,
    /// What the recurrence reads out, bf16 `[rows, value_heads, dim]`.
    pub(super) read_out: Rows,
    /// The matrix form's W, U and K'^T, bf16 `[blocks, value_heads, 64, dim]`, and M, bf16 `[blocks, value_heads, 64, 64]`.
    pub(super) matrix_form: [Rows; 4],
    /// Its gamma, f32 `[blocks, value_heads, 64]`.
    pub(super) gamma: Rows,
    /// Input of the output projection, bf16.
    pub(super) mixed: Rows,
    /// f32 `[rows, experts + 1]`: the router, then the shared expert's gate.
    pub(super) router: Rows,
    /// Chosen experts, u32 `[rows, experts per token]`, best first.
    pub(super) ids: Rows,
    /// Their weights, f32.
    pub(super) weights: Rows,
    /// Slots per block of rows and expert, u32 `[blocks, experts]`.
    pub(super) counts: Rows,
    /// Where those begin, u32 `[blocks, experts]`.
    pub(super) offsets: Rows,
    /// Row tiles of the grouped products, u32 `[tiles, 4]`.
    pub(super) tile_map: Rows,
    /// Row of each sorted position, u32 `[slots]`.
    pub(super) token: Rows,
    /// Routing weight of each sorted position, f32 `[slots]`.
    pub(super) weight: Rows,
    /// Sorted position of each slot, u32 `[slots]`.
    pub(super) place: Rows,
    /// Inner activations of the routed experts, bf16 `[slots, inner]`.
    pub(super) inner: Rows,
    /// Their results, bf16 `[slots, hidden]`.
    pub(super) outer: Rows,
    /// Inner activations of the shared expert, bf16 `[rows, shared_inner]`.
    pub(super) shared: Rows,
}

/// Hands out places one behind the other: first without a buffer, to know the size, then in one.
struct Arena {
    buffer: Option<Buffer>,
    at: usize,
}

impl Arena {
    fn place(&mut self, rows: usize, row_bytes: usize) -> Option<Rows> {
        let (at, bytes) = (self.at, rows * row_bytes);
        self.at += bytes.next_multiple_of(256);
        self.buffer.as_ref().map(|buffer| Rows { view: buffer.view(at, bytes), row_bytes })
    }
}

impl PrefillTemporaries {
    /// Most rows of a chunk.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes for chunks of up to `rows` rows and `logit_rows` rows of logits at a time.
    pub fn bytes(config: &ModelConfig, rows: usize, logit_rows: usize) -> u64 {
        let mut arena = Arena { buffer: None, at: 0 };
        Self::place(&mut arena, config, rows, logit_rows);
        arena.at as u64
    }

    /// Allocates them.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn new(
        device: &dyn Device,
        config: &ModelConfig,
        rows: usize,
        logit_rows: usize,
    ) -> Result<Self, GpuError> {
        let bytes = usize::try_from(Self::bytes(config, rows, logit_rows)).unwrap_or(usize::MAX);
        let label = "prefill temporaries";
        let mut arena = Arena { buffer: Some(device.allocate(bytes, label)?), at: 0 };
        Self::place(&mut arena, config, rows, logit_rows).ok_or_else(|| GpuError::OutOfMemory {
            bytes,
            label: label.to_owned(),
            detail: String::new(),
        })
    }

    fn place(arena: &mut Arena, config: &ModelConfig, rows: usize, logit_rows: usize) -> Option<Self> {
        let (hidden, moe) = (config.hidden_size, &config.moe);
        let (attention, gdn) = (&config.attention, &config.gated_delta_net);
        let keys = gdn.key_heads * gdn.key_head_dim;
        let values = gdn.value_heads * gdn.value_head_dim;
        let queries = attention.heads * attention.head_dim;
        let projected = (2 * keys + 2 * values).max(2 * (queries + attention.kv_heads * attention.head_dim));
        let (blocks, slots) = (rows.div_ceil(ROUTE_ROWS), rows * moe.experts_per_token);
        let tiles = slots.div_ceil(LEAST_TILE) + moe.experts;
        let mut rows_of = |row_bytes: usize| arena.place(rows, row_bytes);
        let per_row = [
            rows_of(4),
            rows_of(4 * hidden),
            rows_of(2 * hidden),
            rows_of(4),
            rows_of(2 * projected),
            rows_of(4 * 2 * gdn.value_heads),
            rows_of(2 * queries.max(keys)),
            rows_of(2 * keys),
            rows_of(2 * values),
            rows_of(2 * values),
            rows_of(2 * values.max(queries)),
            rows_of(4 * (moe.experts + 1)),
            rows_of(4 * moe.experts_per_token),
            rows_of(4 * moe.experts_per_token),
            rows_of(2 * moe.shared_inner),
        ];
        let rest = [
            arena.place(blocks, 4 * moe.experts),
            arena.place(blocks, 4 * moe.experts),
            arena.place(tiles, 16),
            arena.place(slots, 4),
            arena.place(slots, 4),
            arena.place(slots, 4),
            arena.place(slots, 2 * moe.inner),
            arena.place(slots, 2 * hidden),
            arena.place(logit_rows, 4 * config.vocab_size),
        ];
        let (scan_blocks, block) = (rows.div_ceil(SCAN_BLOCK), SCAN_BLOCK * gdn.value_heads);
        let matrix_form = [
            arena.place(scan_blocks, 2 * block * gdn.key_head_dim),
            arena.place(scan_blocks, 2 * block * gdn.value_head_dim),
            arena.place(scan_blocks, 2 * block * gdn.key_head_dim),
            arena.place(scan_blocks, 2 * block * SCAN_BLOCK),
        ];
        let gamma = arena.place(scan_blocks, 4 * block);
        let [
            tokens,
            residual,
            normed,
            scale,
            projected,
            gates,
            q,
            k,
            v,
            read_out,
            mixed,
            router,
            ids,
            weights,
            shared,
        ] = per_row;
        let [counts, offsets, tile_map, token, weight, place, inner, outer, logits] = rest;
        let [w, u, kt, m] = matrix_form;
        Some(Self {
            matrix_form: [w?, u?, kt?, m?],
            gamma: gamma?,
            tokens: tokens?.view,
            logits: logits?.view,
            dequantised: Mutex::default(),
            limit: rows,
            logit_rows,
            residual: residual?,
            normed: normed?,
            scale: scale?,
            projected: projected?,
            gates: gates?,
            q: q?,
            k: k?,
            v: v?,
            read_out: read_out?,
            mixed: mixed?,
            router: router?,
            ids: ids?,
            weights: weights?,
            counts: counts?,
            offsets: offsets?,
            tile_map: tile_map?,
            token: token?,
            weight: weight?,
            place: place?,
            inner: inner?,
            outer: outer?,
            shared: shared?,
        })
    }
}
