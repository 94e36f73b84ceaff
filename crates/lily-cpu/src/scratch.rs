//! Small buffers that a thread keeps for itself: large enough for decoding from the start, grown when prefill asks for more.

use crate::{activations::QuantRows, kv::PAGE, simd::GEMM_ROWS};
use lily_checkpoint::ModelConfig;

/// One thread's buffers. Contents do not survive a task.
pub(crate) struct Scratch {
    buffers: [Vec<f32>; 8],
    gathered: Option<QuantRows>,
}

impl Scratch {
    /// Buffers in which `rows` sequences of the model can each take a step.
    pub(crate) fn new(config: &ModelConfig, rows: usize) -> Self {
        let (attention, gdn) = (&config.attention, &config.gated_delta_net);
        let group = attention.heads / attention.kv_heads;
        let heads = group * attention.head_dim.max(PAGE);
        let least = heads.max(gdn.key_head_dim).max(gdn.value_head_dim).max(rows * GEMM_ROWS);
        Self { buffers: std::array::from_fn(|_| vec![0.0; least]), gathered: None }
    }

    /// `N` buffers of the given lengths, contents undefined.
    pub(crate) fn take<const N: usize>(&mut self, lengths: [usize; N]) -> [&mut [f32]; N] {
        let mut buffers = self.buffers.iter_mut();
        lengths.map(|length| grown(buffers.next(), length))
    }

    /// Copies of `rows` of `from`, one after the other, beside `N` buffers as from [`Scratch::take`].
    pub(crate) fn gather<const N: usize>(
        &mut self,
        from: &QuantRows,
        rows: &[u32],
        lengths: [usize; N],
    ) -> (&QuantRows, [&mut [f32]; N]) {
        let gathered = self.gathered.get_or_insert_with(|| from.like(rows.len()));
        gathered.copy_rows(from, rows);
        let mut buffers = self.buffers.iter_mut();
        (gathered, lengths.map(|length| grown(buffers.next(), length)))
    }
}

fn grown(buffer: Option<&mut Vec<f32>>, length: usize) -> &mut [f32] {
    let buffer = buffer.expect("a task takes no more buffers than there are");
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}
